"""Rows on the screen, for looking: the first of each batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.errors import ConfigError
from pytubemq.spark.pipeline.sinks.json_text import json_of
from pytubemq.spark.pipeline.spec.model import Guarantee

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from pytubemq.spark.pipeline.sinks.port import SinkContext
    from pytubemq.spark.pipeline.spec.model import Sink

ROWS: Final = 20
MAX_ROWS: Final = 10_000


class ConsoleSink:
    """The sink `console`: one JSON object a line; option `rows` says how many of a batch."""

    guarantee = Guarantee.AT_LEAST_ONCE

    def __init__(self, spec: Sink) -> None:
        self.spec = spec
        text = spec.options.get("rows", str(ROWS))
        if not text.isdecimal() or not 0 < int(text) <= MAX_ROWS:
            raise ConfigError(f"sink {spec.name}: rows = {text!r} is not a number from 1 to {MAX_ROWS}")
        self._rows = int(text)

    def check(self, spark: SparkSession, schema: StructType | None) -> None:
        """The screen is always there."""

    def write(self, rows: DataFrame, batch_id: int, context: SinkContext) -> int:
        """Print the first rows and how many there are."""
        count = rows.count()
        for row in rows.limit(self._rows).select(json_of(rows.columns).alias("line")).collect():
            print(row.line)
        if count > self._rows:
            print(f"... and {count - self._rows} more rows of batch {batch_id}")
        return count

    def done(self, batch_id: int, context: SinkContext) -> int | None:
        """What was printed is not remembered."""
        return None
