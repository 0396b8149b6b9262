"""Avro's schemas: as columns, and as the table of fingerprints that single-object encoding needs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import fastavro
import fastavro.schema

from pytubemq.decode.columns import Column, Type, check_names
from pytubemq.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_SCHEMA_DEPTH: Final = 32
_PRIMITIVES: Final = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "fixed": "binary",
    "string": "string",
    "enum": "string",
}
_LOGICAL: Final = {
    "date": "date",
    "timestamp-millis": "timestamp",
    "timestamp-micros": "timestamp",
    "local-timestamp-millis": "timestamp_ntz",
    "local-timestamp-micros": "timestamp_ntz",
    "uuid": "string",
    "time-millis": "bigint",
    "time-micros": "bigint",
}


def parse_schemas(text: str) -> list[Any]:
    """Parse the schemas of the option `avroSchema`: one, or a list of them; each a record.

    Raises:
        ConfigError: it is no JSON, or no schema of a record.
    """
    hint = 'as in {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
    try:
        given = json.loads(text)
        parsed = [fastavro.parse_schema(each) for each in (given if isinstance(given, list) else [given])]
    except RecursionError as error:
        raise ConfigError("option avroSchema is nested too deep", hint=hint) from error
    except (
        ValueError,
        fastavro.schema.SchemaParseException,
        fastavro.schema.UnknownType,
        KeyError,
        TypeError,
    ) as error:
        raise ConfigError(f"option avroSchema is not an Avro schema: {error}", hint=hint) from error
    if not parsed or not all(isinstance(each, dict) and each.get("type") == "record" for each in parsed):
        raise ConfigError("option avroSchema is not the schema of a record", hint=hint)
    for each in parsed:
        _check(each, {}, (), 0)
    return parsed


def columns_of_record(schema: Any) -> tuple[Column, ...]:
    """Return the columns of a record's fields.

    Raises:
        ConfigError: a field is a union of several types, or a record contains itself.
    """
    named: dict[str, Any] = {}
    kind = _type(schema, named, (), 0)
    check_names(kind.fields)
    return kind.fields


def fingerprint(schema: Any) -> bytes:
    """Return the 8 bytes that identify a schema before a single object."""
    text = fastavro.schema.to_parsing_canonical_form(schema)
    return bytes.fromhex(fastavro.schema.fingerprint(text, "CRC-64-AVRO"))


def _check(schema: Any, named: dict[str, Any], inside: tuple[str, ...], depth: int) -> int:
    """Refuse what a few bytes could make endless: a record within itself, an array of items without a byte.

    Returns the least bytes that a datum has.
    """
    if depth > MAX_SCHEMA_DEPTH:
        raise ConfigError(f"option avroSchema: types nested more than {MAX_SCHEMA_DEPTH} deep", hint="decode a part")
    if isinstance(schema, list):
        return 1 + min((_check(each, named, inside, depth + 1) for each in schema), default=0)
    if isinstance(schema, str):
        if schema in inside:
            raise ConfigError(
                f"option avroSchema: the record {schema} contains itself", hint="such data can be of any size"
            )
        if schema in named:
            return _check(named[schema], named, inside, depth + 1)
        return 0 if schema == "null" else 1
    kind, name = schema["type"], str(schema.get("name"))
    named[name] = schema
    match kind:
        case "record" | "error":
            within = (*inside, name)
            return sum(_check(field["type"], named, within, depth + 1) for field in schema["fields"])
        case "array":
            if _check(schema["items"], named, inside, depth + 1) == 0:
                raise ConfigError("option avroSchema: an array of items without a byte", hint="its size has no limit")
            return 1
        case "map":
            _check(schema["values"], named, inside, depth + 1)
            return 1
        case "fixed":
            return int(schema["size"])
        case str():
            return 0 if kind == "null" else 1
        case _:
            return _check(kind, named, inside, depth + 1)


def _type(schema: Any, named: dict[str, Any], inside: tuple[str, ...], depth: int) -> Type:
    if depth > MAX_SCHEMA_DEPTH:
        raise ConfigError(f"option avroSchema: types nested more than {MAX_SCHEMA_DEPTH} deep", hint="decode a part")
    if isinstance(schema, list):
        kinds = [each for each in schema if each != "null"]
        if len(kinds) != 1:
            raise ConfigError(
                f"option avroSchema: a union of {len(kinds)} types cannot be a column",
                hint="only a union of null and one type is; name the columns to read in decode.schema",
            )
        return _type(kinds[0], named, inside, depth + 1)
    if isinstance(schema, str):
        if schema in inside:
            raise ConfigError(f"option avroSchema: the record {schema} contains itself", hint="that cannot be a column")
        if schema in named:
            return _type(named[schema], named, inside, depth + 1)
        return _primitive(schema, {})
    return _complex(schema, named, inside, depth)


def _complex(schema: Mapping[str, Any], named: dict[str, Any], inside: tuple[str, ...], depth: int) -> Type:
    kind = schema["type"]
    name = schema.get("name")
    if isinstance(name, str):
        named[name] = schema
    match kind:
        case "record" | "error":
            within = (*inside, str(name))
            return Type(
                "struct",
                fields=tuple(
                    Column(field["name"], _type(field["type"], named, within, depth + 1)) for field in schema["fields"]
                ),
            )
        case "array":
            return Type("array", element=_type(schema["items"], named, inside, depth + 1))
        case "map":
            return Type("map", key=Type("string"), element=_type(schema["values"], named, inside, depth + 1))
        case str():
            return _primitive(kind, schema) if kind in _PRIMITIVES else _type(kind, named, inside, depth + 1)
        case _:
            return _type(kind, named, inside, depth + 1)


def _primitive(kind: str, schema: Mapping[str, Any]) -> Type:
    logical = schema.get("logicalType")
    if logical == "decimal" and kind in ("bytes", "fixed"):
        precision, scale = schema.get("precision", 0), schema.get("scale", 0)
        if not 1 <= precision <= 38 or not 0 <= scale <= precision:
            raise ConfigError(
                f"option avroSchema: decimal({precision},{scale}) cannot be a column", hint="at most 38 digits"
            )
        return Type("decimal", precision=precision, scale=scale)
    if logical in _LOGICAL:
        return Type(_LOGICAL[logical])
    if kind not in _PRIMITIVES:
        raise ConfigError(f"option avroSchema: the type {kind!r} cannot be a column", hint="null alone has no values")
    return Type(_PRIMITIVES[kind])
