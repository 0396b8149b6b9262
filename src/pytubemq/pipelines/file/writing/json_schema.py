"""The JSON schema of a pipeline file, made from the table of keys: editors complete and check by it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pytubemq.pipelines.file.key import Kind
from pytubemq.pipelines.file.keys import ROOT, child

if TYPE_CHECKING:
    from pytubemq.pipelines.file.key import Key, Section

_TEXT: Final = {"type": ["string", "number", "boolean"]}
_ROW: Final = {"type": ["object", "string"]}
_OF_KIND: Final[dict[Kind, dict[str, Any]]] = {
    Kind.TEXT: _TEXT,
    Kind.NAME: {"type": "string"},
    Kind.SQL: {"type": "string"},
    Kind.FUNCTION: {"type": "string"},
    Kind.COUNT: {"type": ["integer", "string"]},
    Kind.SIZE: {"type": ["integer", "string"]},
    Kind.DURATION: {"type": ["number", "string"]},
    Kind.INTERVAL: {"type": "string"},
    Kind.RATIO: {"type": ["number", "string"]},
    Kind.FLAG: {"type": ["boolean", "string"]},
    Kind.TEXTS: {"type": ["array", "string"], "items": _TEXT},
    Kind.OPTIONS: {"type": "object"},
    Kind.POSITIONS: {"type": ["string", "number", "object"]},
    Kind.ROWS: {"type": "array", "items": _ROW},
    Kind.EXPECTED: {"type": "object", "additionalProperties": {"type": "array", "items": _ROW}},
}


def json_schema() -> dict[str, Any]:
    """Return the schema, for draft 2020-12."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "pytubemq pipeline file",
        **_section(ROOT),
    }


def _section(section: Section) -> dict[str, Any]:
    made: dict[str, Any] = {
        "type": "object",
        "description": section.doc,
        "properties": {key.name: _key(section, key) for key in section.keys},
        "additionalProperties": False,
    }
    required = [key.name for key in section.keys if key.required]
    if required:
        made["required"] = required
    if section.short:
        return {"anyOf": [made, {"type": "string"}], "description": section.doc}
    return made


def _key(section: Section, key: Key) -> dict[str, Any]:
    doc = {"description": key.doc + (f" Default: {key.default}." if key.default else "")}
    if key.kind is Kind.SECTION:
        return _section(child(section, key)) | doc
    if key.kind is Kind.SECTIONS:
        return {"type": "array", "items": _section(child(section, key))} | doc
    if key.kind is Kind.CHOICE:
        return {"enum": list(key.takes)} | doc
    return _OF_KIND[key.kind] | doc
