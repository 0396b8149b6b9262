"""Rows for people and for JSON.

The invariant: every value comes out as JSON has it, and bytes that are no text differ from text.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from pytubemq.pipelines.values import python_rows


def plain_rows(table: Any) -> list[dict[str, Any]]:
    """Convert the rows of a `pyarrow.Table`, or of a record batch."""
    import pyarrow as pa

    maps = {field.name for field in table.schema if pa.types.is_map(field.type)}

    def cell(name: str, value: Any) -> Any:
        return plain(dict(value) if name in maps and isinstance(value, list) else value)

    return [{name: cell(name, value) for name, value in row.items()} for row in python_rows(table)]


def plain(value: Any) -> Any:
    """Convert a value of a row: times in UTC, decimals as text, bytes as text or `{"base64": ...}`."""
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode("ascii")}
    if isinstance(value, datetime):
        whole = value if value.tzinfo is None else value.astimezone(UTC)
        return whole.isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list):
        if value and all(isinstance(item, tuple) and len(item) == 2 for item in value):  # a map, as Arrow gives it
            return {str(key): plain(item) for key, item in value}
        return [plain(item) for item in value]
    return value
