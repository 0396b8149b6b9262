"""The scan of a log file without its index: record after record, and behind damage on at the next one.

Every record has its own offset, so an index that was lost can be built anew from what is found here. The invariant:
what is given as a record proves itself (a batch by its two checks, a single message by its payload's check and by being
encoded as this program does), and ordinals rise from record to record. A single message's id, flag and time are covered
by the check in its index entry alone, so without that damage there goes unnoticed.

A record inside the payload of a damaged one may pass for a record of the log. It can only stand for messages of the
damaged one itself, so its producer could as well have sent it as it is found.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

from pytubemq.errors import EnvelopeError, FormatError
from pytubemq.model.filters import NO_FILTER_CODE, filter_code
from pytubemq.model.limits import (
    ATTRIBUTE_ALLOWANCE_BYTES,
    MAX_MESSAGE_BYTES,
    MAX_RECORD_BATCH_BYTES,
    MAX_RECORD_BATCH_MESSAGES,
)
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.storage.disk.disk import read_exactly
from pytubemq.wire.batch.payload import decode_payload
from pytubemq.wire.batch.record_batch import HEAD_BYTES, RECORD_BATCH_TAG, read_record_batch
from pytubemq.wire.batch.stored import decode_stored, stored_entry
from pytubemq.wire.protobuf.varint import decode_varint
from pytubemq.wire.text.attributes import parse_attributes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.storage.disk.disk import DiskFile

SINGLE_TAG: Final = b"\x22"
"""The tag of field 4, length-delimited: `messages` of both fetch responses."""
_WINDOW_BYTES: Final = 4 * 1024 * 1024
_LENGTH_BYTES: Final = 5
"""Most bytes of a record's length: no record is larger than 2^35."""
MAX_RECORD_BYTES: Final = (
    MAX_MESSAGE_BYTES + MAX_RECORD_BATCH_BYTES + ATTRIBUTE_ALLOWANCE_BYTES + 12 * MAX_RECORD_BATCH_MESSAGES + 4096
)
"""No record is larger: the largest message alone in a batch, with every column and head around it."""
_BEGIN: Final = re.compile(b"\x22[\x80-\xff]{0,4}[\x00-\x7f]\x08|" + re.escape(RECORD_BATCH_TAG), re.DOTALL)
"""The start of a record: tag, and for a single message length and its first field's tag."""
_CRC_BYTES: Final = 4


class LogRecord(NamedTuple):
    """A sound record: its location, and all that its index entry has but the position in the partition."""

    at: int
    """Byte in the file."""
    size_bytes: int
    first_ordinal: int
    messages: int
    append_time_ms: int
    key_code: int
    is_batch: bool
    is_mixed: bool
    """A batch whose messages have different filter codes; `key_code` then says nothing."""
    crc: int
    """The check that an index entry has: of a single record, or of a batch up to and with its columns' own check."""
    message_id: int
    """The number of the first message."""


class DamagedBytes(NamedTuple):
    """Bytes between sound records, or before or behind them, that are no sound record."""

    at: int
    size_bytes: int


def scan_log(
    file: DiskFile, start: int, end: int, *, first_ordinal: int = 0, end_ordinal: int | None = None
) -> Iterator[LogRecord | DamagedBytes]:
    """Yield all sound records in bytes [start, end) of a log file, with the damaged bytes between them, in order.

    Args:
        first_ordinal: no record with a lower one is one.
        end_ordinal: none that reaches beyond this is one.

    Raises:
        OSError: the file could not be read.
    """
    # Read in large pieces, each with thousands of records.
    window = _Window(file, end)
    at = start
    ordinal = first_ordinal
    while at < end:
        found = _record_at(window, at, ordinal, end_ordinal)
        if found is None:
            damaged = at
            # From the next byte on, as the length of a damaged record cannot be trusted.
            found = _next_record(window, at + 1, ordinal, end_ordinal)
            at = end if found is None else found.at
            yield DamagedBytes(damaged, at - damaged)
            if found is None:
                return
        yield found
        at += found.size_bytes
        # Ordinals only rise, so a record inside a payload seldom passes for one of the log.
        ordinal = found.first_ordinal + found.messages


def _next_record(window: _Window, at: int, first_ordinal: int, end_ordinal: int | None) -> LogRecord | None:
    while data := window.some(at):
        for match in _BEGIN.finditer(data):
            found = _record_at(window, at + match.start(), first_ordinal, end_ordinal)
            if found is not None:
                return found
        # What begins within the last bytes shows only with the next window.
        step = len(data) - _LENGTH_BYTES - 1
        if step <= 0 or at + len(data) >= window.end:
            return None
        at += step
    return None


