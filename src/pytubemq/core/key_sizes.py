"""Sizes by key with the largest at hand, to find who has most bytes of what is shared.

The invariant: a step takes logarithmic time, and the memory is in proportion to the keys.
"""

from __future__ import annotations

import heapq
from typing import Final, Generic, TypeVar

K = TypeVar("K")

_SPARE_ENTRIES: Final = 64
"""Outdated entries that the heap may always have; beyond them it has no more than current ones."""


class KeySizes(Generic[K]):
    """Sizes in bytes by key; one without bytes is not in."""

    def __init__(self) -> None:
        self._sizes: dict[K, int] = {}
        self._heap: list[tuple[int, int, K]] = []
        self._next = 0

    def __len__(self) -> int:
        return len(self._sizes)

    def __getitem__(self, key: K) -> int:
        return self._sizes.get(key, 0)

    def add(self, key: K, more: int) -> None:
        """Add to the size of a key; a negative number takes away."""
        size = self[key] + more
        if size <= 0:
            self._sizes.pop(key, None)
        else:
            self._sizes[key] = size
            self._next += 1  # no two entries compare beyond it
            heapq.heappush(self._heap, (-size, self._next, key))
        if len(self._heap) > 2 * len(self._sizes) + _SPARE_ENTRIES:
            self._heap = [(-size, number, key) for number, (key, size) in enumerate(self._sizes.items())]
            self._next = len(self._heap)
            heapq.heapify(self._heap)

    def largest(self) -> K | None:
        """Return the key with the most bytes; None if there is none."""
        while self._heap:
            negative_size, _, key = self._heap[0]
            if self[key] == -negative_size:
                return key
            heapq.heappop(self._heap)
        return None
