"""Lost ranges: messages that were lost to damage and are skipped by readers, listed for whoever repairs a store.

The invariant: the lost ranges of a partition do not overlap, those that adjoin for one reason are one, and a message is
counted as lost once, however often its damage is met.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from threading import Lock
from typing import TYPE_CHECKING, Final

from pytubemq.observe.trace_events import PARTITION

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytubemq.storage.format.record import LostRange, PartitionKey

_MAX_LOST_RANGES: Final = 10_000
"""Ranges listed of one store; those found beyond it are counted and not listed. Readers do not depend on the list."""
_NEAR_MESSAGES: Final = 100_000
"""Unlisted ranges are known as intervals only, joined where they are nearer than this: what is met later between
them is not counted."""


class LostRanges:
    """The known lost ranges by partition; thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.is_saved = True
        """False while a range is known that the last checkpoint does not hold; whoever writes them sets it."""
        self._known: dict[PartitionKey, list[LostRange]] = {}
        self._listed = 0
        self._unlisted: dict[PartitionKey, list[tuple[int, int]]] = {}
        """Intervals with messages that are counted and not listed, in order."""

    def add(self, lost_range: LostRange) -> int:
        """Record a lost range; returns how many of its messages were not known to be lost."""
        return sum(piece.messages for piece in self.add_all([lost_range]))

    def add_all(self, lost_ranges: Sequence[LostRange]) -> list[LostRange]:
        """Record lost ranges of one partition, in order and without an overlap; returns what of them is new, joined
        where it adjoins. Costs about the same however many they are."""
        if not lost_ranges:
            return []
        key = lost_ranges[0].topic, lost_ranges[0].partition_id
        with self._lock:
            known, unlisted = self._known.setdefault(key, []), self._unlisted.get(key, [])
            # Only those that touch or overlap the new ones; the others are not gone through.
            low = bisect_left(known, lost_ranges[0].from_ordinal, key=lambda item: item.to_ordinal)
            high = bisect_right(known, lost_ranges[-1].to_ordinal, key=lambda item: item.from_ordinal)
            before, near = len(known), known[low:high]
            new = _join(
                without(lost_ranges, sorted([(item.from_ordinal, item.to_ordinal) for item in near] + unlisted))
            )
            # Beyond the room they are counted and skipped all the same, and
            # known as intervals, which need little memory.
            room = max(0, _MAX_LOST_RANGES - self._listed)
            known[low:high] = _join(sorted(near + new[:room], key=lambda item: item.from_ordinal))
            self._listed += len(known) - before
            if new[room:]:
                self._unlisted[key] = _with_interval(unlisted, new[room].from_ordinal, new[-1].to_ordinal)
            # Each reader meets the same damage again; only what is new is worth a checkpoint.
            if new:
                self.is_saved = False
        # Outside the lock, which readers of all partitions need.
        for piece in new:
            PARTITION.record(
                "fenced", topic=piece.topic, partition=piece.partition_id, offset=piece.from_offset,
                to=piece.to_offset, reason=piece.reason.name.lower(),
            )  # fmt: skip
        return new

    def all(self) -> list[LostRange]:
        """Return all of them, by topic, partition and offset."""
        with self._lock:
            return [lost_range for _, known in sorted(self._known.items()) for lost_range in known]

    def forget(self, topic: str) -> None:
        """Forget the lost ranges of a topic that is gone."""
        with self._lock:
            for key in [key for key in self._known if key[0] == topic]:
                self._listed -= len(self._known.pop(key))
                self._unlisted.pop(key, None)

    def forget_before(self, topic: str, partition_id: int, ordinal: int) -> None:
        """Forget the lost ranges below `ordinal`: messages before it are gone, lost or not."""
        with self._lock:
            known = self._known.get((topic, partition_id))
            if known is not None:
                # One that reaches over the new beginning stays whole, as it was counted.
                kept = [lost_range for lost_range in known if lost_range.to_ordinal > ordinal]
                self._listed -= len(known) - len(kept)
                self._known[topic, partition_id] = kept
            unlisted = self._unlisted.get((topic, partition_id))
            if unlisted is not None:
                self._unlisted[topic, partition_id] = [interval for interval in unlisted if interval[1] > ordinal]


def without(lost_ranges: Sequence[LostRange], covered: Sequence[tuple[int, int]]) -> list[LostRange]:
    """Return the parts of lost ranges that none of the intervals covers; both are in order."""
    pieces: list[LostRange] = []
    at = 0
    for lost_range in lost_ranges:
        ordinal = lost_range.from_ordinal
        while at < len(covered) and covered[at][1] <= ordinal:
            at += 1
        # The next range may begin under the same cover, so `at` stays where it is.
        behind = at
        while ordinal < lost_range.to_ordinal:
            begin, end = covered[behind] if behind < len(covered) else (lost_range.to_ordinal, lost_range.to_ordinal)
            if begin > ordinal:
                pieces.append(lost_range._replace(from_ordinal=ordinal, to_ordinal=min(begin, lost_range.to_ordinal)))
            ordinal = max(ordinal, end)
            behind += 1
    return pieces


def _join(lost_ranges: Iterable[LostRange]) -> list[LostRange]:
    """Join lost ranges, which are in order, into as few as possible."""
    joined: list[LostRange] = []
    for lost_range in lost_ranges:
        # Not across reasons: they say whether the log or only its index was damaged.
        if joined and joined[-1].to_ordinal == lost_range.from_ordinal and joined[-1].reason is lost_range.reason:
            joined[-1] = joined[-1]._replace(to_ordinal=lost_range.to_ordinal)
        else:
            joined.append(lost_range)
    return joined


def _with_interval(intervals: Sequence[tuple[int, int]], begin: int, end: int) -> list[tuple[int, int]]:
    """Return the intervals with one more, joined where they are near."""
    joined: list[tuple[int, int]] = []
    for low, high in sorted([*intervals, (begin, end)]):
        if joined and low - joined[-1][1] < _NEAR_MESSAGES:
            joined[-1] = joined[-1][0], max(joined[-1][1], high)
        else:
            joined.append((low, high))
    return joined
