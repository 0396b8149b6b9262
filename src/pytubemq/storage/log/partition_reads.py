"""The reading half of a partition: what it holds as of one moment, from its segments on disk and its runs in memory.

The invariant: `first` <= `applied` <= `end`, the tail holds exactly the runs between the latter two, and what a reader
may see is between `first` and `end`. All of these change only under the store's lock, and a reader goes by a copy.
"""

from __future__ import annotations

from bisect import bisect_right
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from pytubemq.errors import Code, CorruptError, OffsetMovedError, StorageError
from pytubemq.model.offset import OFFSET_UNIT, to_offset, to_ordinal
from pytubemq.storage.disk.file_cache import LostFileError
from pytubemq.storage.format.index import INDEX_BYTES
from pytubemq.storage.log.index_repair import Border, RepairedIndex
from pytubemq.storage.log.lookup import RepairedView, SegmentExtent, entry_at, first_since
from pytubemq.storage.log.retention import SegmentFacts
from pytubemq.storage.log.selection import Selector, Slice, has_hole
from pytubemq.storage.log.survey import STOP_AND_REPAIR

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path
    from threading import Lock

    from pytubemq.storage.format.index import IndexEntry
    from pytubemq.storage.format.record_range import RecordRange
    from pytubemq.storage.log.segment import Segment
    from pytubemq.storage.log.segment_reader import SegmentReader


class Extent(NamedTuple):
    """The start and end of a partition: offsets of messages, and positions in its bytes (which are never reused)."""

    min_offset: int
    max_offset: int
    min_position: int
    max_position: int


class _GoneError(Exception):
    """A segment was dropped by retention while it was to be read: look again. Never leaves the module."""


class _Snapshot(NamedTuple):
    """The state that readers use: all of it as of one moment."""

    first: Border
    applied: Border
    end: Border
    segments: tuple[Segment, ...]
    records: int
    """The number of records in the last segment."""
    tail: list[RecordRange]
    """Runs from the requested message on, if it is in memory."""


class _Unread(NamedTuple):
    ordinal: int | None
    """The message at which reading failed; None: nothing of the segment can be read."""
    text: str


class ReadTroubles:
    """Parts of a partition that could not be read, at most one for each segment.

    A part stays listed until it was read again or is not kept any more, and no longer. Thread-safe, because each change
    replaces the mapping.
    """

    __slots__ = ("_unread",)

    def __init__(self) -> None:
        self._unread: dict[Segment, _Unread] = {}

    @property
    def text(self) -> str | None:
        """The fault of the first part; None if all can be read."""
        return next((unread.text for unread in self._unread.values()), None)

    def record_failure(self, segment: Segment, ordinal: int | None, text: str) -> None:
        """Record that a segment cannot be read, or not at a message."""
        # A new mapping each time, as other threads iterate over the old one without a lock.
        self._unread = {**self._unread, segment: _Unread(ordinal, text)}

    def record_read(self, segment: Segment, begin: int, end: int) -> None:
        """Record that the messages from `begin` to before `end` of a segment were read."""
        unread = self._unread.get(segment)
        if unread is not None and (unread.ordinal is None or begin <= unread.ordinal < end):
            self.forget([segment])

    def forget(self, segments: Iterable[Segment]) -> None:
        """Remove segments that are not kept any more, or can be read again."""
        gone = set(segments)
        if not gone.isdisjoint(self._unread):
            self._unread = {segment: unread for segment, unread in self._unread.items() if segment not in gone}


