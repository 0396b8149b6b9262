"""The check of one partition's logs and indexes against each other and against the checkpoint.

The invariant: every index entry that counts is looked at and every byte of every record goes through its check; what is
beyond the checkpoint's end is nobody's, and not looked at.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from pytubemq.model.offset import to_offset
from pytubemq.storage.disk.disk import read_exactly
from pytubemq.storage.format.header import HEADER_BYTES
from pytubemq.storage.format.index import INDEX_BYTES, RecordKind, decode_index_entry
from pytubemq.storage.format.record_range import record_is_sound
from pytubemq.storage.log.index_repair import Border
from pytubemq.storage.tools.check.findings import Finding, Severity
from pytubemq.storage.tools.read.files import PartitionFiles, SegmentFiles, StoreFile, begin_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from pytubemq.storage.disk.disk import Disk, DiskFile
    from pytubemq.storage.format.index import IndexEntry
    from pytubemq.storage.format.record import LogEnd

_WINDOW_BYTES: Final = 4 * 1024 * 1024
_ENTRIES: Final = 4096


def check_partition(
    disk: Disk, found: PartitionFiles, end: LogEnd, progress: Callable[[int], None]
) -> Iterator[Finding]:
    """Yield everything that is wrong with a partition's files; `progress` is called with bytes as they are read."""
    here = Border(end.first_ordinal, end.first_position)
    kept = []
    for segment in found.segments:
        if end.first_ordinal <= segment.base_ordinal < end.ordinal:
            kept.append(segment)
        else:
            for file in filter(None, (segment.log, segment.index)):
                yield _of(found, file, "is beyond what the checkpoint knows", severity=Severity.HARMLESS)
    for segment, following in zip_longest(kept, kept[1:]):
        if segment.base_ordinal != here.ordinal:
            yield _gap(found, here.ordinal, segment.base_ordinal)
        # A headless segment is taken to begin where the one before ended; a false guess shows at its first entry.
        begin = begin_of(segment, here)
        stop = Border(end.ordinal, end.position)
        if following is not None:
            # -1 where the next header cannot be read: then the position is not compared.
            stop = begin_of(following, Border(0, -1))
        here = yield from _check_segment(
            disk, found, segment, begin, stop, None if following else end.last_records, progress
        )
    if here.ordinal < end.ordinal:
        yield _gap(found, here.ordinal, end.ordinal)


def _check_segment(
    disk: Disk,
    found: PartitionFiles,
    segment: SegmentFiles,
    begin: Border,
    end: Border,
    last_records: int | None,
    progress: Callable[[int], None],
) -> Generator[Finding, None, Border]:
    """Yield the findings of one segment; returns where it ends."""
    for name, file in (("log", segment.log), ("index", segment.index)):
        if file is None:
            path = found.directory / f"{segment.base_ordinal:020d}.{name}"
            yield Finding(
                path=path,
                what="is missing",
                topic=found.topic,
                partition_id=found.partition_id,
                from_offset=to_offset(begin.ordinal) if name == "log" else None,
                to_offset=to_offset(end.ordinal) if name == "log" else None,
            )
        elif file.header is None or file.header.base != begin.position:
            yield _of(found, file, "the header fails its check or does not fit its name", size=HEADER_BYTES)
    # The missing file is the finding; each record in the other would only repeat it.
    if segment.index is None or segment.log is None:
        return end
    records = segment.held_records if last_records is None else last_records
    index, log = disk.open(segment.index.path), disk.open(segment.log.path)
    try:
        walk = _Walk(found, segment.log, segment.index, begin, end, log, index, progress)
        yield from walk.run(records)
    finally:
        index.close()
        log.close()
    return end


