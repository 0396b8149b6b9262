"""Finding a record in a segment's index: by the message it holds, or by the time it came.

The invariant: an entry is checked before what it says decides anything, so damage is met and not followed. A segment
remembers where the last readers were, so that one who goes forward does not search again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from pytubemq.storage.format.index import INDEX_BYTES, decode_index_entry

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytubemq.storage.format.index import IndexEntry
    from pytubemq.storage.format.record import PartitionKey
    from pytubemq.storage.log.index_repair import Border, RepairedIndex
    from pytubemq.storage.log.segment import Segment

# One for each of a few readers; every search compares with all of them.
_MOST_HINTS: Final = 8


class DamagedIndexError(Exception):
    """An entry fails its check or is missing: the index is of use only when repaired. Never leaves the room."""


class SegmentExtent(NamedTuple):
    """A segment and how much of it counts at a moment: so many index entries, up to `end`."""

    key: PartitionKey
    segment: Segment
    records: int
    end: Border

    @property
    def has_only_singles(self) -> bool:
        """True if there is a record for each message, so that a message's number is its record's."""
        return self.records == self.end.ordinal - self.segment.base_ordinal


class IndexView(Protocol):
    """A segment's index, from its file or repaired."""

    @property
    def records(self) -> int:
        """The number of entries."""
        ...

    def chunk(self, at: int, count: int) -> bytes:
        """Return `count` entries from number `at` on. Raises DamagedIndexError if there are fewer."""
        ...


class FileView:
    """The index as its file has it; nothing is checked here."""

    def __init__(self, extent: SegmentExtent, read: Callable[[int, int], bytes]) -> None:
        """Read the file with `read`, which gives so many bytes at a position, fewer only at its end."""
        self.records = extent.records
        self._segment = extent.segment
        self._read = read

    def chunk(self, at: int, count: int) -> bytes:
        """See `IndexView`."""
        data = self._read(count * INDEX_BYTES, self._segment.index_size(at))
        if len(data) != count * INDEX_BYTES or at + count > self.records:
            # The file is shorter than what was applied, so somebody cut it.
            raise DamagedIndexError
        return data


class RepairedView:
    """A repaired index; all of it is sound."""

    def __init__(self, repaired: RepairedIndex) -> None:
        self.records = len(repaired.index) // INDEX_BYTES
        self._repaired = repaired

    def chunk(self, at: int, count: int) -> bytes:
        """See `IndexView`."""
        return bytes(self._repaired.index[at * INDEX_BYTES : (at + count) * INDEX_BYTES])


def entry_at(view: IndexView, at: int) -> IndexEntry:
    """Return entry number `at`.

    Raises:
        DamagedIndexError: it fails its check.
    """
    entry = decode_index_entry(view.chunk(at, 1), 0)
    if entry is None:
        raise DamagedIndexError
    return entry


def record_of(view: IndexView, extent: SegmentExtent, ordinal: int) -> int:
    """Return the number of the record that holds message `ordinal` of the segment.

    Raises:
        DamagedIndexError: an entry on the way fails its check.
    """
    # No search at all, and no read: the usual case for messages of the original's producers.
    if extent.has_only_singles and view.records == extent.records:
        return ordinal - extent.segment.base_ordinal
    # The record at `low` begins at or before the message, the one at `high` behind it.
    low, high = 0, view.records
    # Hints are numbers of records in the file's index; in a repaired one they may be others.
    if isinstance(view, FileView):
        for known, at in extent.segment.hints:
            if known == ordinal:
                return at
            if known < ordinal:
                low = max(low, at)
            else:
                high = min(high, at)
    step = 1  # a reader who goes forward is near the hint below
    while high - low > 1:
        # Growing steps from the hint first, then halves: one that reads on finds its record in a step or two, any
        # other one as by bisection.
        middle = min(low + step, (low + high) // 2)
        if entry_at(view, middle).first_ordinal <= ordinal:
            low, step = middle, step * 4
        else:
            high = middle
    return low


def remember(segment: Segment, ordinal: int, at: int) -> None:
    """Remember that a reader is before record number `at`, which begins with message `ordinal`."""
    hints = [hint for hint in segment.hints if hint[0] != ordinal]
    # Replaced and never changed, since readers on other threads go through it without a lock.
    segment.hints = ((ordinal, at), *hints[: _MOST_HINTS - 1])


def first_since(view: IndexView, time_ms: int) -> int:
    """Return the number of the first record that came at `time_ms` or later, the number of all if none did.

    Raises:
        DamagedIndexError: an entry on the way fails its check.
    """
    # Times rise within a segment: where the clock goes back a new one is begun (`PartitionLog`).
    low, high = 0, view.records
    while low < high:
        middle = (low + high) // 2
        if entry_at(view, middle).append_time_ms < time_ms:
            low = middle + 1
        else:
            high = middle
    return low
