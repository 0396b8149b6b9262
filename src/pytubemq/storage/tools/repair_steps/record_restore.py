"""Restore of records that a log has damaged, from journal files that still hold them.

The invariant: a record is put back only where the log's own index entry proves it to be the very same one, byte for
byte; so it does not matter how old the journal file is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.storage.disk.disk import read_exactly, write_all
from pytubemq.storage.format.header import HEADER_BYTES
from pytubemq.storage.format.index import INDEX_BYTES, RecordKind, decode_index_entry
from pytubemq.storage.format.record import LogEnd
from pytubemq.storage.format.record_range import record_is_sound
from pytubemq.storage.log.segment import Segment
from pytubemq.storage.tools.read.blocks import BadBytes, walk_blocks
from pytubemq.storage.tools.read.recovered_parts import find_salt, runs_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pytubemq.storage.disk.disk import Disk, DiskFile
    from pytubemq.storage.format.index import IndexEntry
    from pytubemq.storage.format.record import PartitionKey
    from pytubemq.storage.format.record_range import RecordRange
    from pytubemq.storage.tools.read.files import PartitionFiles, SegmentFiles, StoreFile

Wanted = dict[int, tuple[Segment, "IndexEntry"]]
"""Damaged records by their first message."""


def put_back(
    disk: Disk,
    journals: Sequence[StoreFile],
    partitions: Sequence[PartitionFiles],
    ends: Mapping[PartitionKey, LogEnd] | None,
    say: Callable[[str], None],
) -> dict[PartitionKey, list[tuple[int, int]]]:
    """Write each damaged record that some journal file has whole to its place; returns the messages, in order.

    Args:
        ends: what counts of each partition; None: whatever is there.

    Raises:
        OSError: some of it may be done; call again.
    """
    done: dict[PartitionKey, list[tuple[int, int]]] = {}
    for key, segment, entry, record in find_copies(disk, journals, partitions, ends):
        file = disk.open(segment.log_path, create=True)
        try:
            # In place: only bytes that failed their check are overwritten, by the ones that pass it.
            write_all(file, [record], segment.log_size(entry.position))
            file.fdatasync()
        finally:
            file.close()
        done.setdefault(key, []).append((entry.first_ordinal, entry.end_ordinal))
    for key, intervals in done.items():
        intervals.sort()
        messages = sum(end - begin for begin, end in intervals)
        say(f"{key[0]}:{key[1]}: {messages} messages were damaged in the log and are put back from the journal")
    return done


def find_copies(
    disk: Disk,
    journals: Sequence[StoreFile],
    partitions: Sequence[PartitionFiles],
    ends: Mapping[PartitionKey, LogEnd] | None,
) -> Iterator[tuple[PartitionKey, Segment, IndexEntry, bytes]]:
    """Yield each damaged record that some journal file has whole, and where it belongs; arguments as of `put_back`."""
    wanted: dict[PartitionKey, Wanted] = {}
    for found in partitions:
        key = found.topic, found.partition_id
        damaged = dict(_find_damaged(disk, found, None if ends is None else ends.get(key, LogEnd(0, 0))))
        if damaged:
            wanted[key] = damaged
    for journal in reversed(journals) if wanted else ():
        file = disk.open(journal.path)
        try:
            # The newest file first: it has a record most likely as the log lost it.
            for run in _runs(journal, file):
                key = run.topic, run.partition_id
                if wanted.get(key):
                    for segment, entry, record in _take(run, wanted[key]):
                        yield key, segment, entry, record
                    # The files before may be many, and have nothing that is still wanted.
                    if not any(wanted.values()):
                        return
        finally:
            file.close()


def _find_damaged(
    disk: Disk, found: PartitionFiles, end: LogEnd | None
) -> Iterator[tuple[int, tuple[Segment, IndexEntry]]]:
    for files in found.segments:
        # Only an index entry proves a copy to be the very record.
        if files.index is None or files.base_position is None:
            continue
        segment = Segment(found.directory, files.base_ordinal, files.base_position)
        index = _read(disk, files, files.held_records * INDEX_BYTES)
        log = None if files.log is None else disk.open(files.log.path)
        try:
            for at in range(len(index) // INDEX_BYTES):
                entry = decode_index_entry(index, at)
                if entry is None or entry.kind == RecordKind.HOLE or entry.position < segment.base_position:
                    continue
                # What the checkpoint does not count is removed or replayed, and needs no repair.
                if end is not None and not end.first_ordinal <= entry.first_ordinal < end.ordinal:
                    continue
                record = b"" if log is None else read_exactly(log, entry.size_bytes, segment.log_size(entry.position))
                if not _is(entry, memoryview(record)):
                    yield entry.first_ordinal, (segment, entry)
        finally:
            if log is not None:
                log.close()


def _read(disk: Disk, files: SegmentFiles, size_bytes: int) -> bytes:
    assert files.index is not None
    file = disk.open(files.index.path)
    try:
        return read_exactly(file, size_bytes, HEADER_BYTES)
    finally:
        file.close()


def _runs(journal: StoreFile, file: DiskFile) -> Iterator[RecordRange]:
    """Yield all that a journal file holds, also before the checkpoint's place and in damaged blocks."""
    salt = journal.header.salt if journal.header is not None else find_salt(file)
    if salt is None:
        return
    for found in walk_blocks(file, salt, HEADER_BYTES, journal.size_bytes):
        yield from runs_in(file, found) if isinstance(found, BadBytes) else found.records.runs


def _take(run: RecordRange, wanted: Wanted) -> Iterator[tuple[Segment, IndexEntry, bytes]]:
    for number in range(run.records):
        held = decode_index_entry(run.index, number)
        if held is None or held.first_ordinal not in wanted:
            continue
        segment, entry = wanted[held.first_ordinal]
        at = held.position - run.base_position
        record = memoryview(run.entries)[at : at + held.size_bytes] if at >= 0 else memoryview(b"")
        if _is(entry, record):
            # One copy is enough.
            del wanted[held.first_ordinal]
            yield segment, entry, bytes(record)


def _is(entry: IndexEntry, record: memoryview) -> bool:
    return len(record) == entry.size_bytes and record_is_sound(entry, record)