def _record_at(window: _Window, at: int, first_ordinal: int, end_ordinal: int | None) -> LogRecord | None:
    """Return the sound record that begins at `at`, if there is one with fitting ordinals."""
    start = window.exactly(at, min(len(RECORD_BATCH_TAG) + _LENGTH_BYTES, window.end - at))
    is_batch = start.startswith(RECORD_BATCH_TAG)
    if not is_batch and not start.startswith(SINGLE_TAG):
        return None
    try:
        body_bytes, body_at = decode_varint(start, len(RECORD_BATCH_TAG) if is_batch else len(SINGLE_TAG))
    except (IndexError, ValueError):
        return None
    size = body_at + body_bytes
    # A length beyond that is damage; to believe it would pass over all that follows.
    if size > MAX_RECORD_BYTES or at + size > window.end:
        return None
    record = window.exactly(at, size)
    if len(record) < size:
        return None
    found = _pack(record, at, body_at) if is_batch else _single(record, at)
    if found is None or found.first_ordinal < first_ordinal:
        return None
    if end_ordinal is not None and found.first_ordinal + found.messages > end_ordinal:
        return None
    return found


def read_record(record: bytes, *, at: int = 0) -> LogRecord | None:
    """Read the facts about a whole record from its bytes; None if they are no sound record."""
    if record.startswith(RECORD_BATCH_TAG):
        try:
            size, body_at = decode_varint(record, len(RECORD_BATCH_TAG))
        except (IndexError, ValueError):
            return None
        return _pack(record, at, body_at) if body_at + size == len(record) else None
    return _single(record, at) if record.startswith(SINGLE_TAG) else None


def _pack(record: bytes, at: int, body_at: int) -> LogRecord | None:
    try:
        head, columns = read_record_batch(memoryview(record)[body_at:])
    except FormatError:
        return None
    # Offsets are whole messages, so any other number is not ours.
    if head.offset % OFFSET_UNIT:
        return None
    return LogRecord(
        at,
        len(record),
        head.offset // OFFSET_UNIT,
        columns.count,
        head.append_time_ms,
        columns.key_code,
        True,
        columns.mixed,
        crc32(memoryview(record)[: body_at + HEAD_BYTES + _CRC_BYTES]),
        head.message_id,
    )


def _single(record: bytes, at: int) -> LogRecord | None:
    try:
        messages = decode_stored(record)
    except EnvelopeError:
        return None
    if len(messages) != 1:
        return None
    message = messages[0]
    # Every entry of a log has offset and time; what lacks one is not ours.
    if message.offset is None or message.offset < 0 or message.offset % OFFSET_UNIT or message.append_time is None:
        return None
    if message.check_sum != crc32(message.payload) & 0x7FFFFFFF:
        return None
    again = stored_entry(
        message.message_id,
        message.payload,
        message.flag,
        message.offset,
        message.append_time,
        message.check_sum,
        message.producer_id,
        message.producer_epoch,
        message.sequence,
    )
    if again != record:  # the payload's check does not cover the fields around it; most damage there shows here
        return None
    return LogRecord(
        at,
        len(record),
        message.offset // OFFSET_UNIT,
        1,
        message.append_time,
        _key_code(message.payload, message.flag),
        False,
        False,
        crc32(record),
        message.message_id,
    )


def _key_code(payload: bytes, flag: int) -> int:
    """Return the filter code that follows from a message's own attributes."""
    try:
        _, attributes = decode_payload(payload, flag)
    except FormatError:
        return NO_FILTER_CODE
    msg_type = parse_attributes(attributes)[1] if attributes else None
    return filter_code(msg_type) if msg_type else NO_FILTER_CODE


class _Window:
    """A part of the file in memory that moves along."""

    def __init__(self, file: DiskFile, end: int) -> None:
        self.end = end
        self._file = file
        self._at = 0
        self._data = b""

    def exactly(self, at: int, size: int) -> bytes:
        """Return `size` bytes at `at`, fewer only at the file's end."""
        start = at - self._at
        # A scan goes forward, so what is before `at` is not read again.
        if start < 0 or start + size > len(self._data):
            self._at, start = at, 0
            self._data = read_exactly(self._file, max(size, min(_WINDOW_BYTES, self.end - at)), at)
        return self._data[start : start + size]

    def some(self, at: int) -> bytes:
        """Return the bytes from `at` on, at most as many as a window holds; nothing at the end."""
        size = min(_WINDOW_BYTES, self.end - at)
        return self.exactly(at, size) if size > 0 else b""
