"""Reads of segments: whole records as they are in the log, chosen by the index; damage is fenced off on the way.

The invariants: an index entry is checked before the bytes it names are given out, and with `check` the record too; what
fails is put right or skipped and counted, never given out and never a reason to stop. An error of the disk
is raised with the file's name.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import contextmanager
from copy import copy
from struct import Struct
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeVar
from zlib import crc32

from pytubemq.errors import StorageError
from pytubemq.model.limits import MAX_FRAME_BYTES, MIB
from pytubemq.storage.disk.disk import read_exactly
from pytubemq.storage.format.index import INDEX_BYTES, RecordKind, decode_index_entry, index_ordinal, index_position
from pytubemq.storage.format.record_range import record_is_sound
from pytubemq.storage.log.index_repair import Border, repair_index, scanner
from pytubemq.storage.log.lookup import (
    DamagedIndexError,
    FileView,
    RepairedView,
    SegmentExtent,
    entry_at,
    first_since,
    record_of,
    remember,
)
from pytubemq.storage.log.selection import end_of, has_batch, has_hole, has_only_singles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from pytubemq.storage.disk.disk import DiskFile
    from pytubemq.storage.disk.file_cache import FileCache
    from pytubemq.storage.format.index import IndexEntry
    from pytubemq.storage.format.scan import DamagedBytes, LogRecord
    from pytubemq.storage.log.index_repair import Lost, RepairedIndex
    from pytubemq.storage.log.lookup import IndexView
    from pytubemq.storage.log.segment import Segment
    from pytubemq.storage.log.selection import Selector

T = TypeVar("T")

_FEWEST_ENTRIES: Final = 8
_MOST_ENTRIES: Final = 4096
"""Index entries read at a time: 192 KiB."""
_CHECKED_BYTES: Final = INDEX_BYTES - 4
_PROOF = Struct("<QQ8xII8xHHI")
"""The parts of an index entry: position, first ordinal, size, messages, kind, 0, self check."""
_RECORDS = Struct("<Q16xI8xIH6x")
"""The parts of an index entry: position, size, check of the record, kind."""
_SINGLES = Struct("<QQ8xII4xI8x")
"""The parts of an index entry: position, first ordinal, size, messages, check of the record."""
_GAP_BYTES: Final = 64 * 1024
"""Unwanted bytes between two ranges that are read along rather than skipped by another call."""
_SPAN_BYTES: Final = 4 * MIB
"""Bytes that one read takes together; a single range may be longer."""
_REPAIRED_BYTES: Final = 64 * MIB
"""Repaired indexes kept in memory; the longest unused goes, and is repaired again when it is needed."""


class SegmentReader:
    """The reader of the segments of one store; thread-safe.

    Args:
        check: whether each record's check is computed when it is read.
        check_batches: whether that is done at least where batches are read.
        on_damage: called with a segment whose index was repaired: what was lost, the reason being its record or its
            index, and how many entries were built anew. It may be called again with the same.
    """

    def __init__(
        self,
        files: FileCache,
        *,
        check: bool,
        check_batches: bool = False,
        on_damage: Callable[[SegmentExtent, Sequence[Lost], int, bool], None],
    ) -> None:
        self._files = files
        self.check = check
        self.check_batches = check_batches
        self._on_damage = on_damage
        self._lock = Lock()
        self._repaired: OrderedDict[Segment, RepairedIndex] = OrderedDict()

    def read(self, extent: SegmentExtent, selector: Selector) -> tuple[list[bytes], Selector]:
        """Return what `selector` takes from its next message on, and the selector after it; stops within the segment.

        Raises:
            StorageError: a file cannot be read. LostFileError: it cannot be opened. NotOpenedError: no handle now.
        """
        parts: list[bytes] = []
        with self._open(extent) as reading:
            reading.seek(selector.ordinal)
            while not selector.done and selector.ordinal < selector.stop:
                # On a copy, so that a step that meets damage half-way leaves no trace, and is done again on the
                # repaired index.
                trial = copy(selector)
                try:
                    parts += reading.step(trial)
                except DamagedIndexError:
                    reading.repair_index()
                    reading.seek(selector.ordinal)
                    continue
                selector = trial
            reading.remember(selector.ordinal)
        return parts, selector

    def entry_of(self, extent: SegmentExtent, ordinal: int) -> IndexEntry:
        """Return the index entry of the record that holds a message. Raises as `read`."""
        return self._look(extent, lambda view: entry_at(view, record_of(view, extent, ordinal)))

    def ordinal_since(self, extent: SegmentExtent, time_ms: int) -> int:
        """Return the first message that came at `time_ms` or later, the end of the segment if none did. Raises as
        `read`."""

        def look(view: IndexView) -> int:
            at = first_since(view, time_ms)
            return entry_at(view, at).first_ordinal if at < view.records else extent.end.ordinal

        return self._look(extent, look)

    def times(self, extent: SegmentExtent) -> tuple[int, int]:
        """Return the times of the first and the last message of a segment that is not empty, ms. Raises as `read`."""
        return self._look(
            extent,
            lambda view: (
                entry_at(view, 0).append_time_ms,
                entry_at(view, record_of(view, extent, extent.end.ordinal - 1)).append_time_ms,
            ),
        )

    def forget(self, segment: Segment) -> None:
        """Forget what is known of a segment that is removed."""
        with self._lock:
            self._repaired.pop(segment, None)

    def _look(self, extent: SegmentExtent, look: Callable[[IndexView], T]) -> T:
        with self._open(extent) as reading:
            try:
                return look(reading.view)
            except DamagedIndexError:
                # Tried once more only: what is repaired is sound, so a second failure is a fault of ours and must show.
                reading.repair_index()
                return look(reading.view)

    @contextmanager
    def _open(self, extent: SegmentExtent) -> Iterator[_Reading]:
        segment = extent.segment
        # Both files for the whole use: one that retention removes meanwhile is read to the end of this use.
        with self._files.borrow(segment.index_name) as index_file, self._files.borrow(segment.log_name) as log_file:
            yield _Reading(self, extent, index_file, log_file)

    # --- repaired indexes -------------------------------------------------------------------------------------

    def repaired_index(self, extent: SegmentExtent) -> RepairedIndex | None:
        """Return the repaired index of a segment, if one is known that reaches to its end."""
        with self._lock:
            found = self._repaired.get(extent.segment)
            # Repaired when the segment ended elsewhere: it would lack its newest entries.
            if found is None or found.end != extent.end:
                return None
            self._repaired.move_to_end(extent.segment)
            return found

    def keep(self, extent: SegmentExtent, repaired: RepairedIndex) -> None:
        """Keep a repaired index, and say what was lost."""
        with self._lock:
            self._repaired[extent.segment] = repaired
            held = sum(len(kept.index) for kept in self._repaired.values())
            # The newest always stays, however large it is: its reader would repair it again for each piece otherwise.
            while held > _REPAIRED_BYTES and len(self._repaired) > 1:
                held -= len(self._repaired.popitem(last=False)[1].index)
        # Outside the lock, as it logs and takes the lock of the lost ranges.
        self._on_damage(extent, repaired.lost, repaired.rebuilt, False)

    def record_lost(self, extent: SegmentExtent, lost: Sequence[Lost]) -> None:
        """Say which records' bytes were lost."""
        self._on_damage(extent, lost, 0, True)


