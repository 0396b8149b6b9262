"""The log of one partition: what is published waits in memory, and is written into the last of its segments.

The invariant: bytes leave memory only once they are written, and count only from then on; files are written by one
background thread. See `PartitionReads` for what readers may see meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pytubemq.model.limits import MIB
from pytubemq.model.offset import to_offset
from pytubemq.observe.trace_events import PARTITION
from pytubemq.storage.disk.file_cache import NO_PLACE, LostFileError
from pytubemq.storage.format.index import INDEX_BYTES
from pytubemq.storage.format.record import LogEnd
from pytubemq.storage.log.index_repair import Border
from pytubemq.storage.log.partition_reads import PartitionReads
from pytubemq.storage.log.segment import Segment

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytubemq.storage.disk.file_cache import FileCache
    from pytubemq.storage.format.record_range import RecordRange
    from pytubemq.storage.log.retention import Roll

_WRITE_BYTES: Final = 8 * MIB
"""Written into a log at a time, about: so that much leaves memory steadily."""


@dataclass(slots=True)
class Dirty:
    """The files to flush before a checkpoint may count what is in them."""

    segments: dict[Segment, PartitionLog] = field(default_factory=dict)
    begun: set[Path] = field(default_factory=set)
    """Directories of partitions with new files."""

    @property
    def directories(self) -> set[Path]:
        """All directories with new names."""
        # A partition may be the first of its topic, and the topic the first of
        # the store, so the names above may be new, too.
        topics = {partition.parent for partition in self.begun}
        return self.begun | topics | {topic.parent for topic in topics}


class PartitionLog(PartitionReads):
    """A partition's messages, numbered densely from 0; see the modules for who may change what."""

    __slots__ = ()

    @property
    def applied_end(self) -> LogEnd:
        """The end of the log on disk, for a checkpoint."""
        return self.end_without(0)

    def end_without(self, count: int) -> LogEnd:
        """Return the end of the log as it will be without its first `count` segments."""
        first, segments = self._begin_after(count), self._filled
        # Of the last one alone: each of the others ends where the next one begins.
        records = segments[-1].records if count < len(segments) else 0
        return LogEnd(self.applied_ordinal, self.applied_position, *first, self.applied_time_ms, records)

    def restore(self, segments: Sequence[Segment], end: LogEnd) -> None:
        """Begin with what a checkpoint says of the log on disk."""
        self.segments = tuple(segments)
        self.first_ordinal, self.first_position = end.first_ordinal, end.first_position
        self.end_ordinal = self.applied_ordinal = end.ordinal
        self.end_position = self.applied_position = end.position
        self.last_time_ms = self.applied_time_ms = end.last_time_ms

    def publish(self, run: RecordRange) -> None:
        """Make a run readable; the caller holds the lock."""
        self.tail.append(run)
        self.end_ordinal, self.end_position = run.end_ordinal, run.end_position
        self.last_time_ms = run.last_time_ms

    # --- background thread ---------------------------------------------------------------------------------------

    def apply(self, stop: int, files: FileCache, dirty: Dirty, roll: Roll) -> None:
        """Write what is published before message `stop` into segments and let it leave memory.

        Raises:
            LostFileError: a file cannot be opened or made: `mark_unusable` begins another.
            OSError: some of it may be written; the rest stays in memory, call again.
        """
        while self.applied_ordinal < stop:
            self.apply_some(stop, files, dirty, roll)

    def apply_some(self, stop: int, files: FileCache, dirty: Dirty, roll: Roll) -> int:
        """Make the next write of `apply`, when there is something before `stop`; returns the bytes that left memory."""
        segment = self._segment_for(self.tail[0], files, dirty, roll)
        now = self._fitting(segment, stop, roll)
        # Without the lock: only this thread writes files, and no reader looks behind `applied_ordinal`.
        segment.write(files, now)
        dirty.segments[segment] = self  # what a write that failed left there means nothing
        first, last = now[0], now[-1]
        index_bytes = sum([len(run.index) for run in now])
        with self._lock:
            self.applied_ordinal, self.applied_position = last.end_ordinal, last.end_position
            self.applied_time_ms = last.last_time_ms
            segment.records += index_bytes // INDEX_BYTES
            # In one step with the numbers above, under the lock: a reader sees a message in memory or in the file,
            # never in both or in neither.
            del self.tail[: len(now)]
        size_bytes = last.end_position - first.base_position
        if PARTITION.on:
            PARTITION.record(
                "applied", topic=self.topic, partition=self.partition_id, offset=to_offset(first.base_ordinal),
                to=to_offset(last.end_ordinal), bytes=size_bytes,
            )  # fmt: skip
        return size_bytes + index_bytes

    def _fitting(self, segment: Segment, stop: int, roll: Roll) -> list[RecordRange]:
        """Return the runs that go into a segment next. One of which only a part fits is split, so that a burst rolls
        like anything else."""
        # The segment's bound cuts within a run; the bound of one write only ends it between two runs.
        limit, most = segment.base_position + roll.size_bytes, self.applied_position + _WRITE_BYTES
        begun_ms, last_ms = segment.first_time_ms, 0
        now: list[RecordRange] = []
        for run in self.tail:
            if run.base_ordinal >= stop:
                break
            first_ms = run.first_time_ms
            if begun_ms is None:
                begun_ms = first_ms
            # Times rise within a segment, as retention and searches by time go by its first and last one.
            if now and (first_ms < last_ms or _is_late(first_ms, begun_ms, roll)):
                break
            end = run.base_position + len(run.entries)
            if end > limit:
                # Where its first record does not fit either, the run begins the next segment and need not be split.
                if not now or run.position_at(1) <= limit:
                    parts = run.parts(limit - run.base_position, roll.size_bytes)
                    # Readers search the tail by bisection, so the parts take the run's place in one step.
                    with self._lock:
                        self.tail[len(now) : len(now) + 1] = parts
                    now.append(parts[0])
                break
            if now and end > most:
                break
            now.append(run)
            last_ms = first_ms if len(run.index) <= INDEX_BYTES else run.last_time_ms
        return now

    def _segment_for(self, run: RecordRange, files: FileCache, dirty: Dirty, roll: Roll) -> Segment:
        if self.segments:
            last = self.segments[-1]
            # Begun for this run before, by a write that failed: the same files take it now.
            if run.base_ordinal == last.base_ordinal:
                return last
            # Only the run's first record has to fit: what is beyond the limit is split off later.
            fits = run.position_at(1) - last.base_position <= roll.size_bytes
            if fits and not self.closing and not last.damaged and not self._is_past(last, run, files, roll):
                return last
        # Named by its first message, so that a directory listing is the order of the log.
        segment = Segment(self.directory, run.base_ordinal, run.base_position, first_time_ms=run.first_time_ms)
        try:
            files.disk.makedirs(self.directory)
        except OSError as error:
            if error.errno in NO_PLACE:
                raise
            # Somebody removed the directory, or something is in its place: that concerns this partition alone, the
            # others go on.
            raise LostFileError(error.errno, error.strerror, str(self.directory)) from error
        # Noted before there is a file: its name needs a flush also if the first write into it fails half-way.
        dirty.begun.add(self.directory)
        if PARTITION.on:
            PARTITION.record(
                "rolled" if self.segments else "created", topic=self.topic, partition=self.partition_id,
                offset=to_offset(run.base_ordinal), file=segment.log_path.name,
            )  # fmt: skip
        with self._lock:
            if self.segments:
                self.segments[-1].times_ms = None  # as of a pass of retention, since when it has grown
            # A new tuple and not an append: readers took the old one with a snapshot and must not see it change.
            self.segments = (*self.segments, segment)
            self.closing = False
        return segment

    def mark_unusable(self, problem: str, files: FileCache) -> None:
        """Stop using the files on disk for now. What is applied next begins a segment, so that all is whole once the
        files are back."""
        with self._lock:
            # The first fault is the cause; what is met later often follows from it.
            self.problem = self.problem or problem
            self.closing = True
            self.segments = self._filled
        # Open handles would go on writing to files that are not at their paths any more.
        for segment in self.segments[-1:]:
            files.forget(segment.log_path)
            files.forget(segment.index_path)

    def mark_usable(self, found: Sequence[Segment], files: FileCache) -> None:
        """Use the files again: `found` are all segments of the partition that hold something, as they are on disk."""
        # The same objects as before stay, since hints and repaired indexes are kept by segment.
        known = {segment.base_ordinal: segment for segment in self.segments}
        segments = tuple(known.get(segment.base_ordinal, segment) for segment in found)
        for segment in segments:  # what is held open may be files that were taken away
            files.forget(segment.log_path)
            files.forget(segment.index_path)
        for segment in found:
            known.get(segment.base_ordinal, segment).damaged |= segment.damaged
        with self._lock:
            # What was begun and not yet written is not found on disk, and stays.
            self.segments = segments + tuple(segment for segment in self.segments if not segment.records)
            self.problem = None
        self._troubles.forget(segments)

    def _is_past(self, segment: Segment, run: RecordRange, files: FileCache, roll: Roll) -> bool:
        """True if a run came too late for a segment, or before what is in it: times rise within a segment."""
        if run.first_time_ms < self.applied_time_ms:
            return True
        if roll.age_ms is None:
            return False
        begun_ms = segment.begun_ms(files)
        return begun_ms is None or _is_late(run.first_time_ms, begun_ms, roll)

    def drop_first(self, count: int) -> tuple[Segment, ...]:
        """Forget the first `count` segments; the caller holds the lock, and removes their files."""
        self.first_ordinal, self.first_position = self._begin_after(count)
        # A new tuple: readers with a snapshot read the dropped ones to the end, as long as they have them open.
        dropped, self.segments = self.segments[:count], self.segments[count:]
        self._troubles.forget(dropped)
        return dropped

    def _begin_after(self, count: int) -> Border:
        """Return the start of the partition without its first `count` segments."""
        if not count:
            return Border(self.first_ordinal, self.first_position)
        if count < len(self.segments):
            return Border(self.segments[count].base_ordinal, self.segments[count].base_position)
        # By age all of them may go: then the partition begins where its log ends.
        return Border(self.applied_ordinal, self.applied_position)


def _is_late(time_ms: int, begun_ms: int, roll: Roll) -> bool:
    return roll.age_ms is not None and time_ms - begun_ms > roll.age_ms
