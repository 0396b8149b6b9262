"""A directory for files that a recovery is about to truncate or remove, if the journal lacks some of their content.

The invariant: everything that a recovery removes is durable in a directory `repair-recovery-<n>` of the store before
anything is truncated. An interrupted recovery leaves the file `unfinished` there, and the next one continues it.
"""

from __future__ import annotations

import re
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from pytubemq.model.names import is_file_name
from pytubemq.storage.disk.disk import list_directory, open_file, read_exactly, write_all
from pytubemq.storage.disk.paths import is_partition_name, partition_directory
from pytubemq.storage.format.header import HEADER_BYTES, FileHeader, FileKind
from pytubemq.storage.format.index import INDEX_BYTES, decode_index_entry
from pytubemq.storage.format.record_range import record_is_sound
from pytubemq.storage.format.scan import read_record
from pytubemq.storage.log.index_repair import Border
from pytubemq.storage.log.segment import Segment
from pytubemq.storage.log.survey import read_header

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

    from pytubemq.storage.disk.disk import Disk
    from pytubemq.storage.format.index import IndexEntry
    from pytubemq.storage.format.record import LogEnd, PartitionKey
    from pytubemq.storage.journal.recovery import Found
    from pytubemq.storage.log.survey import FoundLog

PREFIX: Final = "repair-recovery-"
_UNFINISHED: Final = "unfinished"
_SEGMENT: Final = re.compile(r"(\d{20})\.(log|index)", re.ASCII)
_MESSAGES: Final = struct.Struct("<8xQ12xI16x")
"""Fields of an index entry: first ordinal, messages."""
_COPY_BYTES: Final = 4 * 1024 * 1024
_MAX_SCANNED: Final = 64
"""Index entries to check at the end of a log, since a crash may have torn the last write."""


