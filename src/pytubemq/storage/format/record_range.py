"""Record ranges: consecutive records of one partition, with the very bytes of its index and of its log.

The invariant: `index` has one entry for each record in `entries`, the first at `base_ordinal` and `base_position`.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from struct import Struct
from typing import TYPE_CHECKING
from zlib import crc32

from pytubemq.storage.format.index import (
    INDEX_BYTES,
    RecordKind,
    decode_index_entry,
    encode_index_entry,
    index_ordinal,
    index_position,
    index_time,
    last_record_at,
)
from pytubemq.wire.batch.record_batch import HEAD_BYTES, RECORD_BATCH_TAG
from pytubemq.wire.protobuf.varint import decode_varint

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytubemq.storage.format.index import IndexEntry

_CRC_BYTES = 4
_SOUND = Struct("<QQ8xII4xIHHI")
"""Fields of an index entry: position, first ordinal, size, messages, record checksum, kind, 0, own checksum."""
_CHECKED_BYTES = INDEX_BYTES - 4
_LOW_32 = 0xFFFFFFFF


@dataclass(slots=True)
class RecordRange:
    """A range of consecutive records; `count` is the number of messages. Not to be changed: a frozen one takes three
    times as long to make, which counts where each message is for another partition."""

    topic: str
    partition_id: int
    base_ordinal: int
    base_position: int
    count: int
    index: bytes
    entries: bytes

    @property
    def records(self) -> int:
        """The number of records, and so of index entries."""
        return len(self.index) // INDEX_BYTES

    @property
    def end_ordinal(self) -> int:
        """The message behind the last one."""
        return self.base_ordinal + self.count

    @property
    def end_position(self) -> int:
        """The position after the last record."""
        return self.base_position + len(self.entries)

    @property
    def first_time_ms(self) -> int:
        """Append time of the first record, unchecked."""
        return index_time(self.index, 0) if self.index else 0

    @property
    def last_time_ms(self) -> int:
        """Append time of the last record, unchecked; times do not go back within a partition."""
        return index_time(self.index, self.records - 1) if self.index else 0

    @property
    def size_bytes(self) -> int:
        """Its size in memory, and about its size in the log and index."""
        return len(self.index) + len(self.entries)

    def position_at(self, record: int) -> int:
        """Return the position of a record of the range by its number, or of the range's end."""
        return self.end_position if record == self.records else index_position(self.index, record)

    def position_of(self, ordinal: int) -> int:
        """Return the position of the record that holds a message of the range, or of the range's end."""
        return self.end_position if ordinal >= self.end_ordinal else self.position_at(self.record_of(ordinal))

    def record_of(self, ordinal: int) -> int:
        """Return the number of the record that holds a message of the range."""
        return max(0, last_record_at(self.index, ordinal))

    def from_ordinal(self, ordinal: int) -> RecordRange:
        """Return the range from the record on that holds message `ordinal`."""
        if ordinal <= self.base_ordinal:
            return self
        at = self.records if ordinal >= self.end_ordinal else self.record_of(ordinal)
        position = self.position_at(at)
        first = self.end_ordinal if at == self.records else index_ordinal(self.index, at)
        index, entries = self.index[at * INDEX_BYTES :], self.entries[position - self.base_position :]
        return RecordRange(self.topic, self.partition_id, first, position, self.end_ordinal - first, index, entries)

    def parts(self, first_bytes: int, other_bytes: int) -> list[RecordRange]:
        """Split the range into pieces of whole records, the first within `first_bytes` of log and the others within
        `other_bytes`; a record that is larger is a piece of its own."""
        found: list[RecordRange] = []
        start, limit = 0, self.base_position + first_bytes
        while start < self.records:
            # By the positions of some records: a run may have thousands.
            fitting = bisect_right(range(start + 1, self.records + 1), limit, key=self.position_at)
            stop = start + max(1, fitting)
            found.append(self._between(start, stop))
            start, limit = stop, self.position_at(stop) + other_bytes
        return found

    def _between(self, start: int, stop: int) -> RecordRange:
        position, end = self.position_at(start), self.position_at(stop)
        first = index_ordinal(self.index, start)
        behind = self.end_ordinal if stop == self.records else index_ordinal(self.index, stop)
        index = self.index[start * INDEX_BYTES : stop * INDEX_BYTES]
        entries = self.entries[position - self.base_position : end - self.base_position]
        return RecordRange(self.topic, self.partition_id, first, position, behind - first, index, entries)

    def entry(self, record: int) -> IndexEntry:
        """Return the index entry of a record; its check is known to hold."""
        found = decode_index_entry(self.index, record)
        if found is None:
            raise ValueError(f"index entry {record} of a run fails its check")
        return found

    def with_holes(self, damaged: Iterable[int]) -> RecordRange:
        """Return the range with holes in the place of these records."""
        index = bytearray(self.index)
        for record in damaged:
            # Size and count stay, so that all behind keeps its ordinals and positions.
            entry = self.entry(record)._replace(key_code=-1, crc=0, kind=RecordKind.HOLE)
            index[record * INDEX_BYTES : (record + 1) * INDEX_BYTES] = encode_index_entry(*entry)
        return replace(self, index=bytes(index))

    def holes(self) -> list[IndexEntry]:
        """Return the entries of the records that are holes."""
        return [entry for record in range(self.records) if (entry := self.entry(record)).kind == RecordKind.HOLE]

    def is_sound(self) -> bool:
        """True if every index entry passes its self check, follows the one before and names its own, intact bytes."""
        index, entries = memoryview(self.index), memoryview(self.entries)
        base, ordinal, position, at = self.base_position, self.base_ordinal, self.base_position, 0
        for place, first, size, messages, crc, kind, zero, check in _SOUND.iter_unpack(index):
            if (
                place != position
                or first != ordinal
                or check != crc32(index[at : at + _CHECKED_BYTES], first & _LOW_32)
                or not messages
                or zero
            ):
                return False
            record = entries[position - base : position - base + size]
            # The usual record, without making an entry of it.
            if kind == RecordKind.SINGLE:
                if crc32(record) != crc:
                    return False
            elif (entry := decode_index_entry(self.index, at // INDEX_BYTES)) is None or (
                not record_is_sound(entry, record)
            ):
                return False
            ordinal, position, at = ordinal + messages, position + size, at + INDEX_BYTES
        # The entries must also add up to what the head says of the range.
        return ordinal == self.end_ordinal and position == self.end_position

    def damaged_records(self) -> list[int] | None:
        """Return the numbers of the records whose bytes fail their check; None if the index itself cannot be
        trusted."""
        damaged: list[int] = []
        ordinal, position = self.base_ordinal, self.base_position
        entries = memoryview(self.entries)
        for at in range(self.records):
            entry = decode_index_entry(self.index, at)
            # Records are found by these entries, so where one is wrong none behind it can be found.
            if entry is None or entry.position != position or entry.first_ordinal != ordinal or not entry.messages:
                return None
            start = position - self.base_position
            ordinal, position = entry.end_ordinal, entry.end_position
            if position > self.end_position:
                return None
            if not record_is_sound(entry, entries[start : start + entry.size_bytes]):
                damaged.append(at)
        return damaged if (ordinal, position) == (self.end_ordinal, self.end_position) else None


def record_is_sound(entry: IndexEntry, record: memoryview) -> bool:
    """True if a record's bytes are those of its index entry; a hole has none to check."""
    if entry.kind == RecordKind.HOLE:
        return True
    if entry.kind == RecordKind.SINGLE:
        return crc32(record) == entry.crc
    # In two steps: the entry's check covers the head and the columns' own check, which covers the columns.
    at = columns_at(record)
    if at is None or crc32(record[: at + _CRC_BYTES]) != entry.crc:
        return False
    return crc32(record[at + _CRC_BYTES :]) == int.from_bytes(record[at : at + _CRC_BYTES], "little")


def columns_at(record: memoryview) -> int | None:
    """Return where the columns of a stored batch begin, None if it is none."""
    tag = len(RECORD_BATCH_TAG)
    if record[:tag] != RECORD_BATCH_TAG:
        return None
    try:
        # Ten bytes are the most that a varint has.
        size, at = decode_varint(bytes(record[: tag + 10]), tag)
    except (IndexError, ValueError):
        return None
    # The length must lead to the record's very end, or it only begins like a record batch.
    return at + HEAD_BYTES if at + size == len(record) and size >= HEAD_BYTES + _CRC_BYTES else None


def hole(
    topic: str, partition_id: int, ordinal: int, position: int, *, count: int, size_bytes: int, append_time_ms: int
) -> RecordRange:
    """Return a range that stands for messages lost to damage."""
    entry = encode_index_entry(position, ordinal, append_time_ms, size_bytes, count, -1, 0, RecordKind.HOLE)
    # Zeros in the place of what was lost: positions go on behind it as if it were there.
    return RecordRange(topic, partition_id, ordinal, position, count, entry, bytes(size_bytes))