class _Reading:
    """One use of a segment's two files."""

    def __init__(self, reader: SegmentReader, extent: SegmentExtent, index_file: DiskFile, log_file: DiskFile) -> None:
        self._reader = reader
        self._extent = extent
        self._segment = extent.segment
        self._index_file = index_file
        self._log_file = log_file
        self._at = 0
        self._more = 1
        # Where the index was repaired before, its file is not read again: it would fail in the same place.
        self._repaired = reader.repaired_index(extent)
        self.view: IndexView = (
            FileView(extent, self._read_index) if self._repaired is None else RepairedView(self._repaired)
        )

    def _checks(self, index: bytes, *, asked: bool) -> bool:
        """True if the records of a piece of the index are checked."""
        reader = self._reader
        # A segment with damage is not trusted in any record; a record batch is
        # worth checking, as one check covers many messages.
        return asked or reader.check or self._segment.damaged or (reader.check_batches and has_batch(index))

    def seek(self, ordinal: int) -> None:
        """Seek to the record that holds a message."""
        try:
            self._at = record_of(self.view, self._extent, ordinal)
        except DamagedIndexError:
            self.repair_index()
            self._at = record_of(self.view, self._extent, ordinal)

    def remember(self, ordinal: int) -> None:
        """Record in the segment where this reader is."""
        if self._repaired is None and 0 < self._at < self.view.records and not self._extent.has_only_singles:
            remember(self._segment, ordinal, self._at)

    def step(self, selector: Selector) -> list[bytes]:
        """Go on by a piece of the index; the records that `selector` takes from it.

        Raises:
            DamagedIndexError: something fails its check; the selector is of no use any more.
        """
        selector.ranges = []
        index = self.view.chunk(self._at, self._wanted(selector))
        if not index:
            raise DamagedIndexError
        checking = self._checks(index, asked=selector.check)
        if checking and selector.codes is None and self._repaired is None:
            singles = self._take_singles(index, selector)
            if singles is not None:
                return [singles]
        # The usual read. Its bytes go out as they are, so only where they begin and end has to be proven.
        if selector.codes is None and not checking and not has_hole(index):
            taken = selector.fitting(index)
            # A repaired index was proven when it was built.
            if taken and self._repaired is None:
                _prove_ends(index, taken, selector, self._extent.end)
            selector.take(index, taken)
        else:
            if self._repaired is None:
                # What is beyond the segment's end means nothing, whatever it says.
                index = index[: _prove_each(index, selector, self._extent.end) * INDEX_BYTES]
            taken = selector.feed(index)
        parts: list[bytes] = []
        ranges = selector.take_ranges()
        for start, end in _spans(ranges):
            span = self._read_log(end - start, self._segment.log_size(start))
            # A span that comes short means that the log was cut; the checks show which records are missing.
            if checking or len(span) != end - start:
                self._check(index[: taken * INDEX_BYTES], span, start, end)
            # Ranges that were near were read along with the gap between them, which does not go out.
            inside = [(low, high) for low, high in ranges if start <= low and high <= end]
            parts += [span] if len(inside) == 1 else [span[low - start : high - start] for low, high in inside]
        self._at += taken
        return parts

    def _take_singles(self, index: bytes, selector: Selector) -> bytes | None:
        """Take the next records in one piece if they are single messages, each as its entry says; else change nothing.

        The usual read of single messages. A record with the right check, at the place where the one before ends, needs
        no second check of its entry: what a reader gets follows from position, size, number and check alone.
        """
        taken = selector.fitting(index)
        if not taken or not has_only_singles(index, taken):
            return None
        place = begin = index_position(index, 0)
        ordinal = selector.ordinal
        if ordinal + taken > self._extent.end.ordinal:
            return None
        _, end = end_of(index, taken)
        # A damaged entry may claim anything, and nothing is read for one that claims too much.
        if not 0 < end - begin <= selector.max_bytes + MAX_FRAME_BYTES:
            return None
        # One read for all of them; their checks are computed on views, without a copy.
        span = self._read_log(end - begin, self._segment.log_size(begin))
        view = memoryview(span)
        for position, first, size, messages, check in _SINGLES.iter_unpack(index[: taken * INDEX_BYTES]):
            low = position - begin
            if position != place or first != ordinal or messages != 1 or crc32(view[low : low + size]) != check:
                return None
            place += size
            ordinal += 1
        if place != end or len(span) != end - begin:
            return None
        selector.take(index, taken)
        selector.ranges = []
        self._at += taken
        return span

    def repair_index(self) -> RepairedIndex:
        """Repair the segment's index in memory; messages lost since then are in it."""
        if self._repaired is not None:
            return self._repaired
        segment, extent = self._segment, self._extent
        index = self._read_index(extent.records * INDEX_BYTES, segment.index_size(0))
        begin = Border(segment.base_ordinal, segment.base_position)
        # In memory only: readers never write, and the file is evidence for whoever repairs the store.
        repaired = self._repaired = repair_index(index, begin, extent.end, self._scan)
        # Record numbers of the damaged index mean other records in the repaired one.
        segment.hints = ()
        self.view = RepairedView(repaired)
        self._reader.keep(extent, repaired)
        return repaired

    def _scan(self, begin: Border, end: Border) -> Iterator[LogRecord | DamagedBytes]:
        try:
            yield from scanner(self._log_file, self._segment)(begin, end)
        except OSError as error:
            raise _unreadable(self._segment.log_path, error) from error

    def _wanted(self, selector: Selector) -> int:
        """Estimate the index entries that the selector needs, by the segment's averages."""
        extent = self._extent
        size, messages = (
            extent.end.position - self._segment.base_position,
            extent.end.ordinal - self._segment.base_ordinal,
        )
        # Read a little more than the averages say: one more read of the index costs more than some entries too many.
        needed = 2 + min(
            (selector.max_bytes - selector.size_bytes) * extent.records // (size or 1),
            (selector.max_messages - selector.count) * extent.records // (messages or 1),
        )
        if selector.codes is not None:  # how many of them match shows itself
            # Twice as many each time, so that a filter that matches little costs few reads of the index.
            needed *= self._more
            self._more *= 2
        # Between bounds, as the averages say little of a segment with large and small records.
        return min(self.view.records - self._at, max(_FEWEST_ENTRIES, min(_MOST_ENTRIES, needed)))

    def _check(self, index: bytes, span: bytes, start: int, end: int) -> None:
        """Check the records in a span of the log, and fence off those that fail.

        Raises:
            DamagedIndexError: some were fenced off.
        """
        view = memoryview(span)
        damaged: list[IndexEntry] = []
        for at, (position, size, crc, kind) in enumerate(_RECORDS.iter_unpack(index)):
            low = position - start
            # A hole has no bytes, and what is outside this span is checked with its own.
            if kind == RecordKind.HOLE or low < 0 or position + size > end:
                continue
            record = view[low : low + size]
            # Nearly every record takes this way, so its entry is not decoded as a whole.
            if kind == RecordKind.SINGLE and crc32(record) == crc:
                continue
            entry = decode_index_entry(index, at)
            if entry is None:
                raise DamagedIndexError
            if not record_is_sound(entry, record):
                damaged.append(entry)
        if damaged:
            # LostRanges belong to the repaired index; the one on disk is never written by a reader.
            repaired = self.repair_index()
            self._reader.record_lost(self._extent, [repaired.mark_lost(entry) for entry in damaged])
            raise DamagedIndexError

    def _read_index(self, size: int, position: int) -> bytes:
        try:
            return read_exactly(self._index_file, size, position)
        except OSError as error:
            raise _unreadable(self._segment.index_path, error) from error

    def _read_log(self, size: int, position: int) -> bytes:
        try:
            return read_exactly(self._log_file, size, position)
        except OSError as error:
            raise _unreadable(self._segment.log_path, error) from error


