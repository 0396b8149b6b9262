"""Held heartbeats: their responses wait until something changes.

The invariants: every held call is answered once, at the latest when its wait is over; a peer has at most one held
call (a new one releases the old); the number of all held calls is bounded, and what does not fit is answered at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from pytubemq.model.limits import MAX_HELD_HEARTBEATS

Attempt = Callable[[bool], bool]
"""Tries to answer. The argument is True when it must, as the wait is over; returns True if it did."""

MARGIN_S = 0.5
"""The time before its caller's deadline at which a held call is answered, in seconds."""


@dataclass(slots=True)
class _Held:
    attempt: Attempt
    timer: asyncio.TimerHandle


class HeldHeartbeats:
    """The held calls of one kind, by their senders."""

    def __init__(self, *, limit: int = MAX_HELD_HEARTBEATS) -> None:
        self._limit = limit
        self._held: dict[Hashable, _Held] = {}

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, key: Hashable, wait_s: float, attempt: Attempt) -> None:
        """Answer now if something changed, else within `wait_s`."""
        self.release(key)
        must = wait_s <= 0 or len(self._held) >= self._limit
        if attempt(must) or must:
            return
        timer = asyncio.get_running_loop().call_later(wait_s, self.release, key)
        self._held[key] = _Held(attempt, timer)

    def wake(self, key: Hashable) -> None:
        """Try to answer this one, since something may have changed."""
        held = self._held.get(key)
        if held is not None and held.attempt(False):
            self._forget(key, held)

    def wake_all(self) -> None:
        """Try to answer everybody, since something may have changed."""
        for key in list(self._held):
            self.wake(key)

    def release(self, key: Hashable) -> None:
        """Answer this one now, whether anything changed or not."""
        held = self._held.get(key)
        if held is not None:
            self._forget(key, held)
            held.attempt(True)

    def release_all(self) -> None:
        """Answer everybody now."""
        for key in list(self._held):
            self.release(key)

    def drop(self, key: Hashable) -> None:
        """Drop a call whose connection is gone, without an answer."""
        held = self._held.get(key)
        if held is not None:
            self._forget(key, held)

    def _forget(self, key: Hashable, held: _Held) -> None:
        held.timer.cancel()
        if self._held.get(key) is held:
            del self._held[key]


def allowed_wait_s(asked_ms: int | None, *, left_s: float, longest_s: float) -> float:
    """Return how long a heartbeat may be held, in seconds.

    Args:
        asked_ms: the longest wait that its sender allows; None if it knows nothing of waiting.
        left_s: the time until its sender gives up.
        longest_s: the longest wait that this Master allows.
    """
    if not asked_ms or asked_ms < 0:
        return 0.0
    return max(0.0, min(asked_ms / 1000, left_s - MARGIN_S, longest_s))
