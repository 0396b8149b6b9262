"""Columns as Arrow's schema, without Spark.

The invariant: the schema is the one that Spark derives for the same columns, all nullable, because a rejected record is
a row with nulls. Spark refuses batches of any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.decode.columns import Column, Type

_SIMPLE: Final[dict[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


def arrow_schema_of(columns: Sequence[Column]) -> pa.Schema:
    """Return Arrow's schema of the columns."""
    return pa.schema([pa.field(column.name, arrow_type(column.type)) for column in columns])


def arrow_type(kind: Type | None) -> Any:
    """Return Arrow's type of a column's."""
    assert kind is not None
    match kind.name:
        case "decimal":
            return pa.decimal128(kind.precision, kind.scale)
        case "array":
            return pa.list_(pa.field("element", arrow_type(kind.element)))
        case "map":
            key = pa.field("key", arrow_type(kind.key), nullable=False)
            return pa.map_(key, pa.field("value", arrow_type(kind.element)))
        case "struct":
            return pa.struct([pa.field(each.name, arrow_type(each.type)) for each in kind.fields])
        case _:
            return _SIMPLE[kind.name]