class PartitionReads:
    """The reads of a `PartitionLog`; all of them are safe from any thread."""

    __slots__ = (
        "_lock",
        "_troubles",
        "applied_ordinal",
        "applied_position",
        "applied_time_ms",
        "closing",
        "damage",
        "directory",
        "end_ordinal",
        "end_position",
        "first_ordinal",
        "first_position",
        "last_time_ms",
        "partition_id",
        "problem",
        "segments",
        "tail",
        "topic",
    )

    def __init__(self, topic: str, partition_id: int, directory: Path, lock: Lock) -> None:
        self.topic = topic
        self.partition_id = partition_id
        self.directory = directory
        self._lock = lock
        # A tuple, replaced as a whole: a reader's snapshot stays as it was.
        self.segments: tuple[Segment, ...] = ()
        self.first_ordinal = 0
        self.first_position = 0
        self.last_time_ms = 0
        """Append time of the newest message published."""
        self.applied_time_ms = 0
        """Append time of the newest message applied."""
        self.applied_ordinal = 0
        self.applied_position = 0
        self.end_ordinal = 0
        self.end_position = 0
        self.tail: list[RecordRange] = []
        self.closing = False
        """True if the next messages applied begin a segment."""
        self.problem: str | None = None
        """Why nothing of the partition on disk can be used until it is repaired."""
        self.damage: str | None = None
        """Damage in its files that are still in use."""
        self._troubles = ReadTroubles()

    @property
    def min_ordinal(self) -> int:
        """The first message still kept."""
        return self.first_ordinal

    @property
    def trouble(self) -> str | None:
        """The reason why the partition, or a part of it, cannot be read, or the damage in its files."""
        return self.problem or self._troubles.text or self.damage

    def mark_damaged(self, ordinal: int) -> None:
        """Mark the segment of a message at which damage was met: its records are to be checked when they are read."""
        at = bisect_right(self.segments, ordinal, key=lambda segment: segment.base_ordinal) - 1
        # None if retention has removed it meanwhile; then its damage concerns nobody any more.
        if at >= 0:
            self.segments[at].damaged = True

    @property
    def _filled(self) -> tuple[Segment, ...]:
        """The segments with something in them: one just made may wait for the disk to take its first record."""
        segments = self.segments
        return segments if not segments or segments[-1].records else segments[:-1]

    def in_memory(self, offset: int) -> bool:
        """True if a read from `offset` needs no disk."""
        # Without the lock: if it is applied before the read, that finds the bytes in a file just written.
        return to_ordinal(offset) >= self.applied_ordinal

    def extent(self) -> Extent:
        """Return the start and end of the partition now."""
        with self._lock:
            return Extent(
                to_offset(self.first_ordinal), to_offset(self.end_ordinal), self.first_position, self.end_position
            )

    def position_of(self, reader: SegmentReader, offset: int) -> int:
        """See `BrokerStore.position_of`."""
        # Again with a new snapshot where retention took the segment away; the partition's beginning has moved on then.
        while True:
            with suppress(_GoneError):
                return self._position_of(reader, to_ordinal(offset))

    def _position_of(self, reader: SegmentReader, ordinal: int) -> int:
        snapshot = self._snapshot(ordinal, 1)
        if ordinal >= snapshot.end.ordinal:
            return snapshot.end.position
        if snapshot.tail:
            return snapshot.tail[0].position_of(ordinal)
        if ordinal <= snapshot.first.ordinal:
            return snapshot.first.position
        self._check_whole()
        return self._entry_of(reader, self._extent_of(snapshot, ordinal), ordinal).position

    def offset_at(self, reader: SegmentReader, time_ms: int) -> int:
        """See `BrokerStore.offset_at`."""
        while True:
            with suppress(_GoneError):
                return self._offset_at(reader, time_ms)

    def _offset_at(self, reader: SegmentReader, time_ms: int) -> int:
        with self._lock:
            applied_time_ms, tail = self.applied_time_ms, self.tail
            # Runs never change, so the one found here serves also if it is applied before the snapshot is taken.
            late = next((run for run in tail if run.last_time_ms >= time_ms), None)
        snapshot = self._snapshot(0, 0)
        # Only if something on disk can be that new; else the disk is left alone.
        if snapshot.first != snapshot.applied and applied_time_ms >= time_ms:
            self._check_whole()
            # The last segment that begins before the time, or else the first: in it or behind it is the message.
            low, high = 0, len(snapshot.segments)
            while high - low > 1:
                # By each segment's first entry: its times need not be known, and few segments are opened.
                middle = (low + high) // 2
                extent = self._extent_at(snapshot, middle)
                if self._entry_of(reader, extent, extent.segment.base_ordinal).append_time_ms < time_ms:
                    low = middle
                else:
                    high = middle
            # Where the clock was put back times begin anew: nothing that came at the time or later is left out.
            while low and self._last_time_ms(reader, self._extent_at(snapshot, low - 1)) >= time_ms:
                low -= 1
            extent = self._extent_at(snapshot, low)
            with self._using(extent.segment, None):
                return to_offset(reader.ordinal_since(extent, time_ms))
        if late is None:
            return to_offset(snapshot.end.ordinal)
        view = RepairedView(RepairedIndex(Border(late.end_ordinal, late.end_position), bytearray(late.index)))
        return to_offset(entry_at(view, first_since(view, time_ms)).first_ordinal)

    def _last_time_ms(self, reader: SegmentReader, extent: SegmentExtent) -> int:
        return self._entry_of(reader, extent, extent.end.ordinal - 1).append_time_ms

    def _entry_of(self, reader: SegmentReader, extent: SegmentExtent, ordinal: int) -> IndexEntry:
        with self._using(extent.segment, None):
            return reader.entry_of(extent, ordinal)

    @contextmanager
    def _using(self, segment: Segment, ordinal: int | None) -> Iterator[None]:
        """Note what goes wrong with a segment while it is read from a message on.

        Raises:
            _GoneError: retention has dropped it meanwhile. LostFileError, StorageError: its files cannot be read.
        """
        try:
            yield
        except LostFileError as error:
            # Gone by retention is no trouble of the disk; health must not report it.
            if segment not in self.segments:
                raise _GoneError from error
            self._troubles.record_failure(segment, None, error.text)
            raise
        except StorageError as error:
            self._troubles.record_failure(segment, ordinal, error.message)
            raise

    def read(
        self,
        reader: SegmentReader,
        offset: int,
        *,
        end_offset: int | None,
        max_bytes: int,
        max_messages: int,
        codes: frozenset[int] | None,
        check: bool = False,
    ) -> Slice:
        """See `BrokerStore.read`."""
        ordinal = to_ordinal(offset)
        snapshot = self._snapshot(ordinal, max_bytes)
        # Rounded up: a message that begins before the end offset is wanted.
        stop = snapshot.end.ordinal if end_offset is None else min(snapshot.end.ordinal, -(-end_offset // OFFSET_UNIT))
        # Checked against the snapshot: retention may move the beginning while this read goes on.
        if ordinal < snapshot.first.ordinal:
            raise self._moved_error(offset)
        if ordinal >= stop:
            return Slice([], to_offset(ordinal), to_offset(ordinal), 0, 0, 0)
        selector = Selector(ordinal, stop, max(1, max_bytes), max(1, max_messages), codes, check=check)
        if snapshot.tail:
            # Consumers at the end of a partition, which are most of them, never touch the disk or the index files.
            parts = _read_runs(snapshot.tail, selector)
        else:
            try:
                parts, selector = self._read_segments(reader, snapshot, selector)
            except _GoneError:
                # Not an error of the disk: the segment was removed between the snapshot and its opening.
                raise self._moved_error(offset) from None
        return Slice(
            parts,
            to_offset(ordinal),
            to_offset(selector.ordinal),
            selector.count,
            selector.size_bytes,
            snapshot.end.position - selector.position,
            selector.has_batches,
            selector.skipped,
        )

    def _read_segments(
        self, reader: SegmentReader, snapshot: _Snapshot, selector: Selector
    ) -> tuple[list[bytes], Selector]:
        """Return the records that `selector` takes from the first segment that has any for it."""
        self._check_whole()
        parts: list[bytes] = []
        # A read gives out bytes from disk or from memory, never of both; the next one goes on in memory.
        stop = min(selector.stop, snapshot.applied.ordinal)
        while not parts and not selector.done and selector.ordinal < stop:
            extent = self._extent_of(snapshot, selector.ordinal)
            # A read stays within one segment, unless nothing in it matches: then the next one is looked at, so that a
            # filter does not cost a response for each segment.
            selector.stop = min(stop, extent.end.ordinal)
            begin = selector.ordinal
            with self._using(extent.segment, begin):
                parts, selector = reader.read(extent, selector)
            # A read that succeeds where one failed before ends the trouble that health reports.
            self._troubles.record_read(extent.segment, begin, selector.ordinal)
        return parts, selector

    def _check_whole(self) -> None:
        """Raise CorruptError if what is on disk is of no use for now."""
        if self.problem is not None:
            raise CorruptError(
                self.problem,
                hint=f"restore the file from a backup, or {STOP_AND_REPAIR}",
                code=Code.INTERNAL_SERVER_ERROR,
            )

    def _moved_error(self, offset: int) -> OffsetMovedError:
        return OffsetMovedError(
            f"offset {offset} of {self.topic}:{self.partition_id} is no longer kept",
            hint=f"the first one kept is {to_offset(self.first_ordinal)}",
            code=Code.MOVED,
        )

    def _snapshot(self, ordinal: int, max_bytes: int) -> _Snapshot:
        """Return the present state, with runs of about `max_bytes` from message `ordinal` on if they are in memory."""
        with self._lock:
            # Not the segment that was just begun: nothing of it is on disk before its first write ends.
            segments = self._filled
            return _Snapshot(
                Border(self.first_ordinal, self.first_position),
                Border(self.applied_ordinal, self.applied_position),
                Border(self.end_ordinal, self.end_position),
                segments,
                segments[-1].records if segments else 0,
                self._tail_from(ordinal, max_bytes) if self.applied_ordinal <= ordinal < self.end_ordinal else [],
            )

    def _tail_from(self, ordinal: int, max_bytes: int) -> list[RecordRange]:
        at = max(0, bisect_right(self.tail, ordinal, key=lambda run: run.base_ordinal) - 1)
        # The first one may be before the message with most of its bytes.
        limit = self.tail[at].end_position + max_bytes
        end = bisect_right(self.tail, limit, lo=at, key=lambda run: run.base_position)
        return self.tail[at : max(end, at + 1)]

    def _extent_of(self, snapshot: _Snapshot, ordinal: int) -> SegmentExtent:
        """Return the segment with a message that is on disk."""
        segments = snapshot.segments
        return self._extent_at(
            snapshot, max(0, bisect_right(segments, ordinal, key=lambda segment: segment.base_ordinal) - 1)
        )

    def _extent_at(self, snapshot: _Snapshot, at: int) -> SegmentExtent:
        segment = snapshot.segments[at]
        # The last segment may have grown since; what counts of it is what the snapshot saw.
        if at + 1 == len(snapshot.segments):
            return SegmentExtent((self.topic, self.partition_id), segment, snapshot.records, snapshot.applied)
        after = snapshot.segments[at + 1]
        # It is closed: it ends where the next one begins, and its own number of records stays.
        end = Border(after.base_ordinal, after.base_position)
        return SegmentExtent((self.topic, self.partition_id), segment, segment.records, end)

    def pieces(self, reader: SegmentReader) -> list[SegmentFacts]:
        """Return what retention needs of each segment, the oldest first; may read the disk. Raises as `read`."""
        snapshot = self._snapshot(0, 0)
        pieces = []
        for at, segment in enumerate(snapshot.segments):
            extent = self._extent_at(snapshot, at)
            if at + 1 == len(snapshot.segments):
                # Where this process began it, the disk need not be asked: of thousands each would have to be opened.
                begun_ms = segment.first_time_ms if segment.times_ms is None else segment.times_ms[0]
                segment.times_ms = reader.times(extent)[0] if begun_ms is None else begun_ms, self.applied_time_ms
            elif segment.times_ms is None:
                segment.times_ms = reader.times(extent)
            pieces.append(SegmentFacts(extent.end.position - segment.base_position, *segment.times_ms))
        return pieces


def _read_runs(runs: Sequence[RecordRange], selector: Selector) -> list[bytes]:
    """Return the records that `selector` takes from runs in memory."""
    parts: list[bytes] = []
    for run in runs:
        if selector.done or selector.ordinal >= selector.stop:
            break
        first = run.record_of(selector.ordinal)
        index = run.index[first * INDEX_BYTES :]
        # A hole is counted and has no bytes to give out, so a run with one is gone through entry by entry.
        if selector.codes is None and not has_hole(index):
            selector.take(index, selector.fitting(index))
        else:
            selector.feed(index)
        base = run.base_position
        parts += (run.entries[start - base : end - base] for start, end in selector.take_ranges())
    return parts
