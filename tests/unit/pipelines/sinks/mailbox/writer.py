"""Letters in a mailbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.pipelines.file.model import Guarantee

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from pytubemq.pipelines.file.model import Sink
    from pytubemq.pipelines.sinks.port import SinkContext, SinkWriter


def make_writer(spec: Sink) -> SinkWriter:
    """Make the writer of a sink."""
    return Mailbox(spec)


class Mailbox:
    """The sink `mailbox`."""

    def __init__(self, spec: Sink) -> None:
        self.spec = spec
        self.letters: list[str] = []

    @property
    def guarantee(self) -> Guarantee:
        """Exactly once where letters are registered."""
        return Guarantee.EXACTLY_ONCE if "registered" in self.spec.options else Guarantee.AT_LEAST_ONCE

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
