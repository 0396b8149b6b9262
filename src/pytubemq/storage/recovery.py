"""Opening a store after whatever happened: look at everything first, then cut the logs back to the checkpoint.

The invariant: no file is changed before every file's version is known to be readable here. After it, the logs of sound
partitions end exactly where the checkpoint says. A partition whose files are missing, short or damaged is marked, left
as it is, and does not keep the others from being opened.

Partition logs are cut back to the checkpoint, also where more of them may be sound: the journal holds all of that,
checked block by block, and written again it needs no trust in what a crash left behind.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING

from pytubemq.errors import CorruptError
from pytubemq.storage.checkpoint import NAME as CHECKPOINT
from pytubemq.storage.checkpoint import Checkpoint, read_checkpoint
from pytubemq.storage.disk import read_exactly
from pytubemq.storage.header import HEADER_BYTES, FileHeader, FileKind, corrupt, decode_header
from pytubemq.storage.index import INDEX_BYTES, decode_index_entry
from pytubemq.storage.journal import UNFINISHED, journal_path
from pytubemq.storage.record import LogEnd, PartitionKey
from pytubemq.storage.removal import remove_empty
from pytubemq.storage.segment import Segment

if TYPE_CHECKING:
    from pathlib import Path

    from pytubemq.storage.disk import Disk
    from pytubemq.storage.index import IndexEntry

_NUMBER = r"(\d{20})"
_JOURNAL = re.compile(_NUMBER + r"\.journal")
_SEGMENT_FILE = re.compile(_NUMBER + r"\.(log|index)")


@dataclass(slots=True)
class FoundLog:
    """A partition on disk: its sound segments up to the checkpoint, and files beyond it that go."""

    topic: str
    partition_id: int
    directory: Path
    end: LogEnd
    segments: list[Segment] = field(default_factory=list)
    leftovers: list[Path] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    """Bytes of each file by name."""
    problem: str | None = None
    """Why the partition cannot be used: the first file that is missing, too short or damaged in its header."""

    def trouble(self, what: str) -> None:
        """Take note of a problem; the first one is told."""
        self.problem = self.problem or what


@dataclass(slots=True)
class FoundJournal:
    """A journal file."""

    number: int
    path: Path
    header: FileHeader
    size_bytes: int


@dataclass(slots=True)
class Found:
    """A whole store as it lies on disk; nothing was changed yet."""

    checkpoint: Checkpoint
    is_new: bool
    """There is nothing yet, not even a checkpoint."""
    logs: list[FoundLog]
    journals: list[FoundJournal]
    leftovers: list[Path]
    empty: list[Path]
    """Directories of topics without a partition."""


# --- looking ------------------------------------------------------------------------------------------------------


def survey(disk: Disk, root: Path) -> Found:
    """Read every file's header, change nothing.

    Raises:
        NewerVersionError, CorruptError: naming the file.
    """
    checkpoint = read_checkpoint(disk, root)
    journals = _survey_journals(disk, root / "journal")
    logs = _survey_logs(disk, root / "logs", (checkpoint or Checkpoint()).ends)
    topics = [root / "logs" / name for name in sorted(disk.listdir(root / "logs"))]
    empty = [path for path in topics if not disk.listdir(path)]
    if checkpoint is None and (
        any(log.sizes for log in logs) or any(item.size_bytes > HEADER_BYTES for item in journals)
    ):
        raise CorruptError(
            f"{root / CHECKPOINT} is missing",
            hint="restore it from a backup, or let `pytubemq store repair` make another; nothing was changed",
        )
    first = checkpoint.journal if checkpoint else 1
    leftovers = [journal.path for journal in journals if journal.number < first]
    leftovers += [
        path for path in map((root / "journal").joinpath, disk.listdir(root / "journal")) if _is_unfinished(path)
    ]
    kept = [journal for journal in journals if journal.number >= first]
    numbers = [journal.number for journal in kept]
    if numbers != list(range(first, first + len(numbers))) or (checkpoint and not numbers):
        missing = next(number for number in range(first, first + len(numbers) + 1) if number not in numbers)
        raise CorruptError(
            f"{journal_path(root / 'journal', missing)} is missing",
            hint="restore it from a backup; nothing was changed",
        )
    return Found(checkpoint or Checkpoint(), checkpoint is None, logs, kept, leftovers, empty)


def _is_unfinished(path: Path) -> bool:
    return path.suffix == UNFINISHED and _JOURNAL.fullmatch(path.stem) is not None


def _survey_journals(disk: Disk, directory: Path) -> list[FoundJournal]:
    found = []
    for name in sorted(disk.listdir(directory)):
        if match := _JOURNAL.fullmatch(name):
            path, number = directory / name, int(match[1])
            header, size = _read_header(disk, path, FileKind.JOURNAL)
            # It got its name when its header was on the device.
            if header is None or header.number != number:
                raise corrupt(path, 0, "the header fails its check")
            found.append(FoundJournal(number, path, header, size))
    return found


def _survey_logs(disk: Disk, directory: Path, ends: dict[PartitionKey, LogEnd]) -> list[FoundLog]:
    found = []
    missing = dict(ends)
    for topic in sorted(disk.listdir(directory)):
        for name in sorted(disk.listdir(directory / topic)):
            if name.isascii() and name.isdigit():
                end = missing.pop((topic, int(name)), LogEnd(0, 0))
                found.append(_survey_log(disk, FoundLog(topic, int(name), directory / topic / name, end)))
    for (topic, partition_id), end in missing.items():
        log = FoundLog(topic, partition_id, directory / topic / str(partition_id), end)
        if end.first_ordinal < end.ordinal:
            log.problem = f"{log.directory} is missing; it should hold {end.ordinal - end.first_ordinal} messages"
        found.append(log)
    return found


def _survey_log(disk: Disk, log: FoundLog) -> FoundLog:
    end = log.end
    bases: dict[int, int] = {}
    for name in sorted(disk.listdir(log.directory)):
        if match := _SEGMENT_FILE.fullmatch(name):
            path, base = log.directory / name, int(match[1])
            header, log.sizes[name] = _read_header(disk, path, FileKind.LOG if match[2] == "log" else FileKind.INDEX)
            if not end.first_ordinal <= base < end.ordinal:
                log.leftovers.append(path)
            elif header is None or header.number != base or bases.setdefault(base, header.base) != header.base:
                log.trouble(f"{path} is damaged at byte 0: the header fails its check")
    log.segments = [Segment(log.directory, base, position) for base, position in sorted(bases.items())]
    if end.ordinal > end.first_ordinal and end.first_ordinal not in bases:
        first = Segment(log.directory, end.first_ordinal, end.first_position)
        log.trouble(f"{first.log_path} is missing; the partition begins there")
    for segment, following in zip_longest(log.segments, log.segments[1:]):
        _survey_segment(disk, log, segment, following)
    return log


def _survey_segment(disk: Disk, log: FoundLog, segment: Segment, following: Segment | None) -> None:
    """Say how many index entries of a segment count, and whether its files hold what they must."""
    index_bytes = log.sizes.get(segment.index_path.name, 0)
    if following is None:
        end_ordinal, end_position = log.end.ordinal, log.end.position
        segment.records = log.end.last_records
    else:
        end_ordinal, end_position = following.base_ordinal, following.base_position
        segment.records = max(1, (index_bytes - HEADER_BYTES) // INDEX_BYTES)
    for path, needed in (
        (segment.log_path, segment.log_size(end_position)),
        (segment.index_path, segment.index_size(segment.records)),
    ):
        size = log.sizes.get(path.name)
        if size is None:
            log.trouble(f"{path} is missing")
        elif size < needed:
            log.trouble(f"{path} is damaged at byte {size}: {needed - size} bytes are missing")
    if following is not None and segment.index_path.name in log.sizes:
        last = _last_entry(disk, segment)
        if last is not None and last.end_ordinal < end_ordinal:
            lacking = end_ordinal - last.end_ordinal
            log.trouble(f"{segment.index_path} is damaged at byte {index_bytes}: {lacking} messages are missing")


def _last_entry(disk: Disk, segment: Segment) -> IndexEntry | None:
    file = disk.open(segment.index_path)
    try:
        data = read_exactly(file, INDEX_BYTES, segment.index_size(segment.records - 1))
    finally:
        file.close()
    return decode_index_entry(data, 0)


def _read_header(disk: Disk, path: Path, kind: FileKind) -> tuple[FileHeader | None, int]:
    file = disk.open(path)
    try:
        return decode_header(read_exactly(file, HEADER_BYTES, 0), kind, path), file.size()
    finally:
        file.close()


# --- cutting ------------------------------------------------------------------------------------------


def cut_logs(disk: Disk, found: Found) -> None:
    """Bring the partition logs back to the checkpoint, and drop files that it made superfluous."""
    for log in found.logs:
        for path in log.leftovers:
            disk.unlink(path)
        if not log.end.ordinal:  # of a topic that was being removed, or made and never used
            remove_empty(disk, log.directory)
        elif log.segments and log.problem is None:
            last = log.segments[-1]
            for path, size in (
                (last.log_path, last.log_size(log.end.position)),
                (last.index_path, last.index_size(last.records)),
            ):
                if log.sizes[path.name] > size:
                    _cut(disk, path, size)
    found.logs = [log for log in found.logs if log.end.ordinal]
    for path in found.leftovers:
        disk.unlink(path)
    for path in found.empty:
        disk.rmdir(path)


def _cut(disk: Disk, path: Path, size: int) -> None:
    file = disk.open(path)
    try:
        file.truncate(size)
    finally:
        file.close()