class _Walk:
    """One pass over an index and its log."""

    def __init__(
        self,
        found: PartitionFiles,
        log: StoreFile,
        index: StoreFile,
        begin: Border,
        end: Border,
        log_file: DiskFile,
        index_file: DiskFile,
        progress: Callable[[int], None],
    ) -> None:
        self._found, self._log, self._index = found, log, index
        self._begin, self._end = begin, end
        self._log_file, self._index_file = log_file, index_file
        self._progress = progress
        self._here: Border | None = begin
        self._known = begin
        """The end of the sound entries."""
        self._time_ms = 0
        self._window = b""
        self._window_at = 0

    def run(self, records: int) -> Iterator[Finding]:
        """Check so many entries and the records that they name."""
        for first in range(0, records, _ENTRIES):
            count = min(_ENTRIES, records - first)
            data = read_exactly(self._index_file, count * INDEX_BYTES, HEADER_BYTES + first * INDEX_BYTES)
            self._progress(len(data))
            for at in range(len(data) // INDEX_BYTES):
                yield from self._entry(decode_index_entry(data, at), first + at)
            if len(data) < count * INDEX_BYTES:
                yield self._bad_entry(first + len(data) // INDEX_BYTES, "ends too early")
                return
        end = self._end
        place = self._here or self._known
        if place.ordinal != end.ordinal or (end.position >= 0 and place.position != end.position):
            yield self._bad_entry(records, f"its entries end at offset {to_offset(place.ordinal)}", end.ordinal)

    def _entry(self, entry: IndexEntry | None, at: int) -> Iterator[Finding]:
        if entry is None or not entry.messages:
            # From here on the next sound entry says where it is, so one bad entry is one finding.
            self._here = None
            yield self._bad_entry(at, "an index entry fails its check")
            return
        place = Border(entry.first_ordinal, entry.position)
        if place != (self._here or place) or place < self._known or entry.end_ordinal > self._end.ordinal:
            yield self._bad_entry(at, "an index entry does not follow the one before")
            self._here = None
            return
        self._here = self._known = Border(entry.end_ordinal, entry.end_position)
        # Lookups by time and retention go by times that rise within a segment.
        if entry.append_time_ms < self._time_ms:
            yield self._bad_entry(at, "time goes back from the record before to this one")
        self._time_ms = entry.append_time_ms
        yield from self._record(entry)

    def _record(self, entry: IndexEntry) -> Iterator[Finding]:
        at = HEADER_BYTES + entry.position - self._begin.position
        if entry.kind == RecordKind.HOLE:
            yield self._lost_finding(entry, at, "messages that were lost before", Severity.FENCED)
            missing = at + entry.size_bytes - self._log.size_bytes
            if missing > 0:  # nobody needs these bytes, but a Broker goes by the size of the file
                what = "is too short: bytes in the place of lost messages are missing"
                yield _of(self._found, self._log, what, size=min(missing, entry.size_bytes))
            return
        record = self._bytes(at, entry.size_bytes)
        self._progress(len(record))
        if len(record) < entry.size_bytes:
            yield self._lost_finding(entry, at, "a record is missing: the file is too short", Severity.DAMAGE)
        elif not record_is_sound(entry, memoryview(record)):
            yield self._lost_finding(entry, at, "a record fails its check", Severity.DAMAGE)

    def _bytes(self, at: int, size: int) -> bytes:
        start = at - self._window_at
        # Records follow one another, so a window read ahead serves thousands of them.
        if start < 0 or start + size > len(self._window):
            self._window = read_exactly(self._log_file, max(size, _WINDOW_BYTES), at)
            self._window_at, start = at, 0
        return self._window[start : start + size]

    def _lost_finding(self, entry: IndexEntry, at: int, what: str, severity: Severity) -> Finding:
        return Finding(
            path=self._log.path,
            what=what,
            severity=severity,
            position=at,
            size_bytes=entry.size_bytes,
            topic=self._found.topic,
            partition_id=self._found.partition_id,
            from_offset=to_offset(entry.first_ordinal),
            to_offset=to_offset(entry.end_ordinal),
        )

    def _bad_entry(self, at: int, what: str, to_ordinal: int | None = None) -> Finding:
        return Finding(
            path=self._index.path,
            what=what,
            position=HEADER_BYTES + at * INDEX_BYTES,
            size_bytes=INDEX_BYTES,
            topic=self._found.topic,
            partition_id=self._found.partition_id,
            from_offset=to_offset(self._known.ordinal),
            to_offset=None if to_ordinal is None else to_offset(max(to_ordinal, self._known.ordinal)),
        )


def _of(
    found: PartitionFiles, file: StoreFile, what: str, *, size: int = 0, severity: Severity = Severity.DAMAGE
) -> Finding:
    return Finding(
        path=file.path,
        what=what,
        severity=severity,
        size_bytes=size,
        topic=found.topic,
        partition_id=found.partition_id,
    )


def _gap(found: PartitionFiles, start: int, end: int) -> Finding:
    return Finding(
        path=found.directory,
        what="messages have no file" + (": a file is where their directory was" if found.directory.is_file() else ""),
        topic=found.topic,
        partition_id=found.partition_id,
        from_offset=to_offset(start),
        to_offset=to_offset(end),
    )
