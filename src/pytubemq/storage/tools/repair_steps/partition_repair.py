"""The repair of one partition's files: indexes are built anew from the log, holes replace records that are lost.

The invariant: records whose bytes are sound stay at their offsets; afterwards the segments cover the partition from its
first message to its end without a gap. A file is replaced in one step, never written over, but for a header.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pytubemq.storage.disk.disk import flush_directory, read_exactly, write_all
from pytubemq.storage.format.header import HEADER_BYTES, FileHeader, FileKind
from pytubemq.storage.format.index import INDEX_BYTES, RecordKind, decode_index_entry, encode_index_entry
from pytubemq.storage.format.record import LogEnd, LossReason, LostRange
from pytubemq.storage.format.record_range import record_is_sound
from pytubemq.storage.format.scan import LogRecord, read_record, scan_log
from pytubemq.storage.log.index_repair import Border, RepairedIndex, repair_index, scanner
from pytubemq.storage.log.segment import Segment
from pytubemq.storage.tools.check.findings import Severity
from pytubemq.storage.tools.check.segment_check import check_partition
from pytubemq.storage.tools.repair_steps.rewrite import write_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pytubemq.storage.disk.disk import Disk, DiskFile
    from pytubemq.storage.format.index import IndexEntry
    from pytubemq.storage.tools.read.files import PartitionFiles, SegmentFiles

_LARGEST_HOLE: Final = 1 << 31
"""Bytes; an index entry has 32 bits for them."""


@dataclass(slots=True)
class RepairedPartition:
    """A partition as it is now."""

    segments: list[Segment] = field(default_factory=list)
    end: LogEnd = field(default_factory=lambda: LogEnd(0, 0))
    lost_ranges: list[LostRange] = field(default_factory=list)
    """All holes, those that were there before among them."""


def repair_partition(disk: Disk, found: PartitionFiles, end: LogEnd, say: Callable[[str], None]) -> RepairedPartition:
    """Make a partition's files hold what `end` says; `say` is called with each thing done.

    Raises:
        OSError: some of it may be done; call again.
    """
    findings = check_partition(disk, found, end, lambda _: None)
    # A sound partition is only read: no file of it changes, and none has to be copied.
    damaged = any(finding.severity is Severity.DAMAGE for finding in findings)
    return _Repair(disk, found, end, say, damaged=damaged).run()


class _Repair:
    def __init__(
        self, disk: Disk, found: PartitionFiles, end: LogEnd, say: Callable[[str], None], *, damaged: bool
    ) -> None:
        self._disk = disk
        self._found = found
        self._end = end
        self._say = say
        self._damaged = damaged
        self._made = RepairedPartition()
        self._time_ms = 0

    def run(self) -> RepairedPartition:
        end, made = self._end, self._made
        kept = kept_segments(self._disk, self._found, end)
        # First, because a segment that is filled in below may need one of their names.
        self._remove_others({segment.base_ordinal for segment, _ in kept})
        here = Border(end.first_ordinal, end.first_position)
        last = Border(end.ordinal, end.position)
        for at, (segment, begin) in enumerate(kept):
            if begin.ordinal != here.ordinal:
                self._fill(here, begin)
            stop = kept[at + 1][1] if at + 1 < len(kept) else last
            # What is between the end of a segment and the next one, if a file is missing there, is in its holes.
            limit = None if at + 1 < len(kept) else end.last_records
            self._segment(segment, begin, stop, limit)
            here = stop
        if here.ordinal < last.ordinal:
            self._fill(here, last)
        records = made.segments[-1].records if made.segments else 0
        # Times do not go back, so the newest one known bounds what comes next.
        made.end = end._replace(last_records=records, last_time_ms=max(end.last_time_ms, self._time_ms))
        # New names last only when the directories are flushed, and the checkpoint comes after this.
        if self._damaged:
            for directory in (self._found.directory, self._found.directory.parent):
                flush_directory(self._disk, directory)
        return made

    def _remove_others(self, kept: set[int]) -> None:
        """Remove files that hold nothing which counts, so that they are not taken for segments when there is one around
        them."""
        for segment in self._found.segments:
            if segment.base_ordinal not in kept:
                for file in filter(None, (segment.log, segment.index)):
                    self._disk.unlink(file.path)
                    self._say(f"{file.path}: removed, as nothing in it counts")

    def _segment(self, files: SegmentFiles, begin: Border, end: Border, limit: int | None) -> None:
        segment = Segment(self._found.directory, begin.ordinal, begin.position)
        held = files.held_records if limit is None else min(limit, files.held_records)
        old = b"" if files.index is None else self._read(files.index.path, held * INDEX_BYTES, HEADER_BYTES)
        if not self._damaged:
            segment.records = len(old) // INDEX_BYTES
            self._note_holes(old)
            self._made.segments.append(segment)
            return
        # Length and header first: the scan below reads the log up to its end.
        self._repair_log(files, segment, end)
        log = self._disk.open(segment.log_path)
        try:
            repaired = repair_index(old, begin, end, scanner(log, segment))
            for entry in _bad_records(log, segment, bytes(repaired.index)):
                repaired.mark_lost(entry)
        finally:
            log.close()
        index = bytes(repaired.index)
        # An index that is right stays as it is.
        if index != old or files.index is None or files.index.header is None:
            header = FileHeader(FileKind.INDEX, begin.ordinal, begin.position).encode()
            # Written beside the old one and renamed over it, so that a crash leaves one of both whole.
            fresh = segment.index_path.with_suffix(".index.tmp")
            write_file(self._disk, fresh, [header, index])
            self._disk.rename(fresh, segment.index_path)
            self._say(f"{segment.index_path}: {_what(repaired)}")
        segment.records = len(index) // INDEX_BYTES
        self._note_holes(index)
        self._made.segments.append(segment)

    def _repair_log(self, files: SegmentFiles, segment: Segment, end: Border) -> None:
        header = FileHeader(FileKind.LOG, segment.base_ordinal, segment.base_position)
        size = 0 if files.log is None else files.log.size_bytes
        sound = files.log is not None and files.log.header == header
        needed = segment.log_size(end.position)
        if sound and size >= needed:
            return
        file = self._disk.open(segment.log_path, create=True)
        try:
            if not sound:
                write_all(file, [header.encode()], 0)
                self._say(f"{segment.log_path}: rewrote its header")
            # Zeros in the place of lost bytes: they fail their check and
            # become holes, and what follows keeps its position.
            if size < needed:
                file.truncate(needed)
                self._say(f"{segment.log_path}: {needed - max(size, HEADER_BYTES)} bytes are lost")
            file.fdatasync()
        finally:
            file.close()

    def _fill(self, begin: Border, end: Border) -> None:
        """Build a segment that marks all its messages as lost."""
        segment = Segment(self._found.directory, begin.ordinal, begin.position)
        index = b"".join(_holes(begin, end, self._time_ms))
        write_file(
            self._disk, segment.index_path, [FileHeader(FileKind.INDEX, begin.ordinal, begin.position).encode(), index]
        )
        log = self._disk.open(segment.log_path, create=True)
        try:
            log.truncate(0)
            write_all(log, [FileHeader(FileKind.LOG, begin.ordinal, begin.position).encode()], 0)
            # Sparse: nothing reads the bytes of holes, but a Broker goes by the size of the file.
            log.truncate(segment.log_size(end.position))
            log.fdatasync()
        finally:
            log.close()
        segment.records = len(index) // INDEX_BYTES
        self._say(f"{segment.log_path}: created, for {end.ordinal - begin.ordinal} messages that have no file")
        self._note_holes(index)
        self._made.segments.append(segment)

    def _note_holes(self, index: bytes) -> None:
        for at in range(len(index) // INDEX_BYTES):
            entry = decode_index_entry(index, at)
            if entry is None:
                continue
            # A hole that is made later must not be older than what is before it.
            self._time_ms = max(self._time_ms, entry.append_time_ms)
            if entry.kind == RecordKind.HOLE:
                found = self._found
                self._made.lost_ranges.append(
                    LostRange(
                        found.topic, found.partition_id, entry.first_ordinal, entry.end_ordinal, LossReason.RECORD
                    )
                )

    def _read(self, path: Path, size: int, position: int) -> bytes:
        file = self._disk.open(path)
        try:
            return read_exactly(file, size, position)
        finally:
            file.close()


def begin_of_segment(disk: Disk, segment: SegmentFiles) -> Border | None:
    """Return the start of a segment, by its headers or else by its first index entry; None if neither has it."""
    if segment.base_position is not None:
        return Border(segment.base_ordinal, segment.base_position)
    if segment.index is None:
        return None
    file = disk.open(segment.index.path)
    try:
        entry = decode_index_entry(read_exactly(file, INDEX_BYTES, HEADER_BYTES), 0)
    finally:
        file.close()
    if entry is None or entry.first_ordinal != segment.base_ordinal:
        return None
    return Border(entry.first_ordinal, entry.position)


def kept_segments(disk: Disk, found: PartitionFiles, end: LogEnd) -> list[tuple[SegmentFiles, Border]]:
    """Return the segments of a partition that count, and where each begins."""
    return [
        (segment, begin)
        for segment in found.segments
        if end.first_ordinal <= segment.base_ordinal < end.ordinal
        and (begin := begin_of_segment(disk, segment)) is not None
        # A position outside the partition is a header of something else.
        and end.first_position <= begin.position <= end.position
    ]


def find_end(disk: Disk, found: PartitionFiles) -> LogEnd:
    """Return the end of a partition's files without a checkpoint: that of the last record that proves itself."""
    begins = [(segment, begin) for segment in found.segments if (begin := begin_of_segment(disk, segment)) is not None]
    if not begins:
        return LogEnd(0, 0)
    first = begins[0][1]
    end, time_ms, records = first, 0, 0
    for files, begin in begins:
        segment = Segment(found.directory, begin.ordinal, begin.position)
        # The furthest sound record counts, whatever damage is before it.
        for here, stamp in sound_ends(disk, files, segment):
            if here > end:
                end, time_ms, records = here, max(time_ms, stamp), files.held_records
    return LogEnd(*end, *first, time_ms, records)


