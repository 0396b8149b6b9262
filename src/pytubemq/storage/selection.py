"""Which messages a read takes: decided on index bytes alone, without I/O.

The invariant: a selection never skips a message that matches and lies below its `next_ordinal`.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from pytubemq.model.limits import MAX_SCAN_ENTRIES
from pytubemq.storage.record import INDEX_BYTES, index_position, sizes_and_codes


@dataclass(slots=True)
class Slice:
    """A piece of a partition: `parts` joined are stored entries, exactly as a fetch answer carries them.

    `count` messages were taken from [start_offset, next_offset); with filter codes fewer than lie there, perhaps
    none. `payload_bytes` counts the stored entries, that is payloads with some 50 bytes each around them;
    `remaining_bytes` is what the partition holds from `next_offset` on (0 in an empty slice that looked at nothing).
    """

    parts: list[bytes]
    start_offset: int
    next_offset: int
    count: int
    payload_bytes: int
    remaining_bytes: int


@dataclass(slots=True)
class Selector:
    """Collects byte ranges from successive pieces of an index until a limit is reached.

    `max_bytes` stops after the entry that reaches it, so one entry is always taken; `codes` None takes all.
    """

    ordinal: int
    max_bytes: int
    max_messages: int
    codes: frozenset[int] | None = None
    max_scan: int = MAX_SCAN_ENTRIES
    count: int = 0
    size_bytes: int = 0
    done: bool = False
    ranges: list[tuple[int, int]] = field(default_factory=list)
    """Positions [start, end) in the partition's bytes, ascending, not adjoining; take them with `take_ranges`."""

    def feed(self, index: bytes, end_position: int) -> None:
        """Go on with the index entries that follow `ordinal`; their messages end at `end_position`."""
        if self.codes is None:
            self._feed_all(index, end_position)
        else:
            self._feed_matching(index, self.codes)

    def take_ranges(self) -> list[tuple[int, int]]:
        """The ranges found since the last call."""
        ranges, self.ranges = self.ranges, []
        return ranges

    def _feed_all(self, index: bytes, end_position: int) -> None:
        held = len(index) // INDEX_BYTES
        room = min(held, self.max_messages - self.count)
        if room <= 0:
            self.done = self.done or self.count >= self.max_messages
            return
        start = index_position(index, 0)

        def end_of(taken: int) -> int:
            return end_position if taken == held else index_position(index, taken)

        wanted = self.max_bytes - self.size_bytes
        found = bisect_left(range(1, room + 1), wanted, key=lambda taken: end_of(taken) - start)
        taken = min(found + 1, room)
        end = end_of(taken)
        self.ranges.append((start, end))
        self.ordinal += taken
        self.count += taken
        self.size_bytes += end - start
        self.done = self.size_bytes >= self.max_bytes or self.count >= self.max_messages

    def _feed_matching(self, index: bytes, codes: frozenset[int]) -> None:
        if not index:
            return
        start = end = position = index_position(index, 0)
        for size, code in sizes_and_codes(index):
            self.ordinal += 1
            self.max_scan -= 1
            if code in codes:
                if position != end:
                    if end > start:
                        self.ranges.append((start, end))
                    start = position
                end = position + size
                self.count += 1
                self.size_bytes += size
            position += size
            if self.size_bytes >= self.max_bytes or self.count >= self.max_messages or self.max_scan <= 0:
                self.done = True
                break
        if end > start:
            self.ranges.append((start, end))
