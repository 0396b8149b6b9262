"""One stretch of a partition on disk: a log file of stored entries and the index file beside it.

The invariant: bytes are written where their position says, never "at the end", so a write that failed half-way is
simply written again, and what lies beyond the known end means nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytubemq.storage.disk import read_exactly, write_all
from pytubemq.storage.record import (
    HEADER_BYTES,
    INDEX_BYTES,
    FileHeader,
    FileKind,
    Run,
    corrupt,
    decode_index_entry,
    index_position,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytubemq.storage.files import FileCache
    from pytubemq.storage.selection import Selector

CHUNK_ENTRIES: Final = 4096
"""Index entries read at a time: 128 KiB."""
_GAP_BYTES: Final = 64 * 1024
"""Unwanted bytes between two ranges that are read along rather than skipped by another call."""
_SPAN_BYTES: Final = 4 * 1024 * 1024
"""Bytes that one read takes together; a single range may be longer."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Two files, named by the ordinal of their first message."""

    directory: Path
    base_ordinal: int
    base_position: int

    @property
    def log_path(self) -> Path:
        return self.directory / f"{self.base_ordinal:020d}.log"

    @property
    def index_path(self) -> Path:
        return self.directory / f"{self.base_ordinal:020d}.index"

    def log_size(self, position: int) -> int:
        """Bytes of the log file whose messages end at `position`."""
        return HEADER_BYTES + position - self.base_position

    def index_size(self, ordinal: int) -> int:
        """Bytes of the index file whose entries end before `ordinal`."""
        return HEADER_BYTES + (ordinal - self.base_ordinal) * INDEX_BYTES

    def create(self, files: FileCache) -> None:
        """Make both files with their headers; durable only after the next checkpoint."""
        for path, kind in ((self.log_path, FileKind.LOG), (self.index_path, FileKind.INDEX)):
            with files.borrow(path, create=True) as file:
                # Bytes of an earlier attempt may lie there: none may pass for this segment's.
                file.truncate(0)
                write_all(file, [FileHeader(kind, self.base_ordinal, self.base_position).encode()], 0)

    def write(self, files: FileCache, runs: Sequence[Run]) -> None:
        """Write consecutive runs where they belong, messages before index."""
        first = runs[0]
        with files.borrow(self.log_path) as file:
            write_all(file, [run.entries for run in runs], self.log_size(first.base_position))
        with files.borrow(self.index_path) as file:
            write_all(file, [run.index for run in runs], self.index_size(first.base_ordinal))

    def read(self, files: FileCache, selector: Selector, end_ordinal: int) -> tuple[list[bytes], int]:
        """What `selector` takes before `end_ordinal`; returns the pieces and the position behind the last one scanned.

        Raises:
            CorruptError: an index entry fails its check, or a file is shorter than it must be.
        """
        parts: list[bytes] = []
        position = self.base_position
        with files.borrow(self.index_path) as index_file, files.borrow(self.log_path) as log_file:
            while not selector.done and selector.ordinal < end_ordinal:
                first = selector.ordinal
                held = min(CHUNK_ENTRIES, end_ordinal - first)
                index = read_exactly(index_file, held * INDEX_BYTES, self.index_size(first))
                selector.feed(index, self._check_chunk(index, first, held))
                taken = selector.ordinal - first
                position = self._end_of(index, first, taken)
                for start, end in _spans(ranges := selector.take_ranges()):
                    at = self.log_size(start)
                    span = read_exactly(log_file, end - start, at)
                    if len(span) != end - start:
                        raise corrupt(self.log_path, at + len(span), f"{end - start - len(span)} bytes are missing")
                    inside = [(low, high) for low, high in ranges if start <= low and high <= end]
                    parts += [span] if len(inside) == 1 else [span[low - start : high - start] for low, high in inside]
        return parts, position

    def position_of(self, files: FileCache, ordinal: int) -> int:
        """Where a message of this segment begins, in the partition's bytes.

        Raises:
            CorruptError: its index entry fails its check.
        """
        with files.borrow(self.index_path) as index_file:
            data = read_exactly(index_file, INDEX_BYTES, self.index_size(ordinal))
        entry = decode_index_entry(data, 0, ordinal) if len(data) == INDEX_BYTES else None
        if entry is None:
            raise corrupt(self.index_path, self.index_size(ordinal), "an index entry fails its check")
        return entry.position

    def _check_chunk(self, index: bytes, first: int, held: int) -> int:
        """The position behind a chunk of index entries whose first and last entry prove themselves."""
        if len(index) != held * INDEX_BYTES:
            missing = held * INDEX_BYTES - len(index)
            raise corrupt(self.index_path, self.index_size(first) + len(index), f"{missing} bytes are missing")
        if decode_index_entry(index, 0, first) is None:
            raise corrupt(self.index_path, self.index_size(first), "an index entry fails its check")
        return self._end_of(index, first, held)

    def _end_of(self, index: bytes, first: int, taken: int) -> int:
        """The position behind the first `taken` entries."""
        entry = decode_index_entry(index, taken - 1, first + taken - 1)
        if entry is None:
            raise corrupt(self.index_path, self.index_size(first + taken - 1), "an index entry fails its check")
        if entry.position < index_position(index, 0):
            raise corrupt(self.index_path, self.index_size(first + taken - 1), "an index entry goes backwards")
        return entry.position + entry.size_bytes


def _spans(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges joined over small gaps, so that scattered messages cost few reads."""
    spans: list[tuple[int, int]] = []
    for start, end in ranges:
        if spans and start - spans[-1][1] <= _GAP_BYTES and end - spans[-1][0] <= _SPAN_BYTES:
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
    return spans
