"""The signatures that were accepted lately, so that none is accepted twice.

The invariants: a signature whose time is in the window is accepted at most once; what is remembered is bounded, and
beyond the bound new ones are refused rather than old ones forgotten, first those of users that have many.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Final

WINDOW_MS: Final = 20_000
"""The most that a signature's time may differ from the Master's (the original's authValidTimeStampPeriodMs)."""
MAX_REMEMBERED: Final = 200_000
"""Signatures remembered at a time: 5,000 a second over the window's two sides, some 30 MiB."""


@dataclass(slots=True)
class ReplayWindow:
    """Accepted signatures by user, time and nonce, until their time is out of the window."""

    window_ms: int = WINDOW_MS
    max_remembered: int = MAX_REMEMBERED
    _seen: set[tuple[str, int, int]] = field(default_factory=set)
    _by_user: Counter[str] = field(default_factory=Counter)
    _order: deque[tuple[int, tuple[str, int, int]]] = field(default_factory=deque)
    """When each can be forgotten, in the order of acceptance."""

    def is_timely(self, timestamp_ms: int, *, now_ms: int) -> bool:
        """True if a signature's time is within the window around now."""
        return abs(now_ms - timestamp_ms) <= self.window_ms

    def is_full(self, user: str, *, now_ms: int) -> bool:
        """True if no further signature of a user can be remembered now: the last tenth is for users that have little.

        So a user that signs as fast as it can keeps no other one out.
        """
        self._forget(now_ms)
        tenth = self.max_remembered // 10
        if len(self._seen) >= self.max_remembered:
            return True
        return len(self._seen) >= self.max_remembered - tenth and self._by_user[user] >= tenth

    def record(self, user: str, timestamp_ms: int, nonce: int, *, now_ms: int) -> bool:
        """Record a verified signature; return False if it was recorded before.

        Record only what was verified: whoever cannot sign must not be able to use up the nonces of a user."""
        self._forget(now_ms)
        key = (user, timestamp_ms, nonce)
        if key in self._seen:
            return False
        self._seen.add(key)
        self._by_user[user] += 1
        # The wall clock may be set back; what is accepted now stays remembered for the whole of both sides.
        self._order.append((now_ms + 2 * self.window_ms, key))
        return True

    def _forget(self, now_ms: int) -> None:
        while self._order and self._order[0][0] < now_ms:
            key = self._order.popleft()[1]
            self._seen.discard(key)
            self._by_user[key[0]] -= 1
            if not self._by_user[key[0]]:
                del self._by_user[key[0]]
