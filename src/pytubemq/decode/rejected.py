"""What is told of a record that could not be decoded, as columns: the `_error` of a row, and a row of dead letters."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types

from pytubemq.decode.spark_types import arrow_schema_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ERROR_COLUMN: Final = "_error"
RAW_COLUMNS: Final = ("topic", "brokerId", "partition", "offset", "timestamp", "attributes")
"""Columns of the source that a rejected record tells, where the batch has them."""
MESSAGE_STAGE: Final = "message"
"""`raw` is the whole message: it could not be taken apart."""
RECORD_STAGE: Final = "record"
"""`raw` is one record of the message; `record` is its number, from 0."""

_TEXT = types.StringType()
REJECTED_SCHEMA: Final = types.StructType(
    [
        types.StructField("reason", _TEXT),
        types.StructField("detail", _TEXT),
        types.StructField("stage", _TEXT),
        types.StructField("topic", _TEXT),
        types.StructField("brokerId", types.IntegerType()),
        types.StructField("partition", types.IntegerType()),
        types.StructField("offset", types.LongType()),
        types.StructField("record", types.IntegerType()),
        types.StructField("timestamp", types.TimestampType()),
        types.StructField("raw", types.BinaryType()),
        types.StructField("attributes", types.MapType(_TEXT, _TEXT)),
    ]
)
REJECTED_ARROW: Final[pa.Schema] = arrow_schema_of(REJECTED_SCHEMA)

_DECIMAL: Final = re.compile(r"Decimal\('([^']*)'\)")
"""A number as Python shows it."""
_SHOWN_CHARS: Final = 60
_DETAIL_CHARS: Final = 500
_UNREAD_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class Rejection:
    """One record that was not decoded. `row` is its message's row in the batch."""

    row: int
    record: int | None
    reason: str
    detail: str
    raw: bytes | None
    attributes: Mapping[str, str] | None = None
    """Those of the wrapper, in place of the message's."""


def rejected_batch(rejections: Sequence[Rejection], batch: Any) -> Any:
    """The rejections as a batch of `REJECTED_ARROW`; places come from the batch that they were found in."""
    rows = pa.array([each.row for each in rejections], pa.int64())
    arrays = []
    for field in REJECTED_ARROW:
        match field.name:
            case "reason":
                values: Any = [each.reason for each in rejections]
            case "detail":
                values = [each.detail[:_DETAIL_CHARS] for each in rejections]
            case "stage":
                values = [MESSAGE_STAGE if each.record is None else RECORD_STAGE for each in rejections]
            case "record":
                values = [each.record for each in rejections]
            case "raw":
                values = [each.raw for each in rejections]
            case "attributes":
                arrays.append(_attributes(rejections, batch, rows, field.type))
                continue
            case name:
                arrays.append(_place(batch, name, rows, field.type))
                continue
        arrays.append(pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=REJECTED_ARROW)


def shown(value: object) -> str:
    """A value for a detail, shortened."""
    text = _DECIMAL.sub(r"\1", repr(value))
    return text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 3]}..."


def unread(error: BaseException, text: str | bytes) -> str:
    """For a detail: what a parser says of a text that it does not take, and how that begins."""
    first = text[:_UNREAD_CHARS]
    shown_first = shown(first if isinstance(first, str) else first.decode("utf-8", "backslashreplace"))
    return f"{str(error)[:_UNREAD_CHARS]}; it begins {shown_first}"


def _place(batch: Any, name: str, rows: Any, kind: Any) -> Any:
    if name not in batch.schema.names:
        return pa.nulls(len(rows), kind)
    taken = pc.take(batch.column(name), rows)
    return taken if taken.type == kind else taken.cast(kind)


def _attributes(rejections: Sequence[Rejection], batch: Any, rows: Any, kind: Any) -> Any:
    of_messages = _place(batch, "attributes", rows, kind)
    if all(each.attributes is None for each in rejections):
        return of_messages
    own = of_messages.to_pylist()
    merged = [
        own[at] if each.attributes is None else list(each.attributes.items()) for at, each in enumerate(rejections)
    ]
    return pa.array(merged, kind)
