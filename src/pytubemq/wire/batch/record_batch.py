"""Record batches: many messages of one partition in columns, built once by the producer and carried as they are.

A batch's *columns* are what a producer sends: lengths, flags, filter codes, then all payloads one after the other,
under one CRC-32 that travels with them to the consumer. A *stored batch* is a field of a fetch response (tag, length, a
head by the Broker that says where the batch is, the columns), so a fetch sends slices of the log as they are. All
numbers are little-endian. `docs/design/protocol.md` shows the same layout as tables.

The invariant: columns that `read_columns` has taken name exactly the bytes they hold, every length at least 0; nothing
of a payload is looked at or changed here.
"""

from __future__ import annotations

import sys
from array import array
from dataclasses import dataclass
from itertools import accumulate, pairwise
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

from pytubemq.errors import FormatError
from pytubemq.model.limits import KIB, MAX_RECORD_BATCH_MESSAGES
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.wire.protobuf.varint import decode_varint, encode_varint

if TYPE_CHECKING:
    from collections.abc import Sequence

VERSION: Final = 1
_FLAGS: Final = 1
_CODES: Final = 2
_CRC = Struct("<I")
_COLUMNS = Struct("<BBHIii")  # version, which columns, 0, count, flag of all, filter code of all
DAMAGED: Final = "a record batch fails its check; it was damaged on the way or in storage"
COLUMNS_HEAD_BYTES: Final = _CRC.size + _COLUMNS.size  # 20
SIZES: Final = "I" if array("I").itemsize == 4 else "L"
"""The type of an `array` of unsigned 32-bit numbers, as `Columns.lengths` is one."""
_INT: Final = "i" if array("i").itemsize == 4 else "l"
_SWAP: Final = sys.byteorder == "big"

