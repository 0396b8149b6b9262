"""The selection of records that a read takes: decided on index bytes alone, without I/O.

The invariant: a selection never skips a message that matches and is below its `ordinal`, but for those lost in holes,
which it counts. Whole records are taken: the first may begin before the message wanted, the last may end behind the
limit of messages when it is the only one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from pytubemq.model.limits import MAX_SCAN_ENTRIES
from pytubemq.storage.format.index import INDEX_BYTES, RecordKind, index_end, index_ordinal, index_position

_KIND_AT: Final = 40
"""The byte in an index entry that has the kind; the second one of the two is always 0."""
_SCANNED = Struct("<QQ8xIIi4xH6x")
"""The parts of an index entry: position, first ordinal, size, count, filter code, kind."""
_END = Struct("<QQ8xII")
"""The parts of an index entry: position, first ordinal, size, count."""


@dataclass(slots=True)
class Slice:
    """A piece of a partition: `parts` joined are records, stored entries and stored batches, as a fetch response has
    them.

    `count` messages were taken from [start_offset, next_offset); with filter codes fewer than are there, perhaps none.
    A batch may begin before `start_offset`: whoever expands it skips the messages before. A batch whose messages
    have different codes is taken whole, whatever the codes, and all of it is counted. `payload_bytes` counts the
    records, that is payloads with what is around them; `remaining_bytes` is what the partition holds from
    `next_offset` on (0 in an empty slice that looked at nothing).
    """

    parts: list[bytes]
    start_offset: int
    next_offset: int
    count: int
    payload_bytes: int
    remaining_bytes: int
    has_batches: bool = False
    """True if there is a batch among them."""
    skipped: int = 0
    """Messages in [start_offset, next_offset) that are lost to damage."""


@dataclass(slots=True)
class Selector:
    """A collector of byte ranges from successive pieces of an index, until a limit is reached.

    `max_bytes` stops behind the record that reaches it, `max_messages` before the record that would exceed it, but one
    record is always taken. `codes` None takes all. Records that begin at `stop` or behind are not taken.
    """

    ordinal: int
    """The next message."""
    stop: int
    max_bytes: int
    max_messages: int
    codes: frozenset[int] | None = None
    max_scan: int = MAX_SCAN_ENTRIES
    check: bool = False
    """True if each record is to be checked, whatever the store's settings say."""
    count: int = 0
    size_bytes: int = 0
    skipped: int = 0
    has_batches: bool = False
    done: bool = False
    position: int = 0
    """Behind the last record passed."""
    ranges: list[tuple[int, int]] = field(default_factory=list)
    """Positions [start, end) in the partition's bytes, ascending, not adjoining; take them with `take_ranges`."""

    def take_ranges(self) -> list[tuple[int, int]]:
        """Return the ranges found since the last call."""
        ranges, self.ranges = self.ranges, []
        return ranges

    def fitting(self, index: bytes) -> int:
        """Count the next entries that can be taken in one piece, by positions and ordinals that are not checked;
        changes nothing. For a selection without codes, and entries without a hole."""
        room = len(index) // INDEX_BYTES
        end, _ = index_end(index)
        # Most pieces end before `stop`, which their last entry shows; only else is it searched for.
        if end > self.stop:
            room = bisect_left(range(room), self.stop, key=lambda at: index_ordinal(index, at))
        start, wanted = index_position(index, 0), self.max_bytes - self.size_bytes
        # A bisection over the entries' bytes: reads some ten of them where a loop would read thousands.
        taken = min(room, 1 + bisect_left(range(1, room + 1), wanted, key=lambda at: end_of(index, at)[1] - start))
        # In messages and not in entries: a batch has one entry and many messages.
        last = self.ordinal + self.max_messages - self.count
        if taken and end_of(index, taken)[0] > last:
            taken = bisect_right(range(1, taken + 1), last, key=lambda at: end_of(index, at)[0])
            # One record always comes, or a reader whose limit is below a batch's size would never get on.
            if taken == 0 and not self.count:
                taken = 1
        return taken

    def take(self, index: bytes, taken: int) -> None:
        """Take the first `taken` of the next entries in one piece; with 0 the selection is done."""
        if not taken:
            self.done = True
            return
        start = index_position(index, 0)
        ordinal, self.position = end_of(index, taken)
        self.ranges.append((start, self.position))
        # From the message wanted: what a batch has before it was not requested.
        self.count += ordinal - self.ordinal
        self.size_bytes += self.position - start
        self.ordinal = ordinal
        # One slice with a stride has the kind of every entry; its upper byte is always 0.
        kinds = index[_KIND_AT : taken * INDEX_BYTES : INDEX_BYTES]
        self.has_batches = self.has_batches or kinds.count(RecordKind.SINGLE) != taken
        self.done = self.size_bytes >= self.max_bytes or self.count >= self.max_messages

    def feed(self, index: bytes) -> int:
        """Go on with the next entries one by one, all of them checked; returns how many were passed."""
        codes = self.codes
        passed = 0
        start = end = index_position(index, 0)
        for position, first, size, count, code, kind in _SCANNED.iter_unpack(index):
            # By where it begins: a record that ends behind `stop` comes whole.
            if first >= self.stop:
                break
            # The first record may begin before the message that was asked for.
            wanted = first + count - self.ordinal
            if kind == RecordKind.HOLE:
                self.skipped += wanted
            # A batch of several codes goes out whole: the Broker does not take batches apart for a filter, the consumer
            # does.
            elif codes is None or code in codes or kind == RecordKind.MIXED_PACK:
                # The limit ends a read before a batch and not within one, except that the first record always comes.
                if self.count and self.count + wanted > self.max_messages:
                    self.done = True
                    break
                # Neighbours become one range, which is one read of the log and one buffer in the response.
                if position != end:
                    if end > start:
                        self.ranges.append((start, end))
                    start = position
                end = position + size
                self.count += wanted
                self.size_bytes += size
                self.has_batches = self.has_batches or kind != RecordKind.SINGLE
            self.ordinal = first + count
            self.position = position + size
            passed += 1
            # What is passed over costs time and gives the reader nothing, so it is bounded: a filter that matches
            # nothing must not scan a partition in one call.
            if codes is not None or kind == RecordKind.HOLE:
                self.max_scan -= 1
            if self.size_bytes >= self.max_bytes or self.count >= self.max_messages or self.max_scan <= 0:
                self.done = True
                break
        if end > start:
            self.ranges.append((start, end))
        return passed


def has_hole(index: bytes) -> bool:
    """True if an entry says that it is a hole; unchecked."""
    return RecordKind.HOLE in index[_KIND_AT::INDEX_BYTES]


def has_batch(index: bytes) -> bool:
    """True if an entry says that it is a batch; unchecked."""
    return RecordKind.PACK in index[_KIND_AT::INDEX_BYTES]


def has_only_singles(index: bytes, taken: int) -> bool:
    """True if the first `taken` entries say that they are single messages; unchecked."""
    return index[_KIND_AT : taken * INDEX_BYTES : INDEX_BYTES].count(RecordKind.SINGLE) == taken


def end_of(index: bytes, taken: int) -> tuple[int, int]:
    """Return the ordinal and position behind entry number `taken` - 1; of no other entry, so that checking that one
    will do."""
    position, ordinal, size, count = _END.unpack_from(index, (taken - 1) * INDEX_BYTES)
    return ordinal + count, position + size
