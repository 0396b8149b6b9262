"""Columns and Arrow's schemas as Spark has them.

The invariant: every decoded column is nullable, because a rejected record is a row with nulls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import types
from pyspark.sql.pandas.types import to_arrow_schema

from pytubemq.decode.dead_letter_columns import DEAD_LETTER_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from pytubemq.decode.columns import Column, Type

_SIMPLE: Final[dict[str, types.DataType]] = {
    "boolean": types.BooleanType(),
    "tinyint": types.ByteType(),
    "smallint": types.ShortType(),
    "int": types.IntegerType(),
    "bigint": types.LongType(),
    "float": types.FloatType(),
    "double": types.DoubleType(),
    "string": types.StringType(),
    "binary": types.BinaryType(),
    "date": types.DateType(),
    "timestamp": types.TimestampType(),
    "timestamp_ntz": types.TimestampNTZType(),
}


def spark_schema_of(columns: Sequence[Column]) -> types.StructType:
    """Return Spark's schema of the columns."""
    return types.StructType([types.StructField(column.name, _spark_type(column.type)) for column in columns])


def arrow_schema_of(schema: types.StructType) -> pa.Schema:
    """Return the Arrow schema that Spark demands of a source with this schema."""
    return to_arrow_schema(schema, timezone="UTC")


def _spark_type(kind: Type | None) -> types.DataType:
    assert kind is not None
    match kind.name:
        case "decimal":
            return types.DecimalType(kind.precision, kind.scale)
        case "array":
            return types.ArrayType(_spark_type(kind.element))
        case "map":
            return types.MapType(_spark_type(kind.key), _spark_type(kind.element))
        case "struct":
            return spark_schema_of(kind.fields)
        case _:
            return _SIMPLE[kind.name]


DEAD_LETTER_SCHEMA: Final = spark_schema_of(DEAD_LETTER_COLUMNS)
"""Spark's schema of dead letters, and of the struct in the column `_error`."""
