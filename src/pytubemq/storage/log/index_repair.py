"""A segment's index with its damage put right: entries built anew from the log, or fenced off.

An entry that fails its check is built anew from the record it speaks of, which has its own offset, if that record
proves itself; else a hole takes its place, whose messages are lost and which readers skip. Nothing on disk is
changed: the entries live in memory, for the segments that need it.

The invariant: the entries of a repaired index are sound, and cover the segment from its first message to its end
without a gap or an overlap.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pytubemq.storage.format.header import HEADER_BYTES
from pytubemq.storage.format.index import (
    INDEX_BYTES,
    RecordKind,
    decode_index_entry,
    encode_index_entry,
    last_record_at,
)
from pytubemq.storage.format.scan import DamagedBytes, LogRecord, scan_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytubemq.storage.disk.disk import DiskFile
    from pytubemq.storage.format.index import IndexEntry
    from pytubemq.storage.log.segment import Segment

    Scan = Callable[["Border", "Border"], Iterable[LogRecord | DamagedBytes]]
    """Reads the log between two borders; what it gives is `at` a position of the partition."""


class Border(NamedTuple):
    """A border between two records of a partition."""

    ordinal: int
    position: int


class Lost(NamedTuple):
    """Messages [from_ordinal, to_ordinal) that cannot be read, and where in the partition's bytes they should be."""

    from_ordinal: int
    to_ordinal: int
    position: int


@dataclass(slots=True)
class RepairedIndex:
    """The sound index of one segment up to `end`."""

    end: Border
    index: bytearray
    rebuilt: int = 0
    """Entries built anew from the log."""
    lost: list[Lost] = field(default_factory=list)
    """Holes that were made here, not those that the index already had."""

    def mark_lost(self, entry: IndexEntry) -> Lost:
        """Put a hole in the place of a record whose bytes fail their check."""
        # By its message and not by its number: the repaired index may have more or fewer entries than the file.
        at = last_record_at(self.index, entry.first_ordinal)
        hole = _hole(entry.first_ordinal, entry.end_ordinal, entry.position, entry.size_bytes, entry.append_time_ms)
        self.index[at * INDEX_BYTES : (at + 1) * INDEX_BYTES] = hole
        lost = Lost(entry.first_ordinal, entry.end_ordinal, entry.position)
        self.lost.append(lost)
        return lost


def scanner(log: DiskFile, segment: Segment) -> Scan:
    """Return the function with which `repair_index` scans a segment's log between two borders."""
    # A scan counts the file's bytes, the index those of the partition, which go on from segment to segment.
    shift = segment.base_position - HEADER_BYTES

    def scan(begin: Border, end: Border) -> Iterator[LogRecord | DamagedBytes]:
        start, stop = segment.log_size(begin.position), segment.log_size(end.position)
        for found in scan_log(log, start, stop, first_ordinal=begin.ordinal, end_ordinal=end.ordinal):
            yield found._replace(at=found.at + shift)

    return scan


def repair_index(index: bytes, begin: Border, end: Border, scan: Scan) -> RepairedIndex:
    """Return a sound index of the records between `begin` and `end`, of which any part may be damaged or missing.

    Raises:
        OSError: the log could not be read.
    """
    repaired = RepairedIndex(end, bytearray())
    parts: list[bytes] = []
    here, time_ms = begin, 0
    kept_from = at = 0
    # A file that was cut may end within an entry; what is left of that one means nothing.
    held = len(index) // INDEX_BYTES
    # From border to border: each turn passes an entry or closes a gap.
    while here != end:
        entry = decode_index_entry(index, at) if at < held else None
        # A sound entry in the wrong place is no better than a damaged one: it would leave a gap or an overlap.
        if entry is not None and _follows(entry, here, end):
            here, time_ms, at = Border(entry.end_ordinal, entry.end_position), entry.append_time_ms, at + 1
            continue
        parts.append(index[kept_from * INDEX_BYTES : at * INDEX_BYTES])
        # All between is built anew from the log, also entries that are sound and do not fit.
        at, there = _next_sound(index, at, held, here, end)
        kept_from = at
        parts += _rebuild(repaired, here, there, time_ms, scan)
        here = there
    parts.append(index[kept_from * INDEX_BYTES : at * INDEX_BYTES])
    repaired.index += b"".join(parts)
    return repaired


