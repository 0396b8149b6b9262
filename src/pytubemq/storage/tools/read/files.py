"""The files of a store as they are on the disk: names, sizes and headers, whatever state they are in.

The invariant: nothing is changed, and nothing but a file of another version is refused: what is damaged or missing is
reported as such.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytubemq.model.names import is_file_name
from pytubemq.storage.disk.disk import read_exactly
from pytubemq.storage.disk.paths import is_partition_name
from pytubemq.storage.format.header import HEADER_BYTES, FileHeader, FileKind, decode_header
from pytubemq.storage.format.index import INDEX_BYTES
from pytubemq.storage.log.index_repair import Border

if TYPE_CHECKING:
    from pathlib import Path

    from pytubemq.storage.disk.disk import Disk

_JOURNAL = re.compile(r"(\d{20})\.journal", re.ASCII)
_SEGMENT = re.compile(r"(\d{20})\.(log|index)", re.ASCII)


@dataclass(frozen=True, slots=True)
class StoreFile:
    """A file of a store; `number` is what its name says, `header` None if there is no sound one that agrees."""

    path: Path
    number: int
    size_bytes: int
    header: FileHeader | None


@dataclass(slots=True)
class SegmentFiles:
    """The two files of a segment; one of them may be missing."""

    base_ordinal: int
    log: StoreFile | None = None
    index: StoreFile | None = None

    @property
    def base_position(self) -> int | None:
        """The position in the headers, the log's before the index's; None if neither can be read."""
        for file in (self.log, self.index):
            if file is not None and file.header is not None:
                return file.header.base
        return None

    @property
    def held_records(self) -> int:
        """The number of whole index entries that the file has room for."""
        return 0 if self.index is None else max(0, (self.index.size_bytes - HEADER_BYTES) // INDEX_BYTES)


@dataclass(slots=True)
class PartitionFiles:
    """A partition's directory."""

    topic: str
    partition_id: int
    directory: Path
    segments: list[SegmentFiles] = field(default_factory=list)

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        files = [file for segment in self.segments for file in (segment.log, segment.index)]
        return sum(file.size_bytes for file in files if file is not None)


def find_journals(disk: Disk, root: Path) -> list[StoreFile]:
    """Return all journal files by number. Raises NewerVersionError, OlderVersionError, OSError."""
    directory = root / "journal"
    found = [
        _file(disk, directory / name, int(match[1]), FileKind.JOURNAL)
        for name in disk.listdir(directory)
        if (match := _JOURNAL.fullmatch(name))
    ]
    return sorted(found, key=lambda file: file.number)


def find_partitions(disk: Disk, root: Path) -> list[PartitionFiles]:
    """Return all partitions' directories by topic and id. Raises as `find_journals`."""
    logs = root / "logs"
    return [
        find_partition(disk, logs / topic / name, topic, int(name))
        for topic in filter(is_file_name, sorted(disk.listdir(logs)))
        # By length first, so that 10 comes behind 9.
        for name in sorted(disk.listdir(logs / topic), key=lambda name: (len(name), name))
        if is_partition_name(name)
    ]


def find_partition(disk: Disk, directory: Path, topic: str, partition_id: int) -> PartitionFiles:
    """Return one partition's directory; without segments if there is none. Raises as `find_journals`."""
    segments: dict[int, SegmentFiles] = {}
    for name in sorted(disk.listdir(directory)):
        if match := _SEGMENT.fullmatch(name):
            # Either file may be missing, so the first one found makes the pair.
            segment = segments.setdefault(int(match[1]), SegmentFiles(int(match[1])))
            kind = FileKind.LOG if match[2] == "log" else FileKind.INDEX
            file = _file(disk, directory / name, int(match[1]), kind)
            if kind is FileKind.LOG:
                segment.log = file
            else:
                segment.index = file
    return PartitionFiles(topic, partition_id, directory, [segments[base] for base in sorted(segments)])


def begin_of(segment: SegmentFiles, otherwise: Border) -> Border:
    """Return the start of a segment; `otherwise` has the position where no header does."""
    position = segment.base_position
    return Border(segment.base_ordinal, otherwise.position if position is None else position)


def _file(disk: Disk, path: Path, number: int, kind: FileKind) -> StoreFile:
    file = disk.open(path)
    try:
        header = decode_header(read_exactly(file, HEADER_BYTES, 0), kind, path)
        # A header with another number is of another file, and says nothing of this one.
        return StoreFile(path, number, file.size(), header if header and header.number == number else None)
    finally:
        file.close()
