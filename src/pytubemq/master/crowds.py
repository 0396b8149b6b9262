"""Indexes that find the largest of very many clients without looking at all of them.

The invariant: each step takes constant or logarithmic time on average, and the memory is in proportion to what is in.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable

K = TypeVar("K")

_SPARE_ENTRIES: Final = 64
"""Outdated entries that a heap may always have; beyond them it has no more than current ones."""


class Crowd(Generic[K]):
    """Counts by key, and the key with the largest; of equal ones, the one that reached it first."""

    def __init__(self) -> None:
        self._counts: dict[K, int] = {}
        self._by_count: dict[int, dict[K, None]] = {}
        self._most = 0

    def __len__(self) -> int:
        return len(self._counts)

    def __getitem__(self, key: K) -> int:
        return self._counts.get(key, 0)

    def add(self, key: K) -> None:
        """Count one more."""
        self._move(key, self[key] + 1)
        self._most = max(self._most, self[key])

    def remove(self, key: K) -> None:
        """Count one less of a key that has some."""
        self._move(key, self[key] - 1)
        if self._most not in self._by_count:  # the key was alone at the top, and is one below it now
            self._most -= 1

    def largest(self) -> K | None:
        """Return the key with the largest count; None if there is none."""
        return next(iter(self._by_count[self._most])) if self._counts else None

    def _move(self, key: K, count: int) -> None:
        before = self._counts.pop(key, 0)
        if before:
            peers = self._by_count[before]
            del peers[key]
            if not peers:
                del self._by_count[before]
        if count:
            self._counts[key] = count
            self._by_count.setdefault(count, {})[key] = None


class Idle:
    """Clients that never sent a heartbeat, by the bytes that they reported."""

    def __init__(self) -> None:
        self._entries: dict[Hashable, tuple[int, int, Hashable]] = {}
        self._heap: list[tuple[int, int, Hashable]] = []
        self._next = 0

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, key: Hashable, size_bytes: int) -> None:
        """Take in a client that is not in."""
        self._next += 1  # no two entries compare beyond it
        entry = self._entries[key] = (-size_bytes, self._next, key)
        heapq.heappush(self._heap, entry)

    def remove(self, key: Hashable) -> None:
        """Forget a client, if it is in."""
        if self._entries.pop(key, None) is None:
            return
        if len(self._heap) > 2 * len(self._entries) + _SPARE_ENTRIES:
            self._heap = list(self._entries.values())
            heapq.heapify(self._heap)

    def largest(self, size_bytes: int, *, most: int, but: Collection[Hashable] = ()) -> list[Hashable] | None:
        """Return the largest clients that reported at least `size_bytes` together; None if `most` did not."""
        found: list[tuple[int, int, Hashable]] = []
        passed: list[tuple[int, int, Hashable]] = []
        while self._heap and size_bytes > 0 and len(found) < most:
            entry = heapq.heappop(self._heap)
            if self._entries.get(entry[2]) is not entry:
                continue
            if entry[2] in but:
                passed.append(entry)
                continue
            found.append(entry)
            size_bytes += entry[0]
        for entry in (*found, *passed):
            heapq.heappush(self._heap, entry)
        return None if size_bytes > 0 else [key for _, _, key in found]