def _unreadable(path: Path, error: OSError) -> StorageError:
    return StorageError(
        f"{path} cannot be read: {error.strerror or error}",
        hint="check the disk; other partitions are served, and this one again as soon as it can be read",
    )


def _prove_ends(index: bytes, taken: int, selector: Selector, end: Border) -> None:
    """Prove that the first and the last of `taken` entries are sound and make sense together: bytes between them are
    given out in one piece, so what the entries between them say does not matter."""
    first, last = decode_index_entry(index, 0), decode_index_entry(index, taken - 1)
    if first is None or last is None or not first.first_ordinal <= selector.ordinal < first.end_ordinal:
        raise DamagedIndexError
    if last.first_ordinal < first.first_ordinal or last.end_ordinal > end.ordinal or last.end_position > end.position:
        raise DamagedIndexError
    # Damaged entries may have led the bisection astray: then it took more than it was to.
    if not first.position <= last.position < first.position + max(1, selector.max_bytes - selector.size_bytes):
        raise DamagedIndexError


def _prove_each(index: bytes, selector: Selector, end: Border) -> int:
    """Prove that every entry up to the segment's end is sound and follows the one before; return how many these are."""
    view = memoryview(index)
    ordinal, place = index_ordinal(index, 0), index_position(index, 0)
    # The search may have been led astray by a damaged entry on its way.
    if not ordinal <= selector.ordinal:
        raise DamagedIndexError
    at = 0
    for position, first, size, messages, kind, zero, check in _PROOF.iter_unpack(index):
        if (
            # A sound entry in the wrong place is damage as well: it has to go on where the one before ends.
            check != crc32(view[at : at + _CHECKED_BYTES], first & 0xFFFFFFFF)
            or position != place
            or first != ordinal
            or not messages
            or kind > RecordKind.HOLE
            or zero
        ):
            raise DamagedIndexError
        ordinal, place = first + messages, position + size
        # The first one has to hold the message that is wanted, or the search has led elsewhere.
        if not at and ordinal <= selector.ordinal:
            raise DamagedIndexError
        if ordinal == end.ordinal:
            return at // INDEX_BYTES + 1
        at += INDEX_BYTES
    return at // INDEX_BYTES


def _spans(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join ranges over small gaps, so that scattered messages cost few reads."""
    spans: list[tuple[int, int]] = []
    for start, end in ranges:
        if spans and start - spans[-1][1] <= _GAP_BYTES and end - spans[-1][0] <= _SPAN_BYTES:
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
    return spans
