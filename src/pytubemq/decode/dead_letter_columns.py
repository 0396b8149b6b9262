"""The columns of dead letters: records that could not be decoded, in a row's `_error` and in a dead-letter sink.

A new column is a line in `DEAD_LETTER_COLUMNS` and its values in `dead_letter_batch`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pytubemq.decode.arrow_types import arrow_schema_of
from pytubemq.decode.columns import parse_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.decode.rejection import Rejection

ERROR_COLUMN: Final = "_error"
ORIGIN_COLUMNS: Final = ("topic", "brokerId", "partition", "offset", "timestamp", "attributes")
"""Columns of the source that say which message a rejected record is from; empty where the batch lacks them."""
MESSAGE_STAGE: Final = "message"
"""The stage of a message that could not be divided into records; `raw` is the whole message."""
RECORD_STAGE: Final = "record"
"""The stage of a record; `raw` is that record, `record` its number in the message, from 0."""

DEAD_LETTER_COLUMNS: Final = parse_columns(
    "reason STRING, detail STRING, stage STRING, topic STRING, brokerId INT, partition INT, offset BIGINT, record INT,"
    " timestamp TIMESTAMP, raw BINARY, attributes MAP<STRING, STRING>"
)
DEAD_LETTER_ARROW: Final[pa.Schema] = arrow_schema_of(DEAD_LETTER_COLUMNS)
_DETAIL_CHARS: Final = 500


def dead_letter_batch(rejections: Sequence[Rejection], batch: Any) -> Any:
    """Return rejections as a batch of `DEAD_LETTER_ARROW`; topic, offset and the like come from the decoded batch."""
    rows = pa.array([each.row for each in rejections], pa.int64())
    arrays = []
    for field in DEAD_LETTER_ARROW:
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
                arrays.append(_origin(batch, name, rows, field.type))
                continue
        arrays.append(pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=DEAD_LETTER_ARROW)


def _origin(batch: Any, name: str, rows: Any, kind: Any) -> Any:
    if name not in batch.schema.names:
        return pa.nulls(len(rows), kind)
    values = pc.take(batch.column(name), rows)
    return values if values.type == kind else values.cast(kind)


def _attributes(rejections: Sequence[Rejection], batch: Any, rows: Any, kind: Any) -> Any:
    of_messages = _origin(batch, "attributes", rows, kind)
    if all(each.attributes is None for each in rejections):
        return of_messages
    own = of_messages.to_pylist()
    merged = [
        own[at] if each.attributes is None else list(each.attributes.items()) for at, each in enumerate(rejections)
    ]
    return pa.array(merged, kind)
