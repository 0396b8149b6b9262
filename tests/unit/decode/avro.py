"""A record in Avro, without the file around it."""

from __future__ import annotations

import io
from typing import Any

import fastavro

AVRO = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}


def datum(row: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(AVRO), row)
    return out.getvalue()
