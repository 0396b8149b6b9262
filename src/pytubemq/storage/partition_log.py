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
from pytubemq.storage.index import INDEX_BYTES
from pytubemq.storage.record import LogEnd
from pytubemq.storage.segment import Segment
from pytubemq.storage.selection import Selector, Slice

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from threading import Lock

    from pytubemq.storage.files import FileCache
    from pytubemq.storage.run import Run


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
        self.first_ordinal = 0
        self.first_position = 0
        self.last_time_ms = 0
        """Append time of the newest message published."""
        self.applied_time_ms = 0
        """The same of those applied."""
        self.applied_ordinal = 0
        self.applied_position = 0
        self.end_ordinal = 0
        self.end_position = 0
        self.tail: list[Run] = []

    @property
    def min_ordinal(self) -> int:
        """The first message still kept."""
        return self.first_ordinal

    @property
    def applied_end(self) -> LogEnd:
        """How far the log on disk reaches, for a checkpoint."""
        return LogEnd(
            self.applied_ordinal,
            self.applied_position,
            self.first_ordinal,
            self.first_position,
            self.applied_time_ms,
            self.segments[-1].records if self.segments else 0,
        )

    def restore(self, segments: Sequence[Segment], end: LogEnd) -> None:
        """Begin with what a checkpoint says of the log on disk."""
        self.segments = tuple(segments)
        self.first_ordinal, self.first_position = end.first_ordinal, end.first_position
        self.end_ordinal = self.applied_ordinal = end.ordinal
        self.end_position = self.applied_position = end.position
        self.last_time_ms = self.applied_time_ms = end.last_time_ms

    def publish(self, run: Run) -> None:
        """Make a run readable; the caller holds the lock."""
        self.tail.append(run)
        self.end_ordinal, self.end_position = run.end_ordinal, run.end_position
        self.last_time_ms = max(self.last_time_ms, run.last_time_ms)

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
                self.applied_time_ms = max(self.applied_time_ms, now[-1].last_time_ms)
                segment.records += sum(run.records for run in now)
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
            return Extent(
                to_offset(self.first_ordinal), to_offset(self.end_ordinal), self.first_position, self.end_position
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
            records = segments[-1].records if segments else 0
            runs = self._tail_from(ordinal) if applied <= ordinal < end else []
        if ordinal >= end:
            return end_position
        if runs:
            return runs[0].position_of(ordinal)
        if ordinal <= self.first_ordinal:
            return self.first_position
        at = bisect_right(segments, ordinal, key=lambda segment: segment.base_ordinal) - 1
        return segments[at].position_of(files, ordinal, segments[at].records if at + 1 < len(segments) else records)

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
            records = segments[-1].records if segments else 0
            runs = self._tail_from(ordinal) if ordinal >= applied else []
        stop = end if end_offset is None else min(end, -(-end_offset // OFFSET_UNIT))
        if ordinal < (first := self.first_ordinal):
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
            is_last = at + 1 == len(segments)
            segment_end = applied if is_last else segments[at + 1].base_ordinal
            held = records if is_last else segments[at].records
            parts, position = segments[at].read(files, selector, min(stop, segment_end), held)
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
        first = run.record_of(selector.ordinal)
        taken = selector.feed(run.index[first * INDEX_BYTES :], stop)
        position = run.position_at(first + taken)
        base = run.base_position
        parts += (run.entries[start - base : end - base] for start, end in selector.take_ranges())
    return parts, position
