"""Decoding in SQL: table functions that turn a table of messages into typed rows.

Spark lets a table function on Arrow have fixed columns only (4.2), so a decoder is registered under a name of its own:
fast, and what a query should use. `tubemq_decode`, whose columns follow from its arguments, works row by row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.functions import arrow_udtf, udtf
from pyspark.sql.types import StructType
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult

from pytubemq.decode.dead_letter_columns import ORIGIN_COLUMNS
from pytubemq.decode.factory import make_decoder
from pytubemq.errors import ConfigError
from pytubemq.spark.source.decoded_columns import DecodedColumns
from pytubemq.spark.source.schema import spark_schema
from pytubemq.spark.spark_types import arrow_schema_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

    from pytubemq.decode.decoder import Decoder

FUNCTION: Final = "tubemq_decode"
_ROWS_TOGETHER: Final = 10_000


def register(
    spark: SparkSession,
    name: str = FUNCTION,
    decoder: Decoder | None = None,
    *,
    keep: Sequence[str] = (),
    errors: str = "column",
) -> None:
    """Make a table function known to a session.

    With a decoder: `SELECT * FROM name(TABLE(messages))`, on Arrow. Without: `tubemq_decode(TABLE(messages), 'csv',
    'id BIGINT, name STRING')`, with `inner` and a map of options as fourth and fifth argument, row by row.

    The table's columns are read by name: those that the decoder needs, those kept, and of what a rejected record shows
    (topic, partition, offset, ...) what is there.

    Raises:
        ConfigError: a column of `keep` is decoded as well.
    """
    if decoder is None:
        spark.udtf.register(name, udtf(_RowByRow, useArrow=False))  # type: ignore[arg-type]
        return
    columns = DecodedColumns(decoder, keep=keep, errors=errors)

    class Decode:
        def eval(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
            return columns.decode(batch)

    spark.udtf.register(name, arrow_udtf(Decode, returnType=columns.schema(spark_schema())))  # type: ignore[arg-type]


class _RowByRow:
    """`tubemq_decode`: gathers rows, decodes them together, and hands rows on."""

    def __init__(self) -> None:
        self._rows: list[Any] = []
        self._columns: DecodedColumns | None = None

    @staticmethod
    def analyze(
        table: AnalyzeArgument,
        format: AnalyzeArgument,
        schema: AnalyzeArgument | None = None,
        inner: AnalyzeArgument | None = None,
        options: AnalyzeArgument | None = None,
    ) -> AnalyzeResult:
        if not isinstance(table.dataType, StructType) or "body" not in table.dataType.names:
            raise ConfigError(
                f"{FUNCTION} reads a table with the column body", hint=f"{FUNCTION}(TABLE(messages), ...)"
            )
        given = [None if each is None else each.value for each in (format, schema, inner, options)]
        return AnalyzeResult(_columns(*given).schema())

    def eval(
        self, row: Any, format: str, schema: str | None = None, inner: str | None = None, options: Any = None
    ) -> Iterator[tuple[Any, ...]]:
        if self._columns is None:
            self._columns = _columns(format, schema, inner, options)
        self._rows.append(row)
        if len(self._rows) >= _ROWS_TOGETHER:
            yield from self._decoded()

    def terminate(self) -> Iterator[tuple[Any, ...]]:
        if self._rows:
            yield from self._decoded()

    def _decoded(self) -> Iterator[tuple[Any, ...]]:
        assert self._columns is not None
        rows, self._rows = self._rows, []
        there = rows[0].asDict()
        names = [name for name in ("body", *ORIGIN_COLUMNS) if name in there]
        kinds = arrow_schema_of(spark_schema())
        batch = pa.RecordBatch.from_arrays(
            [pa.array([row[name] for row in rows], kinds.field(name).type) for name in names], names
        )
        for done in self._columns.decode(batch):
            for row in done.to_pylist():
                yield tuple(row.values())


def _columns(format: Any, schema: Any, inner: Any, options: Any) -> DecodedColumns:
    if not isinstance(format, str):
        raise ConfigError(f"{FUNCTION} needs the name of a format as a constant", hint="as in 'csv'")
    decoder = make_decoder(format, schema=schema or None, inner=inner or None, options=dict(options or {}))
    return DecodedColumns(decoder)