class Quarantine:
    """The quarantine directory of one recovery, in the layout of a store."""

    def __init__(self, disk: Disk, root: Path, number: int) -> None:
        """Use the directory of an unfinished recovery, or else a new one with this `number`."""
        self._disk = disk
        self._root = root
        # What an interrupted recovery moved is only in its own directory, so that one is used again.
        self.directory = _find_unfinished(disk, root) or root / f"{PREFIX}{number}"

    def begin(self) -> None:
        """Create the directory, marked as unfinished. Raises OSError."""
        self._disk.makedirs(self.directory)
        # The mark comes first and is durable first: without it the next start would never look into this directory.
        file = open_file(self._disk, self.directory / _UNFINISHED, create=True)
        try:
            file.fdatasync()
        finally:
            file.close()
        self._disk.fsync_dir(self.directory)
        self._disk.fsync_dir(self._root)

    def copy_journals(self, paths: Iterable[Path]) -> None:
        """Copy damaged journal files, which are removed once the recovery has ended. Raises OSError."""
        for path in sorted(set(paths)):
            # One that is missing as a whole leaves nothing to copy.
            if self._disk.exists(path):
                self._copy(path, 0, self.directory / "journal" / path.name, b"")

    def take_tails(self, ends: Mapping[PartitionKey, LogEnd]) -> dict[PartitionKey, list[Segment]]:
        """Take everything behind these ends out of the logs, and return all segments in quarantine, in order.

        Whole files are moved; the tail of a file that stays in use is copied. Raises OSError.
        """
        # Every directory there is: the journal may also lack partitions that no checkpoint names.
        for key in _partitions(self._disk, self._root / "logs"):
            self._take(key, ends.get(key))
        return {
            key: found
            for key in _partitions(self._disk, self.directory / "logs")
            if (found := self._segments(partition_directory(self.directory, *key)))
        }

    def finish(self) -> None:
        """Mark the recovery as finished: all that was found here is durable in the store. Raises OSError."""
        with suppress(FileNotFoundError):
            self._disk.unlink(self.directory / _UNFINISHED)
        self._disk.fsync_dir(self.directory)

    def discard(self) -> None:
        """Remove the directory once all that was found here is in the store and copied elsewhere. Raises OSError."""
        if self._disk.exists(self.directory):
            self._remove(self.directory)
            self._disk.fsync_dir(self._root)

    def _remove(self, directory: Path) -> None:
        for name in sorted(self._disk.listdir(directory)):
            if _is_directory(self._disk, directory / name):
                self._remove(directory / name)
            else:
                self._disk.unlink(directory / name)
        self._disk.rmdir(directory)

    def _take(self, key: PartitionKey, end: LogEnd | None) -> None:
        source = partition_directory(self._root, *key)
        target = partition_directory(self.directory, *key)
        # A partition that the checkpoint does not know ends at 0 for it, so all of its files are taken.
        beyond = end.ordinal if end is not None else 0
        names = [name for name in sorted(self._disk.listdir(source)) if _SEGMENT.fullmatch(name)]
        moved = [name for name in names if int(name[:20]) >= beyond]
        if moved:
            self._disk.makedirs(target)
            self._flush_names(target)  # else a power loss could leave a moved file in a directory that is lost itself
        for name in moved:
            if self._disk.exists(target / name):  # from an interrupted recovery; the log's file has less
                self._disk.unlink(source / name)
            else:
                self._flush(source / name)
                self._disk.rename(source / name, target / name)
        # Target before source: a power loss in between leaves a file under both names, never under neither.
        if moved:
            self._disk.fsync_dir(target)
            self._disk.fsync_dir(source)
        # The segment in which the checkpoint ends stays in use; its tail is copied, and cut off by the recovery.
        if end is not None and end.last_records:
            last = max((name for name in names if end.first_ordinal <= int(name[:20]) < beyond), default=None)
            if last is not None:
                self._copy_tail(source, int(last[:20]), target, end)

    def _copy_tail(self, source: Path, base_ordinal: int, target: Path, end: LogEnd) -> None:
        """Copy the tail of the last segment in use behind its end, as a segment that begins there."""
        base = position_of_segment(self._disk, Segment(source, base_ordinal, 0))
        if base is None:
            return
        # Under the name of its first message, so that the copy is a segment like any other.
        segment, tail = Segment(source, base_ordinal, base), Segment(target, end.ordinal, end.position)
        for path, start, to, kind in (
            (segment.log_path, segment.log_size(end.position), tail.log_path, FileKind.LOG),
            (segment.index_path, segment.index_size(end.last_records), tail.index_path, FileKind.INDEX),
        ):
            if self._disk.exists(path) and not self._disk.exists(to):
                self._copy(path, start, to, FileHeader(kind, end.ordinal, end.position).encode())

    def _copy(self, source: Path, start: int, target: Path, head: bytes) -> None:
        # Whole, from an interrupted recovery: a copy gets this name only after it was flushed.
        if self._disk.exists(target):
            return
        file = open_file(self._disk, source)
        try:
            size = file.size()
            if size <= start:
                return
            self._disk.makedirs(target.parent)
            fresh = target.with_name(f"{target.name}.tmp")
            copy = open_file(self._disk, fresh, create=True)
            try:
                copy.truncate(0)
                at = write_all(copy, [head], 0) if head else 0
                # In pieces, as a log may have 128 MiB.
                while data := read_exactly(file, min(_COPY_BYTES, max(0, size - start)), start):
                    at = write_all(copy, [data], at)
                    start += len(data)
                copy.fdatasync()
            finally:
                copy.close()
        finally:
            file.close()
        self._disk.rename(fresh, target)
        self._flush_names(target.parent)

    def _flush(self, path: Path) -> None:
        """Flush a file, because the part of a log behind the checkpoint may never have been flushed."""
        file = open_file(self._disk, path)
        try:
            file.fdatasync()
        finally:
            file.close()

    def _flush_names(self, directory: Path) -> None:
        # Each directory on the way to the root may be new, and its name is durable only when its parent is flushed.
        while directory != self._root:
            self._disk.fsync_dir(directory)
            directory = directory.parent

    def _segments(self, directory: Path) -> list[Segment]:
        bases = sorted({int(match[1]) for name in self._disk.listdir(directory) if (match := _SEGMENT.fullmatch(name))})
        segments = (Segment(directory, base, 0) for base in bases)
        return [
            Segment(directory, segment.base_ordinal, position)
            for segment in segments
            if (position := position_of_segment(self._disk, segment)) is not None
        ]


def position_of_segment(disk: Disk, segment: Segment) -> int | None:
    """Return where a segment begins in its partition's bytes, from one of its headers or else its first index entry;
    None if neither can be read. The segment's own `base_position` does not count. Raises OSError."""
    for path, kind in ((segment.log_path, FileKind.LOG), (segment.index_path, FileKind.INDEX)):
        if disk.exists(path):
            header, _ = read_header(disk, path, kind)
            # A header that disagrees with the file's name is of another file.
            if header is not None and header.number == segment.base_ordinal:
                return header.base
    if not disk.exists(segment.index_path):
        return None
    file = open_file(disk, segment.index_path)
    try:
        entry = decode_index_entry(read_exactly(file, INDEX_BYTES, HEADER_BYTES), 0)
    finally:
        file.close()
    return entry.position if entry is not None and entry.first_ordinal == segment.base_ordinal else None


