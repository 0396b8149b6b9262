"""One segment of a partition: a log file of records and the index file beside it.

The invariant: bytes are written where their position says, never "at the end", so a write that failed half-way is
repeated as it was, and what is beyond the known end means nothing.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytubemq.storage.disk.disk import write_all
from pytubemq.storage.format.header import HEADER_BYTES, FileHeader, FileKind
from pytubemq.storage.format.index import INDEX_BYTES, decode_index_entry

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytubemq.storage.disk.file_cache import FileCache
    from pytubemq.storage.format.record_range import RecordRange


@dataclass(slots=True, eq=False)
class Segment:
    """Two files, named by the ordinal of their first message; `records` index entries of it are applied."""

    directory: Path
    base_ordinal: int
    base_position: int
    records: int = 0
    first_time_ms: int | None = None
    """The time of its first message, as far as the thread that applies had to know."""
    times_ms: tuple[int, int] | None = None
    """The times of the first and the last message, as of the last pass of retention; None: not looked up yet."""
    hints: tuple[tuple[int, int], ...] = ()
    """Messages before which readers were lately, and the numbers of the records that begin with them."""
    damaged: bool = False
    """True if damage was met in it: then every record is checked when it is read, and nothing is added."""

    @property
    def log_name(self) -> str:
        """The path of the file with the records, which costs less than a `Path`."""
        return f"{self.directory}/{self.base_ordinal:020d}.log"

    @property
    def index_name(self) -> str:
        """The name of the file with the index entries."""
        return f"{self.directory}/{self.base_ordinal:020d}.index"

    @property
    def log_path(self) -> Path:
        """The file with the records."""
        return self.directory / f"{self.base_ordinal:020d}.log"

    @property
    def index_path(self) -> Path:
        """The file with the index entries."""
        return self.directory / f"{self.base_ordinal:020d}.index"

    def log_size(self, position: int) -> int:
        """Return the bytes of the log file whose messages end at `position`."""
        return HEADER_BYTES + position - self.base_position

    def index_size(self, records: int) -> int:
        """Return the bytes of the index file with so many entries."""
        return HEADER_BYTES + records * INDEX_BYTES

    def begun_ms(self, files: FileCache) -> int | None:
        """Return the time of its first message; None if its index has none or cannot be read. Raises as `borrow`."""
        if self.first_time_ms is None:
            entry = None
            with files.borrow(self.index_name) as file, suppress(OSError):
                # If it cannot be read, the caller begins another segment, which is always right.
                entry = decode_index_entry(file.pread(INDEX_BYTES, self.index_size(0)), 0)
            if entry is not None:
                self.first_time_ms = entry.append_time_ms
        return self.first_time_ms

    def write(self, files: FileCache, runs: Sequence[RecordRange]) -> None:
        """Write consecutive runs behind the applied records, messages before index. The first of a segment make its
        files, which are durable only after the next checkpoint."""
        first = runs[0]
        log, index = [run.entries for run in runs], [run.index for run in runs]
        # A crash between the two writes leaves records without entries, behind all that counts.
        if not self.records:
            self._begin(files, self.log_name, FileKind.LOG, log)
            self._begin(files, self.index_name, FileKind.INDEX, index)
            return
        # Borrowed for this write only: thousands of partitions share a few hundred handles.
        with files.borrow(self.log_name) as file:
            write_all(file, log, self.log_size(first.base_position))
        with files.borrow(self.index_name) as file:
            write_all(file, index, self.index_size(self.records))

    def _begin(self, files: FileCache, name: str, kind: FileKind, buffers: list[bytes]) -> None:
        """Make a file with its header and its first bytes in one write."""
        with files.borrow(name, create=True) as file:
            if file.size() > HEADER_BYTES:
                # Bytes of an earlier attempt are there: none may pass for this segment's. A header's bytes are left,
                # which are overwritten below: a file that was cut to nothing ext4 writes to the device as soon as it
                # is closed.
                file.truncate(HEADER_BYTES)
            write_all(file, [FileHeader(kind, self.base_ordinal, self.base_position).encode(), *buffers], 0)
