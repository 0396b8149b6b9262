"""One partition: segments on disk, and in memory the runs that are published but not yet in them.

The invariant: `applied` <= `end`, the tail holds exactly the runs between the two, and what a reader may see ends at
`end`. Ends and tail change only under the store's lock; files are written by one background thread.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pytubemq.errors import Code, OffsetMovedError
from pytubemq.model.offset import OFFSET_UNIT, to_offset, to_ordinal
from pytubemq.storage.record import INDEX_BYTES, Run
from pytubemq.storage.segment import Segment
from pytubemq.storage.selection import Selector, Slice

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from threading import Lock

    from pytubemq.storage.files import FileCache


@dataclass(slots=True)
class Dirty:
    """What must be flushed before a checkpoint may speak of it."""

    files: set[Path] = field(default_factory=set)
    directories: set[Path] = field(default_factory=set)


class Extent(NamedTuple):
    """Where a partition begins and ends: offsets of messages, and positions in its bytes (which are never reused)."""

    min_offset: int
    max_offset: int
    min_position: int
    max_position: int


class PartitionLog:
    """A partition's messages, numbered densely from 0; see the module for who may change what."""

    def __init__(self, topic: str, partition_id: int, directory: Path, lock: Lock) -> None:
        self.topic = topic
        self.partition_id = partition_id
        self.directory = directory
        self._lock = lock
        self.segments: tuple[Segment, ...] = ()
        self.applied_ordinal = 0
        self.applied_position = 0
        self.end_ordinal = 0
        self.end_position = 0
        self.tail: list[Run] = []

    @property
    def min_ordinal(self) -> int:
        """The first message still kept."""
        segments = self.segments
        return segments[0].base_ordinal if segments else 0

    def publish(self, run: Run) -> None:
        """Make a run readable; the caller holds the lock."""
        self.tail.append(run)
        self.end_ordinal, self.end_position = run.end_ordinal, run.end_position

    # --- background thread ---------------------------------------------------------------------------------------

    def apply(self, runs: Sequence[Run], files: FileCache, dirty: Dirty, segment_bytes: int) -> None:
        """Write published runs into segments and let them leave memory.

        Raises:
            OSError: some of it may be written; the runs stay in memory, call again with the same ones.
        """
        runs = [run for run in runs if run.base_ordinal >= self.applied_ordinal]
        while runs:
            segment = self._segment_for(runs[0], files, dirty, segment_bytes)
            fitting = 1
            limit = segment.base_position + segment_bytes
            while fitting < len(runs) and runs[fitting].end_position <= limit:
                fitting += 1
            now, runs = runs[:fitting], runs[fitting:]
            dirty.files.update((segment.log_path, segment.index_path))
            segment.write(files, now)
            with self._lock:
                self.applied_ordinal, self.applied_position = now[-1].end_ordinal, now[-1].end_position
                del self.tail[:fitting]

    def _segment_for(self, run: Run, files: FileCache, dirty: Dirty, segment_bytes: int) -> Segment:
        if self.segments:
            last = self.segments[-1]
            if run.end_position - last.base_position <= segment_bytes or run.base_ordinal == last.base_ordinal:
                return last
        segment = Segment(self.directory, run.base_ordinal, run.base_position)
        files.disk.makedirs(self.directory)
        topic_directory = self.directory.parent
        dirty.directories.update((self.directory, topic_directory, topic_directory.parent))
        segment.create(files)
        with self._lock:
            self.segments = (*self.segments, segment)
        return segment

    # --- readers -------------------------------------------------------------------------------------------------

    def in_memory(self, offset: int) -> bool:
        """Whether a read from `offset` needs no disk."""
        return to_ordinal(offset) >= self.applied_ordinal

    def extent(self) -> Extent:
        """Where the partition begins and ends now."""
        with self._lock:
            first = self.segments[0] if self.segments else None
            return Extent(
                to_offset(first.base_ordinal) if first else 0,
                to_offset(self.end_ordinal),
                first.base_position if first else 0,
                self.end_position,
            )

    def position_of(self, files: FileCache, offset: int) -> int:
        """See `BrokerStore.position_of`."""
        ordinal = to_ordinal(offset)
        with self._lock:
            segments, applied, end, end_position = (
                self.segments,
                self.applied_ordinal,
                self.end_ordinal,
                self.end_position,
            )
            runs = self._tail_from(ordinal) if applied <= ordinal < end else []
        if ordinal >= end:
            return end_position
        if runs:
            return runs[0].position_of(ordinal)
        first = segments[0]
        if ordinal <= first.base_ordinal:
            return first.base_position
        at = bisect_right(segments, ordinal, key=lambda segment: segment.base_ordinal) - 1
        return segments[at].position_of(files, ordinal)

    def read(
        self,
        files: FileCache,
        offset: int,
        *,
        end_offset: int | None,
        max_bytes: int,
        max_messages: int,
        codes: frozenset[int] | None,
    ) -> Slice:
        """See `BrokerStore.read`."""
        ordinal = to_ordinal(offset)
        with self._lock:
            segments, applied, end, end_position = (
                self.segments,
                self.applied_ordinal,
                self.end_ordinal,
                self.end_position,
            )
            runs = self._tail_from(ordinal) if ordinal >= applied else []
        stop = end if end_offset is None else min(end, -(-end_offset // OFFSET_UNIT))
        if ordinal < (first := segments[0].base_ordinal if segments else 0):
            raise OffsetMovedError(
                f"offset {offset} of {self.topic}:{self.partition_id} is no longer kept",
                hint=f"the first one kept is {to_offset(first)}",
                code=Code.MOVED,
            )
        if ordinal >= stop:
            return Slice([], to_offset(ordinal), to_offset(ordinal), 0, 0, 0)
        selector = Selector(ordinal, max(1, max_bytes), max(1, max_messages), codes)
        if ordinal >= applied:
            parts, position = _read_runs(runs, selector, stop)
        else:
            at = bisect_right(segments, ordinal, key=lambda segment: segment.base_ordinal) - 1
            segment_end = segments[at + 1].base_ordinal if at + 1 < len(segments) else applied
            parts, position = segments[at].read(files, selector, min(stop, segment_end))
        remaining = end_position - position
        return Slice(
            parts, to_offset(ordinal), to_offset(selector.ordinal), selector.count, selector.size_bytes, remaining
        )

    def _tail_from(self, ordinal: int) -> list[Run]:
        at = bisect_right(self.tail, ordinal, key=lambda run: run.base_ordinal) - 1
        return self.tail[max(0, at) :]


def _read_runs(runs: Sequence[Run], selector: Selector, stop: int) -> tuple[list[bytes], int]:
    """What `selector` takes from runs in memory before ordinal `stop`, and the position behind the last one scanned."""
    parts: list[bytes] = []
    position = 0
    for run in runs:
        if selector.done or selector.ordinal >= stop:
            break
        first, last = selector.ordinal - run.base_ordinal, min(stop, run.end_ordinal) - run.base_ordinal
        index = run.index if last - first == run.count else run.index[first * INDEX_BYTES : last * INDEX_BYTES]
        selector.feed(index, run.position_of(run.base_ordinal + last))
        position = run.position_of(selector.ordinal)
        base = run.base_position
        parts += (run.entries[start - base : end - base] for start, end in selector.take_ranges())
    return parts, position
