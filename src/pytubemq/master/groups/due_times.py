"""The times at which groups are next due. A tick costs the same however many groups there are."""

from __future__ import annotations

import heapq
from typing import Final

_SPARE_ENTRIES: Final = 64
"""Outdated entries that the heap may always have; beyond them it has no more than current ones."""


class DueTimes:
    """Groups by the time at which they are due.

    That may be too early, never too late: a group that is due later than before, as after a heartbeat, keeps its entry.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, str]] = []
        self._queued: dict[str, float] = {}

    def put(self, group: str, due_s: float) -> bool:
        """Set when a group is due, unless it is due sooner; return True if no other group is due before it."""
        queued_s = self._queued.get(group)
        if queued_s is not None and queued_s <= due_s:
            return False
        before_s = self.next_s()
        self._queued[group] = due_s
        heapq.heappush(self._heap, (due_s, group))
        if len(self._heap) > 2 * len(self._queued) + _SPARE_ENTRIES:
            self._heap = [(due_s, group) for group, due_s in self._queued.items()]
            heapq.heapify(self._heap)
        return before_s is None or due_s < before_s

    def next_s(self) -> float | None:
        """Return when the next group is due; None if there is none."""
        while self._heap and self._queued.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def take(self, now_s: float) -> str | None:
        """Remove and return the first group that is due by now; None if there is none."""
        due_s = self.next_s()
        if due_s is None or due_s > now_s:
            return None
        _, group = heapq.heappop(self._heap)
        del self._queued[group]
        return group

    def forget(self, group: str) -> None:
        """Remove a group, if it has an entry."""
        self._queued.pop(group, None)
