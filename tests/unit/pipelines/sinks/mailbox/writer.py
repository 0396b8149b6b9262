"""Letters in a mailbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.pipelines.analysis.guarantees import promise_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from pytubemq.pipelines.file.model import Sink
    from pytubemq.pipelines.sinks.sink_writer import SinkContext, SinkWriter


def make_writer(spec: Sink) -> SinkWriter:
    """Make the writer of a sink."""
    return Mailbox(spec)


class Mailbox:
    """The sink `mailbox`."""

    def __init__(self, spec: Sink) -> None:
        self.spec = spec
        self.guarantee = promise_of(spec).guarantee
        self.letters: list[str] = []

    def check(self, spark: SparkSession, schema: StructType | None) -> None:
        """A mailbox takes everything."""

    def write(self, rows: DataFrame, batch_id: int, context: SinkContext) -> int:
        """Post each row as a letter."""
        posted = [str(row) for row in rows.collect()]
        self.letters += posted
        return len(posted)

    def done(self, batch_id: int, context: SinkContext) -> int | None:
        """It remembers nothing."""
        return None
