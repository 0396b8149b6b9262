"""Which messages a read takes: decided on index bytes alone, without I/O.

The invariant: a selection never skips a message that matches and lies below its `next_ordinal`.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from pytubemq.model.limits import MAX_SCAN_ENTRIES
from pytubemq.storage.index import (
    INDEX_BYTES,
    RecordKind,
    index_end,
    index_ordinal,
    index_position,
    sizes_counts_codes_kinds,
)


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
    packs: bool = False
    """Whether there is a pack among them; the first may begin before `start_offset`."""
    skipped: int = 0
    """Messages lost to damage that were passed over."""


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

    def feed(self, index: bytes, stop: int) -> int:
        """Go on with the index entries from the one on that holds `ordinal`; none that begins at `stop` or behind is
        taken. Returns how many entries were gone through, at least one."""
        if self.codes is None:
            return self._feed_all(index, stop)
        return self._feed_matching(index, stop, self.codes)

    def take_ranges(self) -> list[tuple[int, int]]:
        """The ranges found since the last call."""
        ranges, self.ranges = self.ranges, []
        return ranges

    def _feed_all(self, index: bytes, stop: int) -> int:
        held = len(index) // INDEX_BYTES
        start = index_position(index, 0)
        end_ordinal, end_position = index_end(index)

        def position_after(taken: int) -> int:
            return end_position if taken == held else index_position(index, taken)

        def ordinal_after(taken: int) -> int:
            return end_ordinal if taken == held else index_ordinal(index, taken)

        records = range(1, held + 1)
        by_bytes = bisect_left(records, self.max_bytes - self.size_bytes, key=lambda at: position_after(at) - start)
        by_count = bisect_left(records, min(self.ordinal + self.max_messages - self.count, stop), key=ordinal_after)
        taken = min(by_bytes, by_count, held - 1) + 1
        end = position_after(taken)
        self.ranges.append((start, end))
        self.count += ordinal_after(taken) - self.ordinal
        self.ordinal = ordinal_after(taken)
        self.size_bytes += end - start
        self.done = self.size_bytes >= self.max_bytes or self.count >= self.max_messages
        return taken

    def _feed_matching(self, index: bytes, stop: int, codes: frozenset[int]) -> int:
        start = end = position = index_position(index, 0)
        ordinal = index_ordinal(index, 0)
        taken = 0
        for size, count, code, kind in sizes_counts_codes_kinds(index):
            if ordinal >= stop:
                break
            behind = max(0, self.ordinal - ordinal)
            ordinal += count
            taken += 1
            self.max_scan -= 1
            if code in codes or kind == RecordKind.MIXED_PACK:
                if position != end:
                    if end > start:
                        self.ranges.append((start, end))
                    start = position
                end = position + size
                self.count += count - behind
                self.size_bytes += size
            position += size
            self.ordinal = ordinal
            if self.size_bytes >= self.max_bytes or self.count >= self.max_messages or self.max_scan <= 0:
                self.done = True
                break
        if end > start:
            self.ranges.append((start, end))
        return taken
