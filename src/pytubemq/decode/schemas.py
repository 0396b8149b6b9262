"""The columns that a user wants, from a text or from Spark's own schema.

The invariant: Spark is not imported. Its `StructType` is read by its JSON form, which is the same in every version.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

from pytubemq.decode.columns import Column, Type, check_names, parse_columns, parse_type
from pytubemq.errors import ConfigError


class SparkSchema(Protocol):
    """The part of pyspark's `StructType` that is used here."""

    def jsonValue(self) -> dict[str, Any]:
        """Return the schema in Spark's JSON form."""
        ...


Schema: TypeAlias = str | SparkSchema | None
"""Columns as Spark writes them (`id BIGINT, at TIMESTAMP`), a `StructType`, or None: those that the format has."""


def columns_of(schema: Schema) -> tuple[Column, ...] | None:
    """Return the columns of a schema; None where it names none.

    Raises:
        ConfigError: the text is no schema, or has a type that no format decodes.
    """
    if schema is None or isinstance(schema, str):
        return None if schema is None or not schema.strip() else parse_columns(schema)
    columns = _fields(schema.jsonValue())
    check_names(columns)
    return columns


def _fields(struct: dict[str, Any]) -> tuple[Column, ...]:
    return tuple(Column(each["name"], _type_of(each["type"]), each["nullable"]) for each in struct["fields"])


def _type_of(kind: Any) -> Type:
    name = kind if isinstance(kind, str) else kind["type"]
    match name:
        case "array":
            return Type("array", element=_type_of(kind["elementType"]))
        case "map":
            return Type("map", key=_type_of(kind["keyType"]), element=_type_of(kind["valueType"]))
        case "struct":
            fields = _fields(kind)
            check_names(fields)
            return Type("struct", fields=fields)
    try:
        return parse_type(name)
    except ConfigError as error:
        hint = "use another type, or a string"
        raise ConfigError(f"no format makes columns of type {name}", hint=hint) from error