def find_reach(disk: Disk, found: PartitionFiles) -> int:
    """Return the message behind the last one that an index names, whatever became of its record."""
    reach = 0
    for files in found.segments:
        if files.index is not None:
            file = disk.open(files.index.path)
            try:
                data = read_exactly(file, files.held_records * INDEX_BYTES, HEADER_BYTES)
            finally:
                file.close()
            entries = (decode_index_entry(data, at) for at in range(len(data) // INDEX_BYTES))
            # Also entries of bad records: their numbers were given out.
            reach = max(reach, *(entry.end_ordinal for entry in entries if entry is not None), 0)
    return reach


def last_message_id(disk: Disk, partition: RepairedPartition) -> int:
    """Return the id of a repaired partition's last message, 0 if nothing is left of it in the logs."""
    # Ids rise along a partition, so the last sound record has the highest.
    for segment in reversed(partition.segments):
        index, log = disk.open(segment.index_path), disk.open(segment.log_path)
        try:
            for at in reversed(range(segment.records)):
                entry = decode_index_entry(read_exactly(index, INDEX_BYTES, segment.index_size(at)), 0)
                if entry is not None and entry.kind != RecordKind.HOLE:
                    found = read_record(read_exactly(log, entry.size_bytes, segment.log_size(entry.position)))
                    if found is not None:
                        return found.message_id + found.messages - 1
        finally:
            index.close()
            log.close()
    return 0


def sound_ends(disk: Disk, files: SegmentFiles, segment: Segment) -> Iterator[tuple[Border, int]]:
    """Return the ends of sound records, and their time: by the index, and where that has none by the log."""
    known = Border(segment.base_ordinal, segment.base_position)
    data = b""
    if files.index is not None:
        index = disk.open(files.index.path)
        try:
            data = read_exactly(index, files.held_records * INDEX_BYTES, HEADER_BYTES)
        finally:
            index.close()
    entries = [
        entry
        for at in range(len(data) // INDEX_BYTES)
        if (entry := decode_index_entry(data, at)) is not None and entry.position >= segment.base_position
    ]
    if files.log is None:  # its records are lost, and the index has their number
        yield from ((Border(entry.end_ordinal, entry.end_position), entry.append_time_ms) for entry in entries)
        return
    places = {entry.first_ordinal: entry.position for entry in entries}
    log = disk.open(files.log.path)
    try:
        bad = {entry.first_ordinal for entry in _bad_records(log, segment, data)}
        for entry in entries:
            if entry.first_ordinal not in bad:
                # The log is scanned only from here on, since the index accounts for all before.
                known = max(known, Border(entry.end_ordinal, entry.end_position))
                yield known, entry.append_time_ms
        shift = segment.base_position - HEADER_BYTES
        for found in scan_log(log, segment.log_size(known.position), log.size(), first_ordinal=known.ordinal):
            # Where the index has another place for it, bytes before it were lost or came in between.
            if isinstance(found, LogRecord) and places.get(found.first_ordinal, found.at + shift) == found.at + shift:
                end = Border(found.first_ordinal + found.messages, found.at + found.size_bytes + shift)
                yield end, found.append_time_ms
    finally:
        log.close()


def _bad_records(log: DiskFile, segment: Segment, index: bytes) -> Iterator[IndexEntry]:
    """Yield entries whose records fail their check."""
    for at in range(len(index) // INDEX_BYTES):
        entry = decode_index_entry(index, at)
        if entry is None or entry.kind == RecordKind.HOLE or entry.position < segment.base_position:
            continue
        record = read_exactly(log, entry.size_bytes, segment.log_size(entry.position))
        if len(record) < entry.size_bytes or not record_is_sound(entry, memoryview(record)):
            yield entry


def _holes(begin: Border, end: Border, time_ms: int) -> Iterator[bytes]:
    """Index entries for messages that are lost, none with more bytes than an entry can say."""
    ordinal, position = begin
    while ordinal < end.ordinal:
        left, messages = end.position - position, end.ordinal - ordinal
        size = min(left, _LARGEST_HOLE)
        # In proportion, as where one message ended in the lost bytes is not known.
        count = messages if size == left else max(1, messages * size // left)
        yield encode_index_entry(position, ordinal, time_ms, size, count, -1, 0, RecordKind.HOLE)
        ordinal, position = ordinal + count, position + size


def _what(repaired: RepairedIndex) -> str:
    lost = sum(one.to_ordinal - one.from_ordinal for one in repaired.lost)
    parts = [f"built {repaired.rebuilt} entries" if repaired.rebuilt else "written anew"]
    if lost:
        parts.append(f"fenced off {lost} messages that are lost")
    return ", ".join(parts)