def _follows(entry: IndexEntry, here: Border, end: Border) -> bool:
    return (
        (entry.first_ordinal, entry.position) == here
        and entry.messages > 0
        and entry.end_ordinal <= end.ordinal
        and entry.end_position <= end.position
    )


def _next_sound(index: bytes, at: int, held: int, here: Border, end: Border) -> tuple[int, Border]:
    """Return the next entry that can be trusted again, and where it begins; the end if there is none."""
    while (at := at + 1) < held:
        entry = decode_index_entry(index, at)
        # Only an entry that is ahead in both counts can end the gap.
        if entry is not None and entry.first_ordinal > here.ordinal and entry.position >= here.position:
            there = Border(entry.first_ordinal, entry.position)
            if _follows(entry, there, end):
                return at, there
    return held, end


def _rebuild(repaired: RepairedIndex, here: Border, there: Border, time_ms: int, scan: Scan) -> list[bytes]:
    """Build entries for all records between two places."""
    made: list[bytes] = []
    known_lost, known_rebuilt = len(repaired.lost), repaired.rebuilt
    ordinal, position = here
    for found in scan(here, there):
        # They become part of the hole before the next record.
        if isinstance(found, DamagedBytes):
            continue
        at = found.at
        # Something is missing before this record, by its number or by its place.
        if found.first_ordinal > ordinal or at > position:
            if found.first_ordinal == ordinal:  # bytes that belong to no message: nothing here can be trusted
                break
            made.append(_lose(repaired, ordinal, found.first_ordinal, position, at - position, time_ms))
        time_ms = found.append_time_ms
        made.append(encode_found(found, at))
        repaired.rebuilt += 1
        ordinal, position = found.first_ordinal + found.messages, at + found.size_bytes
    if ordinal < there.ordinal:
        made.append(_lose(repaired, ordinal, there.ordinal, position, there.position - position, time_ms))
    # Every message was found, and bytes are left over: one of the records is not what it seems, so none is taken.
    elif position < there.position:
        # Nor do the losses and entries that were counted on the way: the one hole has all of them.
        del repaired.lost[known_lost:]
        repaired.rebuilt = known_rebuilt
        made = [_lose(repaired, here.ordinal, there.ordinal, here.position, there.position - here.position, time_ms)]
    return made


def encode_found(found: LogRecord, position: int) -> bytes:
    """Return the index entry of a record that was found in the log, at `position` of the partition."""
    kind = RecordKind.SINGLE
    if found.is_batch:
        # As the writer would have said: a batch of several codes is never skipped by a filter.
        kind = RecordKind.MIXED_PACK if found.is_mixed else RecordKind.PACK
    return encode_index_entry(
        position,
        found.first_ordinal,
        found.append_time_ms,
        found.size_bytes,
        found.messages,
        found.key_code,
        found.crc,
        kind,
    )


def _lose(repaired: RepairedIndex, ordinal: int, end_ordinal: int, position: int, size: int, time_ms: int) -> bytes:
    repaired.lost.append(Lost(ordinal, end_ordinal, position))
    return _hole(ordinal, end_ordinal, position, size, time_ms)


def _hole(ordinal: int, end_ordinal: int, position: int, size: int, time_ms: int) -> bytes:
    # With a time, as any entry: searches by time go over holes, too.
    return encode_index_entry(position, ordinal, time_ms, size, end_ordinal - ordinal, -1, 0, RecordKind.HOLE)
