"""The signatures that were accepted lately, so that none is accepted twice.

The invariants: a signature whose time is in the window is accepted at most once; what is remembered is bounded, and
beyond the bound new ones are refused rather than old ones forgotten.
"""

from __future__ import annotations

from collections import deque
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
    _order: deque[tuple[int, tuple[str, int, int]]] = field(default_factory=deque)
    """When each can be forgotten, in the order of acceptance."""

    def is_timely(self, timestamp_ms: int, *, now_ms: int) -> bool:
        """True if a signature's time is within the window around now."""
        return abs(now_ms - timestamp_ms) <= self.window_ms

    def is_full(self, *, now_ms: int) -> bool:
        """True if no further signature can be remembered now."""
        self._forget(now_ms)
        return len(self._seen) >= self.max_remembered

    def record(self, user: str, timestamp_ms: int, nonce: int, *, now_ms: int) -> bool:
        """Record a verified signature; return False if it was recorded before.

        Record only what was verified: whoever cannot sign must not be able to use up the nonces of a user."""
        self._forget(now_ms)
        key = (user, timestamp_ms, nonce)
        if key in self._seen:
            return False
        self._seen.add(key)
        # The wall clock may be set back; what is accepted now stays remembered for the whole of both sides.
        self._order.append((now_ms + 2 * self.window_ms, key))
        return True

    def _forget(self, now_ms: int) -> None:
        while self._order and self._order[0][0] < now_ms:
            self._seen.discard(self._order.popleft()[1])
