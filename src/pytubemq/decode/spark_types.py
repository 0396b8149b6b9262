"""Our columns as pyspark's and pyarrow's, and back. The invariant: Arrow's schema is the one Spark makes of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import types
from pyspark.sql.pandas.types import to_arrow_schema

from pytubemq.decode.columns import Column, Type, check_names, parse_columns
from pytubemq.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

_SIMPLE: dict[str, types.DataType] = {
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


def columns_of(schema: str | types.StructType | None) -> tuple[Column, ...] | None:
    """The columns of a schema, as text or as Spark has it.

    Raises:
        ConfigError: the text is no schema, or has a type that no format makes.
    """
    if schema is None or isinstance(schema, str):
        return None if schema is None or not schema.strip() else parse_columns(schema)
    columns = tuple(Column(field.name, _type_of(field.dataType), field.nullable) for field in schema)
    check_names(columns)
    return columns


def spark_schema_of(columns: Sequence[Column]) -> types.StructType:
    """Spark's schema. All columns are nullable: rejected records are rows with nulls."""
    return types.StructType([types.StructField(column.name, _spark_type(column.type)) for column in columns])


def arrow_schema_of(schema: types.StructType) -> pa.Schema:
    """Arrow's schema of Spark's, as Spark demands it of a source."""
    return to_arrow_schema(schema, timezone="UTC")


def _type_of(kind: types.DataType) -> Type:
    if isinstance(kind, types.DecimalType):
        return Type("decimal", kind.precision, kind.scale)
    if isinstance(kind, types.ArrayType):
        return Type("array", element=_type_of(kind.elementType))
    if isinstance(kind, types.MapType):
        return Type("map", key=_type_of(kind.keyType), element=_type_of(kind.valueType))
    if isinstance(kind, types.StructType):
        return Type("struct", fields=columns_of(kind) or ())
    if isinstance(kind, (types.StringType, types.CharType, types.VarcharType)):
        return Type("string")
    for name, simple in _SIMPLE.items():
        if type(simple) is type(kind):
            return Type(name)
    raise ConfigError(f"no format makes columns of type {kind.simpleString()}", hint="use another type, or a string")


def _spark_type(kind: Type) -> types.DataType:
    match kind.name:
        case "decimal":
            return types.DecimalType(kind.precision, kind.scale)
        case "array":
            return types.ArrayType(_inner(kind.element))
        case "map":
            return types.MapType(_inner(kind.key), _inner(kind.element))
        case "struct":
            return types.StructType([types.StructField(each.name, _spark_type(each.type)) for each in kind.fields])
        case _:
            return _SIMPLE[kind.name]


def _inner(kind: Type | None) -> Any:
    assert kind is not None
    return _spark_type(kind)
