"""Dead letters as rows that their target takes whatever a bad record holds.

The invariant: nothing that a record holds decides where its dead letter goes or whether it can be written, so a bad
record never stops a pipeline by itself; each dead letter is kept whole.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pytubemq.pipelines.file.model import SinkFormat
from pytubemq.pipelines.sinks.jdbc.sink import JdbcSink
from pytubemq.pipelines.sinks.json_text import json_of
from pytubemq.pipelines.sinks.parquet import ParquetBatches
from pytubemq.pipelines.sinks.tubemq import TubeMqSink
from pytubemq.pipelines.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from pytubemq.pipelines.file.model import Guarantee, Sink
    from pytubemq.pipelines.sinks.port import SinkContext

LONGEST_BYTES: Final = 1_000_000
"""Of a dead letter in a topic: each takes messages of 1 MiB, and what tells the message from others needs room, too."""
ATTRIBUTES: Final = "attributes"
LONGEST_ATTRIBUTES: Final = 30_000
"""Characters of them in a database: Derby takes no longer text."""


class TopicLetters:
    """Dead letters in a topic, each as one JSON object, and in files beside the state those that are too long for it.

    Their columns `topic` and `attributes` tell of the record. As columns of a message they would say where it goes and
    what it is, so there is none but `body`.
    """

    def __init__(self, spec: Sink) -> None:
        """`spec.path` is where those lie that are too long."""
        self.spec = spec
        self._topic = TubeMqSink(spec)
        self._files = ParquetBatches(replace(spec, format=SinkFormat.PARQUET, options={}))

    @property
    def guarantee(self) -> Guarantee:
        """That of the topic: the files keep each row once."""
        return self._topic.guarantee

    def check(self, spark: SparkSession, schema: StructType | None) -> None:
        """See that the Master knows the topic, and that files can be made."""
        from pyspark.sql.types import StringType, StructField, StructType

        self._topic.check(spark, StructType([StructField("body", StringType())]))
        self._files.check(spark, schema)

    def write(self, rows: DataFrame, batch_id: int, context: SinkContext) -> int:
        """Send what fits; write the rest into the batch's directory, if there is any."""
        from pyspark.sql import functions as f

        as_json = json_of(rows.columns)
        fits = f.octet_length(as_json) <= LONGEST_BYTES
        written = 0
        too_long = rows.where(~fits)
        if not too_long.isEmpty():
            written = self._files.write(too_long, batch_id, context)
        return written + self._topic.write(rows.where(fits).select(as_json.alias("body")), batch_id, context)

    def done(self, batch_id: int, context: SinkContext) -> int | None:
        """A topic cannot be asked."""
        return None


class DatabaseLetters:
    """Dead letters in a table of a database, which has no type for a map: their attributes are JSON there."""

    def __init__(self, spec: Sink) -> None:
        self.spec = spec
        self._table = JdbcSink(spec)

    @property
    def guarantee(self) -> Guarantee:
        """That of the database."""
        return self._table.guarantee

    def check(self, spark: SparkSession, schema: StructType | None) -> None:
        """As for other rows."""
        self._table.check(spark, None if schema is None else _in_database(spark.createDataFrame([], schema)).schema)

    def write(self, rows: DataFrame, batch_id: int, context: SinkContext) -> int:
        """As for other rows."""
        return self._table.write(_in_database(rows), batch_id, context)

    def done(self, batch_id: int, context: SinkContext) -> int | None:
        """As for other rows."""
        return self._table.done(batch_id, context)


def _in_database(rows: DataFrame) -> DataFrame:
    """Attributes as JSON, or how long they are."""
    from pyspark.sql import functions as f

    as_json = f.to_json(ATTRIBUTES)
    many = f.to_json(f.create_map(f.lit(""), f.concat(f.length(as_json), f.lit(" characters, left out"))))
    columns = []
    for field in rows.schema:
        column = f.col(quoted(field.name))
        if field.name == ATTRIBUTES:
            column = f.when(f.length(as_json) <= LONGEST_ATTRIBUTES, as_json).when(column.isNotNull(), many)
        columns.append(column.alias(field.name))
    return rows.select(*columns)
