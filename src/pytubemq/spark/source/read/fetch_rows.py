"""Fetched messages to one Arrow batch: columns from columns, without an object per message.

The invariants: the rows are those that the message path makes of the same answer; work per message is done by Arrow's
own loops, and Python sees each distinct attribute block once.
"""

from __future__ import annotations

import sys
from array import array
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pytubemq.errors import FormatError
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.wire.batch.payload import HAS_ATTRIBUTES, decode_payload
from pytubemq.wire.text.attributes import parse_attributes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytubemq.client.received.columns import Gathered, Run
    from pytubemq.spark.source.arrow import BatchBuilder

_INT32_BYTES: Final = 4
_LITTLE: Final = sys.byteorder == "little"
_US_PER_MS: Final = 1000
_MOST_MS: Final = (1 << 63) // 1000 - 1
"""The largest time in milliseconds that fits a column of microseconds."""
_ATTRIBUTE_COLUMNS: Final = frozenset({"msgType", "msgTime", "attributes"})


BlockContent = tuple["dict[str, str] | None", "str | None", "str | None"]
"""The content of an attribute block: attributes (None for a block that cannot be read), message type, message time."""

_NOTHING: Final[BlockContent] = ({}, None, None)
_MALFORMED: Final[BlockContent] = (None, None, None)


@dataclass(frozen=True, slots=True)
class Split:
    """Payloads taken apart: bodies, and each row's position in `blocks` (None: the only one, for all)."""

    bodies: Any
    blocks: list[BlockContent]
    which: Any


def build(builder: BatchBuilder, rows: Gathered, *, wanted: frozenset[str] | None = None) -> Any:
    """Build a `pyarrow.RecordBatch` of all rows, or of those with a message type that is `wanted`."""
    count = len(rows)
    names = builder.schema.names
    split = _split(rows, needed=wanted is not None or "body" in names or not _ATTRIBUTE_COLUMNS.isdisjoint(names))
    arrays = [_column(builder, name, rows, count, split) for name in names]
    batch = pa.RecordBatch.from_arrays(arrays, schema=builder.schema)
    if wanted is None:
        return batch
    keep = pa.array([msg_type in wanted for _, msg_type, _ in split.blocks], pa.bool_())
    if split.which is not None:
        return batch.filter(keep.take(split.which))
    return batch if keep[0].as_py() else batch.slice(0, 0)


def _column(builder: BatchBuilder, name: str, rows: Gathered, count: int, split: Split) -> Any:
    kind = builder.schema.field(name).type
    match name:
        case "topic" | "brokerId" | "partition":
            return pa.repeat(pa.scalar(builder.constant(name), kind), count)
        case "offset":
            return _rising([run.offset for run in rows.runs], rows.runs, OFFSET_UNIT, count)
        case "messageId":
            return _rising([run.message_id for run in rows.runs], rows.runs, 1, count)
        case "timestamp":
            return _times(rows.runs).cast(kind)
        case "msgType":
            return _each(pa.array([msg_type for _, msg_type, _ in split.blocks], kind), split, count)
        case "msgTime":
            return _each(builder.minutes([msg_time for _, _, msg_time in split.blocks]), split, count)
        case "attributes":
            return _each(builder.maps([attributes for attributes, _, _ in split.blocks]), split, count)
        case _:
            return split.bodies


def _each(values: Any, split: Split, count: int) -> Any:
    """Return the value of every row."""
    return values.take(_zeros(count) if split.which is None else split.which)


# --- numbers that count up, and times ----------------------------------------------------------------------------


def _rising(firsts: Sequence[int], runs: Sequence[Run], step: int, count: int) -> Any:
    """Return the numbers of all rows as int64: each run counts up from its first."""
    at = 0
    for first, run in zip(firsts, runs, strict=True):
        if first != firsts[0] + at * step:
            break
        at += run.messages
    else:
        if firsts:
            return pc.add(_ramp(_room(count), step).slice(0, count), firsts[0])
    numbers = array("q")
    for first, run in zip(firsts, runs, strict=True):
        numbers.extend(range(first, first + run.messages * step, step))
    return _int64(numbers)


def _times(runs: Iterable[Run]) -> Any:
    """Return the append time of each row, in microseconds."""
    times, missing = array("q"), False
    for run in runs:
        missing = missing or run.append_time_ms is None
        time_ms = min(max(run.append_time_ms or 0, -_MOST_MS), _MOST_MS)  # whatever the Broker said
        times.extend(array("q", (time_ms * _US_PER_MS,)) * run.messages)
    if not missing:
        return _int64(times)
    known = [run.append_time_ms is not None for run in runs for _ in range(run.messages)]
    return pc.if_else(pa.array(known), _int64(times), pa.scalar(None, pa.int64()))


def _int64(numbers: array[int]) -> Any:
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])


