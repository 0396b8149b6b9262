"""A test's messages as the columns that the source would give."""

from __future__ import annotations

import base64
import binascii
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from pytubemq.errors import ConfigError
from pytubemq.spark.source.schema import ALL_COLUMNS, spark_schema
from pytubemq.spark.spark_types import arrow_schema_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BEGINNING: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""When a test's messages came, unless they say it: always the same, so that a test's outcome is."""


def messages(given: Sequence[Mapping[str, Any]], *, topic: str) -> pa.RecordBatch:
    """Convert messages to rows of `format("tubemq")`; what a message does not say is counted up from 0.

    Raises:
        ConfigError: a value is not one that its column takes.
    """
    schema = arrow_schema_of(spark_schema(ALL_COLUMNS))
    rows = [_row(index, message, topic) for index, message in enumerate(given)]
    arrays = []
    for field in schema:
        values = [row[field.name] for row in rows]
        try:
            arrays.append(pa.array(values, field.type))
        except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError, OverflowError) as error:
            raise ConfigError(f"{field.name} of a message: {error}", hint=f"it takes {field.type}") from error
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def body(value: Any) -> bytes:
    """Encode a body: a text, `{base64: ...}` or `{hex: ...}`; other values as their JSON.

    Raises:
        ConfigError: it is none of these.
    """
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and len(value) == 1:
        ((way, text),) = value.items()
        try:
            if way == "base64":
                return base64.b64decode(str(text), validate=True)
            if way == "hex":
                return bytes.fromhex(str(text))
        except (binascii.Error, ValueError) as error:
            raise ConfigError(f"a message's body is not {way}: {error}", hint="check it") from error
    if value is None:
        raise ConfigError("a message's body is nothing", hint="the protocol has no empty body")
    import json

    return json.dumps(value, ensure_ascii=False).encode()


def _row(index: int, message: Mapping[str, Any], topic: str) -> dict[str, Any]:
    attributes = message.get("attributes") or {}
    if not isinstance(attributes, dict):
        raise ConfigError("attributes of a message are not a mapping", hint="as {attributes: {key: value}}")
    return {
        "topic": str(message.get("topic", topic)),
        "brokerId": message.get("brokerId", 1),
        "partition": message.get("partition", 0),
        "offset": message.get("offset", index),
        "timestamp": _time("timestamp", message.get("timestamp", BEGINNING)),
        "msgTime": _time("msgTime", message.get("msgTime")),
        "msgType": _text(message.get("msgType")),
        "attributes": [(str(key), str(value)) for key, value in attributes.items()],
        "body": body(message["body"]) if "body" in message else None,
        "messageId": message.get("messageId"),
    }


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _time(name: str, value: Any) -> datetime | None:
    """Parse ISO 8601, milliseconds since 1970, or the protocol's own twelve digits; UTC where no zone is given."""
    if value is None or isinstance(value, datetime):
        return value
    text = str(value)
    try:
        if text.isdigit():
            if len(text) == 12 and text.startswith("20"):
                return datetime.strptime(text, "%Y%m%d%H%M").replace(tzinfo=UTC)
            return datetime.fromtimestamp(int(text) / 1000, UTC)
        found = datetime.fromisoformat(text)
    except (ValueError, OverflowError, OSError) as error:
        raise ConfigError(f"{name} of a message is not a time: {text!r}", hint="as 2026-01-31T12:00:00Z") from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)
