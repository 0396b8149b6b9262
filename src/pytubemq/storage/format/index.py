"""Index entries: where each record of a partition's log is, and which messages it holds.

The invariant: an entry proves itself before it is trusted, and the first ordinals and positions of consecutive entries
rise, so a message is found by bisection. A *record* is a stored entry, a stored record batch, or a hole. All numbers
are little-endian.
"""

from __future__ import annotations

from bisect import bisect_right
from enum import IntEnum
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Sequence

Buffer: TypeAlias = bytes | bytearray | memoryview
"""A blob of index entries, as whoever read it holds it."""

# Of fixed size, so that an entry is found by its number without those before it.
_ENTRY = Struct("<QQqIIiIHH")
_CHECK = Struct("<I")
_CHECKED_BYTES: Final = _ENTRY.size  # 44
INDEX_BYTES: Final = _CHECKED_BYTES + _CHECK.size  # 48
_POSITION = Struct("<Q")
_FIRST_ORDINAL = Struct("<8xQ")
_TIME = Struct("<16xq")
_SIZE_COUNT = Struct("<24xII")
# A CRC-32 takes a seed of 32 bits.
_LOW_32: Final = 0xFFFFFFFF


class RecordKind(IntEnum):
    """The content of a record."""

    SINGLE = 0
    """One message, as a stored entry."""
    PACK = 1
    """A stored batch whose messages share one filter code."""
    MIXED_PACK = 2
    """A stored batch whose messages have different filter codes."""
    HOLE = 3
    """Nothing: its messages were lost to damage, its bytes mean nothing. Readers skip them and count."""


_KINDS: Final = frozenset(map(int, RecordKind))


class IndexEntry(NamedTuple):
    """The location of a record; `position` counts the partition's bytes from its very first record.

    It holds `messages` from `first_ordinal` on; `crc` is that of the whole record, of a batch only up to and with its
    columns' own check, which covers the rest.
    """

    position: int
    first_ordinal: int
    append_time_ms: int
    size_bytes: int
    messages: int
    key_code: int
    crc: int
    kind: int

    @property
    def end_ordinal(self) -> int:
        """The message behind the record's last one."""
        return self.first_ordinal + self.messages

    @property
    def end_position(self) -> int:
        """The position of the next record."""
        return self.position + self.size_bytes


def encode_index_entry(
    position: int,
    first_ordinal: int,
    append_time_ms: int,
    size_bytes: int,
    messages: int,
    key_code: int,
    crc: int,
    kind: int,
) -> bytes:
    """Return the 48 bytes; the self check is seeded with the ordinal."""
    entry = _ENTRY.pack(position, first_ordinal, append_time_ms, size_bytes, messages, key_code, crc, kind, 0)
    return entry + _CHECK.pack(crc32(entry, first_ordinal & _LOW_32))


def encode_single_entries(
    position: int, first_ordinal: int, append_time_ms: int, sizes: Sequence[int], key_code: int, crcs: Sequence[int]
) -> list[bytes]:
    """Encode the entries of consecutive single messages, by their sizes in the log and their checks."""
    # Names without a lookup: the loop runs for every message that is stored singly.
    pack, pack_check, made = _ENTRY.pack, _CHECK.pack, list[bytes]()
    ordinal, kind = first_ordinal, int(RecordKind.SINGLE)
    for size_bytes, crc in zip(sizes, crcs, strict=True):
        entry = pack(position, ordinal, append_time_ms, size_bytes, 1, key_code, crc, kind, 0)
        # In two parts; whoever joins the run joins them as well.
        made += (entry, pack_check(crc32(entry, ordinal & _LOW_32)))
        position += size_bytes
        ordinal += 1
    return made


def decode_index_entry(data: Buffer, at: int) -> IndexEntry | None:
    """Return entry number `at` of an index blob, None if it fails its self check or is not complete."""
    start = at * INDEX_BYTES
    if start < 0 or start + INDEX_BYTES > len(data):
        return None
    *fields, zero = _ENTRY.unpack_from(data, start)
    entry = IndexEntry._make(fields)
    check = _CHECK.unpack_from(data, start + _CHECKED_BYTES)[0]
    if check != crc32(data[start : start + _CHECKED_BYTES], entry.first_ordinal & _LOW_32):
        return None
    # A kind or a flag of a later version must not be read as one that is known here.
    return entry if not zero and entry.kind in _KINDS else None


def index_position(data: Buffer, at: int) -> int:
    """Return the position in entry number `at`, unchecked."""
    position: int = _POSITION.unpack_from(data, at * INDEX_BYTES)[0]
    return position


def index_ordinal(data: Buffer, at: int) -> int:
    """Return the first ordinal in entry number `at`, unchecked."""
    ordinal: int = _FIRST_ORDINAL.unpack_from(data, at * INDEX_BYTES)[0]
    return ordinal


def index_time(data: Buffer, at: int) -> int:
    """Return the append time in entry number `at`, unchecked."""
    time_ms: int = _TIME.unpack_from(data, at * INDEX_BYTES)[0]
    return time_ms


def index_end(data: Buffer) -> tuple[int, int]:
    """Return the ordinal and the position behind the last entry of a blob, unchecked."""
    at = len(data) - INDEX_BYTES
    position, ordinal = _POSITION.unpack_from(data, at)[0], _FIRST_ORDINAL.unpack_from(data, at)[0]
    size, count = _SIZE_COUNT.unpack_from(data, at)
    return ordinal + count, position + size


def last_record_at(data: Buffer, ordinal: int) -> int:
    """Return the number of the last entry that begins at or before `ordinal`, -1 if all begin behind it; unchecked."""
    # Unchecked, for a bisection reads few entries and a check of each would not prove the others. The caller proves
    # the entry that comes out.
    return bisect_right(range(len(data) // INDEX_BYTES), ordinal, key=lambda at: index_ordinal(data, at)) - 1
