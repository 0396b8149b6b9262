"""Fetched messages in columns, for readers of thousands of messages, without an object for each.

The invariant: the same messages in the same order as `Unpacker` makes of the same response, up to the first one
that cannot be read; every byte of them has passed its check.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from pytubemq.model.offset import OFFSET_UNIT, messages_between, to_ordinal
from pytubemq.wire.batch.checksum import check_sum
from pytubemq.wire.batch.fetch_batches import FetchedBatch
from pytubemq.wire.batch.record_batch import SIZES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.wire.batch.fetch_batches import DamagedBatch
    from pytubemq.wire.batch.stored import StoredMessage

FLAGS: Final = "i"


class Run(NamedTuple):
    """Messages with consecutive offsets and ids, all appended at one time (None if not reported)."""

    messages: int
    offset: int
    message_id: int
    append_time_ms: int | None


@dataclass(slots=True)
class Gathered:
    """Messages in columns.

    `ends` begins with 0: payload number n has `ends[n + 1]` bytes, and all payloads stand one after the other in
    `parts`. `flags` is None as long as no message has one.
    """

    runs: list[Run] = field(default_factory=list)
    sizes: array[int] = field(default_factory=lambda: array(SIZES, (0,)))
    flags: array[int] | None = None
    parts: list[bytes | memoryview] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    """Reasons of the messages that cannot be read."""

    def __len__(self) -> int:
        return len(self.sizes) - 1

    def gap(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the first range [from, to) within [start, end) without a message; None if there is none.

        For a Broker with dense offsets that returned everything it has there.
        """
        if len(self) == messages_between(start, end):
            return None
        expected = start
        for run in self.runs:
            if run.offset > expected:
                return expected, run.offset
            expected = run.offset + run.messages * OFFSET_UNIT
        return (expected, end) if expected < end else None

    def add(self, run: Run, sizes: Sequence[int], flags: int | Sequence[int], payloads: bytes | memoryview) -> None:
        """Add messages; a single flag is that of all."""
        if self.flags is None and flags != 0:
            self.flags = array(FLAGS, (0,)) * len(self)
        self.runs.append(run)
        self.sizes.extend(sizes)
        self.parts.append(payloads)
        if self.flags is not None:
            self.flags.extend(array(FLAGS, (flags,)) * run.messages if isinstance(flags, int) else flags)


def gather(
    records: Sequence[StoredMessage | FetchedBatch], damaged: Sequence[DamagedBatch], *, start: int, end: int
) -> Gathered:
    """Return the messages of a response in [start, end); record batches have passed their checks."""
    out = Gathered()
    out.unreadable.extend(pack.text for pack in damaged)
    for record in records:
        if isinstance(record, FetchedBatch):
            _pack(out, record, start, end)
        elif record.offset is None:
            out.unreadable.append("its Broker does not report its offset")
        elif not start <= record.offset < end:
            continue
        elif record.check_sum != check_sum(record.payload):
            out.unreadable.append("its checksum does not match")
        else:
            run = Run(1, record.offset, record.message_id, record.append_time)
            out.add(run, (len(record.payload),), record.flag, record.payload)
    return out


def _pack(out: Gathered, pack: FetchedBatch, start: int, end: int) -> None:
    head, columns = pack
    first = 0 if start <= head.offset else to_ordinal(start - head.offset + OFFSET_UNIT - 1)
    last = columns.count
    if end < head.offset + last * OFFSET_UNIT:
        last = to_ordinal(max(end - head.offset, 0) + OFFSET_UNIT - 1)
    if first >= last:
        return
    run = Run(last - first, head.offset + first * OFFSET_UNIT, head.message_id + first, head.append_time_ms)
    flags = columns.flag if columns.flags is None else columns.flags
    payloads = memoryview(columns.data)[columns.payloads_at :]
    if (first, last) == (0, columns.count):
        out.add(run, columns.lengths, flags, payloads)
        return
    sizes = columns.lengths[first:last]
    at = sum(columns.lengths[:first])
    if not isinstance(flags, int):
        flags = flags[first:last]
    out.add(run, sizes, flags, payloads[at : at + sum(sizes)])
