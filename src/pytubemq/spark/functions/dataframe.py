"""Decoding a DataFrame that has the source's columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytubemq.decode.dead_letter_columns import ORIGIN_COLUMNS
from pytubemq.errors import ConfigError
from pytubemq.spark.source.decoded_columns import DecodedColumns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from pytubemq.decode.decoder import Decoder


def decode_dataframe(df: DataFrame, decoder: Decoder, *, keep: Sequence[str] = (), errors: str = "column") -> DataFrame:
    """Decode a DataFrame's messages, batch or streaming, to rows as `decode=...` of the source would.

    The DataFrame has the columns that the decoder needs (`body`, ...); of the others those that a rejected record shows
    (topic, partition, offset, ...) are used where they are there, and those of `keep` stay.

    Raises:
        ConfigError: a column that is needed or kept is not there.
    """
    columns = DecodedColumns(decoder, keep=keep, errors=errors)
    missing = [name for name in (*decoder.needs[:1], *keep) if name not in df.columns]
    if missing:
        raise ConfigError(f"the DataFrame has no column {missing[0]}", hint=f"its columns are {', '.join(df.columns)}")
    used = [name for name in df.columns if name in {*decoder.needs, *keep, *ORIGIN_COLUMNS}]
    narrow = df.select(*used)

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from columns.decode(batch)

    return _map_in_arrow(narrow, decode, columns.schema(narrow.schema))


def _map_in_arrow(
    df: DataFrame, function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: StructType
) -> DataFrame:
    """Call `df.mapInArrow`, which in classic Spark asks for pandas although nothing of it is used."""
    inner = getattr(df, "_jdf", None)
    if inner is None:
        return df.mapInArrow(function, schema)
    from pyspark.sql import DataFrame
    from pyspark.sql.udf import UserDefinedFunction
    from pyspark.util import PythonEvalType

    udf = UserDefinedFunction(function, schema, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    column: Any = udf(*[df[name] for name in df.columns])
    return DataFrame(inner.mapInArrow(column._jc, False, None), df.sparkSession)
