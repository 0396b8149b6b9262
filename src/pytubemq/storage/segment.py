"""One stretch of a partition on disk: a log file of stored entries and the index file beside it.

The invariant: bytes are written where their position says, never "at the end", so a write that failed half-way is
simply written again, and what lies beyond the known end means nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytubemq.storage.disk import read_exactly, write_all
from pytubemq.storage.header import HEADER_BYTES, FileHeader, FileKind, corrupt
from pytubemq.storage.index import INDEX_BYTES, IndexEntry, decode_index_entry, index_position

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytubemq.storage.disk import DiskFile
    from pytubemq.storage.files import FileCache
    from pytubemq.storage.run import Run
    from pytubemq.storage.selection import Selector

CHUNK_ENTRIES: Final = 4096
"""Index entries read at a time: 192 KiB."""
_GAP_BYTES: Final = 64 * 1024
"""Unwanted bytes between two ranges that are read along rather than skipped by another call."""
_SPAN_BYTES: Final = 4 * 1024 * 1024
"""Bytes that one read takes together; a single range may be longer."""


@dataclass(slots=True, eq=False)
class Segment:
    """Two files, named by the ordinal of their first message; `records` index entries of it are applied."""

    directory: Path
    base_ordinal: int
    base_position: int
    records: int = 0

    @property
    def log_path(self) -> Path:
        return self.directory / f"{self.base_ordinal:020d}.log"

    @property
    def index_path(self) -> Path:
        return self.directory / f"{self.base_ordinal:020d}.index"

    def log_size(self, position: int) -> int:
        """Bytes of the log file whose messages end at `position`."""
        return HEADER_BYTES + position - self.base_position

    def index_size(self, records: int) -> int:
        """Bytes of the index file with so many entries."""
        return HEADER_BYTES + records * INDEX_BYTES

    def create(self, files: FileCache) -> None:
        """Make both files with their headers; durable only after the next checkpoint."""
        for path, kind in ((self.log_path, FileKind.LOG), (self.index_path, FileKind.INDEX)):
            with files.borrow(path, create=True) as file:
                # Bytes of an earlier attempt may lie there: none may pass for this segment's.
                file.truncate(0)
                write_all(file, [FileHeader(kind, self.base_ordinal, self.base_position).encode()], 0)

    def write(self, files: FileCache, runs: Sequence[Run]) -> None:
        """Write consecutive runs behind the applied records, messages before index."""
        first = runs[0]
        with files.borrow(self.log_path) as file:
            write_all(file, [run.entries for run in runs], self.log_size(first.base_position))
        with files.borrow(self.index_path) as file:
            write_all(file, [run.index for run in runs], self.index_size(self.records))

    def read(self, files: FileCache, selector: Selector, end_ordinal: int, records: int) -> tuple[list[bytes], int]:
        """What `selector` takes before `end_ordinal` out of `records` index entries; returns the pieces and the
        position behind the last one scanned.

        Raises:
            CorruptError: an index entry fails its check, or a file is shorter than it must be.
        """
        parts: list[bytes] = []
        position = self.base_position
        with files.borrow(self.index_path) as index_file, files.borrow(self.log_path) as log_file:
            at_record = self._record_of(index_file, selector.ordinal, records)
            while not selector.done and selector.ordinal < end_ordinal and at_record < records:
                held = min(CHUNK_ENTRIES, records - at_record)
                index = read_exactly(index_file, held * INDEX_BYTES, self.index_size(at_record))
                self._entry(index, held - 1, at_record)
                self._entry(index, 0, at_record)
                taken = selector.feed(index, end_ordinal)
                position = self._entry(index, taken - 1, at_record).end_position
                at_record += taken
                for start, end in _spans(ranges := selector.take_ranges()):
                    at = self.log_size(start)
                    span = read_exactly(log_file, end - start, at)
                    if len(span) != end - start:
                        raise corrupt(self.log_path, at + len(span), f"{end - start - len(span)} bytes are missing")
                    inside = [(low, high) for low, high in ranges if start <= low and high <= end]
                    parts += [span] if len(inside) == 1 else [span[low - start : high - start] for low, high in inside]
        return parts, position

    def position_of(self, files: FileCache, ordinal: int, records: int) -> int:
        """Where the record that holds a message of this segment begins, in the partition's bytes.

        Raises:
            CorruptError: its index entry fails its check.
        """
        with files.borrow(self.index_path) as index_file:
            at = self._record_of(index_file, ordinal, records)
            data = read_exactly(index_file, INDEX_BYTES, self.index_size(at))
        return self._entry(data, 0, at).position

    def _record_of(self, index_file: DiskFile, ordinal: int, records: int) -> int:
        """Number of the last record that begins at or before `ordinal`, by bisection in the file."""
        low, high = 0, records
        while high - low > 1:
            middle = (low + high) // 2
            data = read_exactly(index_file, INDEX_BYTES, self.index_size(middle))
            if self._entry(data, 0, middle).first_ordinal <= ordinal:
                low = middle
            else:
                high = middle
        return low

    def _entry(self, index: bytes, at: int, first_record: int) -> IndexEntry:
        """Entry number `at` of a blob that begins with record `first_record` of this segment; checked."""
        entry = decode_index_entry(index, at)
        if entry is None:
            where = self.index_size(first_record + at)
            if len(index) < (at + 1) * INDEX_BYTES:
                raise corrupt(self.index_path, where, f"{(at + 1) * INDEX_BYTES - len(index)} bytes are missing")
            raise corrupt(self.index_path, where, "an index entry fails its check")
        if entry.position < index_position(index, 0):
            raise corrupt(self.index_path, self.index_size(first_record + at), "an index entry goes backwards")
        return entry


def _spans(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges joined over small gaps, so that scattered messages cost few reads."""
    spans: list[tuple[int, int]] = []
    for start, end in ranges:
        if spans and start - spans[-1][1] <= _GAP_BYTES and end - spans[-1][0] <= _SPAN_BYTES:
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
    return spans
