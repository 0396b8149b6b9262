"""Dead letters in a table of a database, which has no type for a map.

The invariant: nothing that a record holds decides whether its dead letter can be written, so a bad record never stops
a pipeline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.pipelines.sinks.jdbc.writer import JdbcSink
from pytubemq.pipelines.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from pytubemq.pipelines.file.model import Guarantee, Sink
    from pytubemq.pipelines.sinks.sink_writer import SinkContext, SinkWriter

ATTRIBUTES: Final = "attributes"
LONGEST_ATTRIBUTES: Final = 30_000
"""Characters of them in a database: Derby takes no longer text."""


def make_writer(spec: Sink) -> SinkWriter:
    """Make the writer of dead letters."""
    return DatabaseDeadLetterWriter(spec)


class DatabaseDeadLetterWriter:
    """Dead letters in a table of a database: their attributes are JSON there."""

    def __init__(self, spec: Sink) -> None:
        self.spec = spec
        self._table = JdbcSink(spec)

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of the table's sink."""
        return self._table.guarantee

    def check(self, spark: SparkSession, schema: StructType | None) -> None:
        """Check the table as for other rows."""
        self._table.check(spark, None if schema is None else _in_database(spark.createDataFrame([], schema)).schema)

    def write(self, rows: DataFrame, batch_id: int, context: SinkContext) -> int:
        """Write them as other rows."""
        return self._table.write(_in_database(rows), batch_id, context)

    def done(self, batch_id: int, context: SinkContext) -> int | None:
        """Return the rows of the batch, as for other rows."""
        return self._table.done(batch_id, context)


def _in_database(rows: DataFrame) -> DataFrame:
    """Convert attributes to JSON, or to their length if that is too long."""
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