def _int32(numbers: array[int]) -> Any:
    return pa.Array.from_buffers(pa.int32(), len(numbers), [None, pa.py_buffer(numbers)])


def _room(count: int) -> int:
    """Return a power of two that is enough, so that few ramps are made."""
    return 1 << max(count - 1, 1).bit_length()


@lru_cache(maxsize=32)
def _ramp(count: int, step: int) -> Any:
    return _int64(array("q", range(0, count * step, step)))


@lru_cache(maxsize=32)
def _all_zeros(count: int) -> Any:
    return _int32(array("i", (0,)) * count)


def _zeros(count: int) -> Any:
    return _all_zeros(_room(count)).slice(0, count)


# --- payloads ----------------------------------------------------------------------------------------------------


def _split(rows: Gathered, *, needed: bool) -> Split:
    """Split the payloads into bodies and attributes."""
    if not needed:
        return Split(None, [_NOTHING], None)
    count = len(rows)
    data = pa.py_buffer(b"".join(rows.parts))
    ends = pc.cumulative_sum(_int32(rows.sizes))
    payloads = pa.Array.from_buffers(pa.binary(), count, [None, ends.buffers()[1], data])
    if rows.flags is None:
        return Split(payloads, [_NOTHING], None)
    return _split_fast(payloads, ends, data, _int32(rows.flags)) or _split_slowly(payloads, rows.flags)


def _split_fast(payloads: Any, ends: Any, data: Any, flags: Any) -> Split | None:
    """Split by Arrow's loops; None when a payload does not have the attributes that it claims."""
    heads = _head_sizes(payloads, flags)
    if heads is None:
        return None
    # Boundaries of sizes, texts and bodies, which stand in turn, still over the same bytes.
    count = len(payloads)
    starts = ends.slice(0, count)
    bounds = array("i", (0,)) * (3 * count + 1)
    bounds[0::3] = _numbers(ends)
    bounds[1::3] = _numbers(pc.add(starts, pc.min_element_wise(heads, pa.scalar(_INT32_BYTES, pa.int32()))))
    bounds[2::3] = _numbers(pc.add(starts, heads))
    turns = pa.Array.from_buffers(pa.binary(), 3 * count, [None, pa.py_buffer(bounds), data])
    sizes_at = _ramp(_room(count), 3).slice(0, count)
    blocks = turns.take(pc.add(sizes_at, 1)).dictionary_encode()
    try:
        texts = blocks.dictionary.cast(pa.string())
    except pa.ArrowInvalid:  # not UTF-8
        return None
    return Split(turns.take(pc.add(sizes_at, 2)), _read_all(texts.to_pylist()), blocks.indices)


def _head_sizes(payloads: Any, flags: Any) -> Any:
    """Return the bytes before each body; None if they do not fit."""
    flagged = pc.cast(pc.bit_wise_and(flags, HAS_ATTRIBUTES), pa.bool_())
    with_block = payloads.filter(flagged)
    lengths = pc.binary_length(with_block)
    if pc.any(pc.less(lengths, _INT32_BYTES)).as_py():
        return None
    claims = pc.binary_slice(with_block, 0, _INT32_BYTES).buffers()[2]
    sizes = array("i")
    sizes.frombytes(memoryview(claims)[: _INT32_BYTES * len(with_block)])
    if _LITTLE:
        sizes.byteswap()
    # wraps to a negative number where the claim is beyond all reason
    heads = pc.add(_int32(sizes), pa.scalar(_INT32_BYTES, pa.int32()))
    if pc.any(pc.or_(pc.less(heads, _INT32_BYTES), pc.greater(heads, lengths))).as_py():
        return None
    return pc.replace_with_mask(_zeros(len(payloads)), flagged, heads)


def _numbers(of: Any) -> array[int]:
    numbers = array("i")
    numbers.frombytes(memoryview(of.buffers()[1])[of.offset * 4 : (of.offset + len(of)) * 4])
    return numbers


def _split_slowly(payloads: Any, flags: Sequence[int]) -> Split:
    """Split one by one: what is malformed keeps its whole payload as body."""
    bodies: list[bytes] = []
    which: list[int] = []
    blocks: list[BlockContent] = [_NOTHING, _MALFORMED]
    known: dict[str | None, int] = {None: 0}
    for payload, flag in zip(payloads.to_pylist(), flags, strict=True):
        try:
            body, text = decode_payload(payload, flag)
        except FormatError:
            bodies.append(payload)
            which.append(1)
            continue
        bodies.append(body)
        number = known.get(text)
        if number is None:
            number = known[text] = len(blocks)
            blocks.append(_read_all([text or ""])[0])
        which.append(number)
    return Split(pa.array(bodies, pa.binary()), blocks, pa.array(which, pa.int32()))


def _read_all(texts: Sequence[str]) -> list[BlockContent]:
    return [parse_attributes(text) if text else _NOTHING for text in texts]
