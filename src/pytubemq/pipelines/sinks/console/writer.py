"""Rows on the screen, for looking: the first of each batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.pipelines.analysis.guarantees import promise_of
from pytubemq.pipelines.file.secrets import resolve
from pytubemq.pipelines.sinks.console.kind import ROWS
from pytubemq.pipelines.sinks.json_text import json_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from pytubemq.pipelines.file.model import Sink
    from pytubemq.pipelines.sinks.sink_writer import SinkContext, SinkWriter

FIRST_ROWS: Final = 20
"""Rows of a batch that are printed where the file says nothing else."""


def make_writer(spec: Sink) -> SinkWriter:
    """Make the writer of a sink."""
    return ConsoleSink(spec)


class ConsoleSink:
    """The sink `console`: one JSON object a line; option `rows` says how many of a batch."""

    def __init__(self, spec: Sink) -> None:
        self.spec = spec
        self.guarantee = promise_of(spec).guarantee
        given = {name.lower(): resolve(value) for name, value in spec.options.items()}
        self._rows = int(given.get(ROWS, FIRST_ROWS))

    def check(self, spark: SparkSession, schema: StructType | None) -> None:
        """Accept everything: the screen is always there."""

    def write(self, rows: DataFrame, batch_id: int, context: SinkContext) -> int:
        """Print the first rows and how many there are."""
        count = rows.count()
        for row in rows.limit(self._rows).select(json_of(rows.columns).alias("line")).collect():
            print(row.line)
        if count > self._rows:
            print(f"... and {count - self._rows} more rows of batch {batch_id}")
        return count

    def done(self, batch_id: int, context: SinkContext) -> int | None:
        """Return None: nothing is remembered of what was printed."""
        return None