def reach_of_tail(disk: Disk, segment: Segment, begin: Border) -> Border:
    """Return the end of a segment's last record behind a border that has a sound index entry. Raises OSError."""
    reach = begin
    if not disk.exists(segment.index_path):
        return reach
    file = open_file(disk, segment.index_path)
    try:
        data = read_exactly(file, max(0, file.size() - HEADER_BYTES), HEADER_BYTES)
    finally:
        file.close()
    for at in reversed(range(len(data) // INDEX_BYTES)):
        entry = decode_index_entry(data, at)
        # From the end on: the last entry that can be believed shows how far it went.
        if entry is not None and entry.first_ordinal >= begin.ordinal and entry.position >= begin.position:
            return Border(entry.end_ordinal, entry.end_position)
    return reach


def quarantine_of(
    disk: Disk, root: Path, found: Found, ends: Mapping[PartitionKey, int], damaged_journals: Collection[Path]
) -> Quarantine | None:
    """Begin a quarantine if the journal lacks some content of the logs, or an earlier one is unfinished.

    `ends` are the ends of the partitions in the journal, `damaged_journals` the journal files that lost something.
    """
    has_all = not damaged_journals and not logs_reach_beyond(disk, found, ends)
    # The usual start: nothing is copied, and no directory made.
    if has_all and _find_unfinished(disk, root) is None:
        return None
    # Each start goes on in a new journal file, so its number names one recovery only.
    quarantine = Quarantine(disk, root, found.journals[-1].number if found.journals else found.checkpoint.journal)
    quarantine.begin()
    quarantine.copy_journals(damaged_journals)
    return quarantine


def logs_reach_beyond(disk: Disk, found: Found, ends: Mapping[PartitionKey, int]) -> bool:
    """True if the logs hold messages behind the checkpoint that the journal, which ends at `ends`, does not have.

    Checks the newest record of each partition, which must be newer than the checkpoint, as none of a dropped topic is.
    Raises OSError.
    """
    for log in found.logs:
        end = max(ends.get((log.topic, log.partition_id), 0), log.end.ordinal)
        segments = [*log.segments[-1:], *(Segment(log.directory, base, 0) for base in _beyond(log))]
        for segment in reversed(segments):
            # No index entry behind the checkpoint, so no message either.
            if log.sizes.get(segment.index_path.name, 0) <= segment.index_size(segment.records):
                continue
            if _newest_is_beyond(disk, segment, end, found.checkpoint.last_message_id):
                return True
            break
    return False


def _beyond(log: FoundLog) -> list[int]:
    bases = {int(path.stem) for path in log.leftovers if path.suffix == ".index"}
    return sorted(base for base in bases if base >= log.end.ordinal)


def _newest_is_beyond(disk: Disk, segment: Segment, end_ordinal: int, after_id: int) -> bool:
    entries = _newest_entries(disk, segment, end_ordinal)
    # The usual case, for each partition that got messages since the checkpoint: no other file has to be opened.
    if not entries:
        return False
    base = position_of_segment(disk, segment)
    if base is None or not disk.exists(segment.log_path):
        return False
    segment = Segment(segment.directory, segment.base_ordinal, base)
    log = open_file(disk, segment.log_path)
    try:
        for entry in entries:
            if entry.position < base:
                continue
            record = read_exactly(log, entry.size_bytes, segment.log_size(entry.position))
            stored = read_record(record) if record_is_sound(entry, memoryview(record)) else None
            if stored is not None and stored.message_id > after_id:
                return True
        return False
    finally:
        log.close()


def _newest_entries(disk: Disk, segment: Segment, end_ordinal: int) -> list[IndexEntry]:
    """Return the sound ones of a segment's newest index entries that end behind a message, the newest first."""
    index = open_file(disk, segment.index_path)
    try:
        # Only the newest few, as one record that is beyond is enough to know.
        held = (index.size() - HEADER_BYTES) // INDEX_BYTES
        first = max(0, held - _MAX_SCANNED)
        data = read_exactly(index, (held - first) * INDEX_BYTES, segment.index_size(first))
    finally:
        index.close()
    whole = memoryview(data)[: len(data) // INDEX_BYTES * INDEX_BYTES]
    beyond = [at for at, (begin, count) in enumerate(_MESSAGES.iter_unpack(whole)) if begin + count > end_ordinal]
    return [entry for at in reversed(beyond) if (entry := decode_index_entry(data, at)) is not None]


def _find_unfinished(disk: Disk, root: Path) -> Path | None:
    return next(
        (root / name for name in sorted(disk.listdir(root))
         if name.startswith(PREFIX) and disk.exists(root / name / _UNFINISHED)),
        None,
    )  # fmt: skip


def _partitions(disk: Disk, logs: Path) -> list[PartitionKey]:
    found: list[PartitionKey] = []
    if not disk.exists(logs):
        return found
    for topic in filter(is_file_name, sorted(disk.listdir(logs))):
        # Whatever else is there is not the store's.
        with suppress(NotADirectoryError):
            found += [
                (topic, int(name))
                for name in sorted(list_directory(disk, logs / topic))
                if is_partition_name(name) and _is_directory(disk, logs / topic / name)
            ]
    return found


def _is_directory(disk: Disk, path: Path) -> bool:
    try:
        disk.listdir(path)
    except NotADirectoryError:
        return False
    return True