# Written out and not looked up: these are bytes on disks, and would stay if the table changed.
RECORD_BATCH_TAG: Final = encode_varint(1003 << 3 | 2)
"""The tag of field 1003, length-delimited: `packs` of both fetch responses."""
_HEAD = Struct("<QQQQQI")  # offset, message id, append time, producer id, first sequence, epoch
_MOST: Final = (1 << 63) - 1 - OFFSET_UNIT * MAX_RECORD_BATCH_MESSAGES
"""Largest number in a batch's head: offsets and ids count up from it and must stay signed 64-bit numbers."""
HEAD_BYTES: Final = _HEAD.size + _CRC.size  # 48


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a record batch, still in one piece; `flags` and `codes` are None where all messages share one."""

    data: bytes | memoryview
    count: int
    flag: int
    key_code: int
    lengths: Sequence[int]
    flags: Sequence[int] | None
    codes: Sequence[int] | None
    payloads_at: int

    @property
    def payload_bytes(self) -> int:
        """Bytes of all payloads."""
        return len(self.data) - self.payloads_at

    @property
    def mixed(self) -> bool:
        """True if the messages have different filter codes."""
        return self.codes is not None

    def bounds(self) -> list[int]:
        """Return the offsets at which payloads begin in `data`, and the end of the last one."""
        return list(accumulate(self.lengths, initial=self.payloads_at))

    def payloads(self) -> list[bytes]:
        """Return every payload, in order."""
        data = bytes(self.data)  # no copy if it is bytes already
        return [data[start:end] for start, end in pairwise(self.bounds())]

    def flag_of(self, at: int) -> int:
        """Return the flag of message number `at`."""
        return self.flag if self.flags is None else self.flags[at]

    def part(self, start: int, stop: int) -> bytes:
        """Copy the columns of the messages from number `start` to before `stop`, with a check of their own."""
        if (start, stop) == (0, self.count):
            return bytes(self.data)
        # Rare: a batch of which a part is stored already. So a new check over the rest is affordable.
        lengths = self.lengths[start:stop]
        at = self.payloads_at + sum(self.lengths[:start])
        return _columns(
            lengths,
            self.flag if self.flags is None else list(self.flags[start:stop]),
            self.key_code if self.codes is None else list(self.codes[start:stop]),
            [bytes(self.data[at : at + sum(lengths)])],
        )


def encode_columns(payloads: Sequence[bytes], flags: int | Sequence[int], codes: int | Sequence[int]) -> bytes:
    """Encode the columns of a batch; one flag or filter code applies to all."""
    return _columns(list(map(len, payloads)), flags, codes, payloads)


_GROUP_BYTES: Final = 32 * KIB


def _columns(
    lengths: Sequence[int], flags: int | Sequence[int], codes: int | Sequence[int], bodies: Sequence[bytes]
) -> bytes:
    which = (0 if isinstance(flags, int) else _FLAGS) | (0 if isinstance(codes, int) else _CODES)
    flag = flags if isinstance(flags, int) else 0
    code = codes if isinstance(codes, int) else 0
    parts = [_COLUMNS.pack(VERSION, which, 0, len(lengths), flag, code), _numbers(SIZES, lengths)]
    # A column only where messages differ: one flag and one type for all spare 8 bytes a message.
    if not isinstance(flags, int):
        parts.append(_numbers(_INT, flags))
    if not isinstance(codes, int):
        parts.append(_numbers(_INT, codes))
    head = b"".join(parts)
    # The check comes first, so it is needed first. Bodies are put together in groups that the processor's cache
    # holds: a check over many small ones costs less than one over each.
    check, parts = crc32(head), [b"", head]
    step = max(_GROUP_BYTES * len(bodies) // (sum(lengths) or 1), 1)
    for start in range(0, len(bodies), step):
        group = bodies[start] if step == 1 else b"".join(bodies[start : start + step])
        check = crc32(group, check)
        parts.append(group)
    parts[0] = _CRC.pack(check)
    return b"".join(parts)


def read_columns(data: bytes | memoryview, *, check: bool = True) -> Columns:
    """Read columns as a producer sent them or a log holds them.

    Args:
        check: whether to compute the CRC-32 over all of them; False where that has been done.

    Raises:
        FormatError: they are no columns, name more or fewer bytes than there are, or fail their check.
    """
    # Every length is checked against the bytes that are there before a column is read: a peer's numbers cost no
    # memory.
    size = len(data)
    if size < COLUMNS_HEAD_BYTES:
        raise FormatError(f"a record batch of {size} bytes has no room for its head")
    # Read before the check: nothing but bounds is taken from it until then, and these are checked one by one.
    version, which, zero, count, flag, code = _COLUMNS.unpack_from(data, _CRC.size)
    # What a later version may say is refused and not guessed: a column that is not known here would shift the payloads.
    if version != VERSION or which & ~(_FLAGS | _CODES) or zero:
        raise FormatError(f"a record batch of version {version} with columns {which:#x} is not known here")
    if not 0 < count <= MAX_RECORD_BATCH_MESSAGES:
        raise FormatError(f"a record batch of {count} messages; 1 to {MAX_RECORD_BATCH_MESSAGES} are allowed")
    columns = 1 + bool(which & _FLAGS) + bool(which & _CODES)
    payloads_at = COLUMNS_HEAD_BYTES + 4 * count * columns
    if size < payloads_at:
        raise FormatError(f"a record batch of {count} messages ends within its columns, after {size} bytes")
    # Slices of a view do not copy; the columns may be a large part of a small batch.
    view = memoryview(data)
    at = COLUMNS_HEAD_BYTES + 4 * count
    lengths = _column(SIZES, view[COLUMNS_HEAD_BYTES:at])
    # Lengths are unsigned, so no payload can be negative; only their sum can be wrong.
    if payloads_at + sum(lengths) != size:
        raise FormatError(f"a record batch names {sum(lengths)} bytes of messages and has {size - payloads_at}")
    if check and not _passes(view):
        raise FormatError(DAMAGED)
    flags = codes = None
    if which & _FLAGS:
        flags = _column(_INT, view[at : at + 4 * count])
        at += 4 * count
    if which & _CODES:
        codes = _column(_INT, view[at : at + 4 * count])
    return Columns(data, count, flag, code, lengths, flags, codes, payloads_at)


def checks(columns: Columns) -> bool:
    """True if columns that were read without `check` pass it."""
    return _passes(memoryview(columns.data))


def _passes(view: memoryview) -> bool:
    # The check covers all but itself. The producer computed it, so it proves the whole way from there: journal, log,
    # network.
    return bool(crc32(view[_CRC.size :]) == _CRC.unpack_from(view)[0])


def _numbers(form: str, values: Sequence[int]) -> bytes:
    numbers = array(form, values)
    if _SWAP:
        numbers.byteswap()
    return numbers.tobytes()


def _column(form: str, view: memoryview) -> Sequence[int]:
    numbers = array(form)
    numbers.frombytes(view)
    if _SWAP:
        numbers.byteswap()
    return numbers


# --- stored batches -----------------------------------------------------------------------------------------------


class RecordBatchHead(NamedTuple):
    """A Broker's header of a record batch: offset and id of the first message, its append time, its producer and
    sequence.

    The messages after the first have the offsets and ids (and, if a producer is named, the sequences) that follow.
    `producer_id` 0 is none.
    """

    offset: int
    message_id: int
    append_time_ms: int
    producer_id: int = 0
    sequence: int = 0
    producer_epoch: int = 0


def stored_batch_head(head: RecordBatchHead, columns_bytes: int) -> bytes:
    """Return all of a stored record batch before its columns: tag, length, head."""
    # The head has a check of its own: a Broker writes it without touching the columns, whose check stays the
    # producer's.
    fields = _HEAD.pack(*head)
    return b"%b%b%b%b" % (RECORD_BATCH_TAG, encode_varint(HEAD_BYTES + columns_bytes), fields, _CRC.pack(crc32(fields)))


def read_record_batch_head(field: bytes | memoryview) -> RecordBatchHead:
    """Read the head of a `packs` field's value.

    Raises:
        FormatError: it fails its check, or there is none.
    """
    if len(field) < HEAD_BYTES:
        raise FormatError(f"a stored record batch of {len(field)} bytes has no room for its head")
    if crc32(memoryview(field)[: _HEAD.size]) != _CRC.unpack_from(field, _HEAD.size)[0]:
        raise FormatError("the head of a stored record batch fails its check")
    head = RecordBatchHead._make(_HEAD.unpack_from(field))
    # A head may pass its check and still be made by a foreign hand: offsets that wrap around would be believed later.
    if head.offset > _MOST or head.message_id > _MOST or head.append_time_ms > _MOST:
        raise FormatError("the head of a stored record batch has numbers out of range")
    return head


def read_record_batch(field: bytes | memoryview, *, check: bool = True) -> tuple[RecordBatchHead, Columns]:
    """Read the value of a `packs` field: what follows a stored batch's tag and length.

    Raises:
        FormatError: head or columns fail their check or make no sense.
    """
    head = read_record_batch_head(field)
    return head, read_columns(memoryview(field)[HEAD_BYTES:], check=check)


def claimed_count(field: bytes | memoryview) -> int:
    """Return the count of messages that a malformed `packs` field claims; 1 where that makes no sense."""
    if len(field) < HEAD_BYTES + COLUMNS_HEAD_BYTES:
        return 1
    # For a report of what was lost, so it is believed only as far as the field could hold such columns.
    count: int = _COLUMNS.unpack_from(field, HEAD_BYTES + _CRC.size)[3]
    return (
        count if count <= MAX_RECORD_BATCH_MESSAGES and HEAD_BYTES + COLUMNS_HEAD_BYTES + 4 * count <= len(field) else 1
    )


def read_stored_batch(record: bytes | memoryview, *, check: bool = True) -> tuple[RecordBatchHead, Columns]:
    """Read a whole stored batch, as a log holds it.

    Raises:
        FormatError: it is none, or fails its check.
    """
    if bytes(record[: len(RECORD_BATCH_TAG)]) != RECORD_BATCH_TAG:
        raise FormatError("a stored record batch does not begin with its tag")
    try:
        size, at = decode_varint(bytes(record[: len(RECORD_BATCH_TAG) + 10]), len(RECORD_BATCH_TAG))
    except (IndexError, ValueError) as error:
        raise FormatError(f"a stored record batch has no length: {error}") from error
    if at + size != len(record):
        raise FormatError(f"a stored record batch says {size} bytes and has {len(record) - at}")
    return read_record_batch(memoryview(record)[at:], check=check)
