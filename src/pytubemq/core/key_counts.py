"""Counts by key with the largest at hand, to find who has most of something that is shared.

The invariant: each step takes constant time, and the memory is in proportion to what is counted.
"""

from __future__ import annotations

from typing import Generic, TypeVar

K = TypeVar("K")


class KeyCounts(Generic[K]):
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
        # A step changes a count by one, so the largest is at most one off: no search is ever needed.
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
            # Empty levels go, or a count that was large once would take memory for good; `remove` relies on it.
            peers = self._by_count[before]
            del peers[key]
            if not peers:
                del self._by_count[before]
        if count:
            self._counts[key] = count
            self._by_count.setdefault(count, {})[key] = None
