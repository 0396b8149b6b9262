"""The signatures that were accepted lately, so that none is accepted twice.

The invariants: a signature whose time is in the window is accepted at most once; what is remembered is bounded, and
beyond the bound new ones are refused rather than old ones forgotten, first those of users that have many.
What is remembered can be recorded elsewhere, and restored from there after a restart.
"""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

WINDOW_MS: Final = 20_000
"""The most that a signature's time may differ from the Master's (the original's authValidTimeStampPeriodMs)."""
MAX_REMEMBERED: Final = 200_000
"""Signatures remembered at a time: 5,000 a second over the window's two sides, some 30 MiB."""


@dataclass(slots=True)
class ReplayWindow:
    """Accepted signatures by user, time and nonce, until their time is out of the window."""

    window_ms: int = WINDOW_MS
    max_remembered: int = MAX_REMEMBERED
    on_recorded: Callable[[int, bytes], None] | None = None
    """Called with each signature that is recorded, before it is accepted: the time until which it is remembered, in ms
    since 1970, and its digest."""
    _seen: set[bytes] = field(default_factory=set)
    _by_user: Counter[str] = field(default_factory=Counter)
    _order: deque[tuple[int, bytes, str]] = field(default_factory=deque)
    """When each can be forgotten, with its user, in the order of acceptance."""

    def restore(self, recorded: Iterable[tuple[int, bytes]], *, now_ms: int) -> None:
        """Remember signatures that were recorded before a restart, the oldest first; their users are not known."""
        latest_ms = now_ms + 2 * self.window_ms
        for until_ms, digest in recorded:
            self._remember(min(until_ms, latest_ms), digest, "")

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
        digest = digest_of(user, timestamp_ms, nonce)
        if digest in self._seen:
            return False
        # The wall clock may be set back; what is accepted now stays remembered for the whole of both sides.
        until_ms = now_ms + 2 * self.window_ms
        self._remember(until_ms, digest, user)
        if self.on_recorded is not None:
            self.on_recorded(until_ms, digest)
        return True

    def _remember(self, until_ms: int, digest: bytes, user: str) -> None:
        self._seen.add(digest)
        self._by_user[user] += 1
        self._order.append((until_ms, digest, user))

    def _forget(self, now_ms: int) -> None:
        while self._order and self._order[0][0] < now_ms:
            _, digest, user = self._order.popleft()
            self._seen.discard(digest)
            self._by_user[user] -= 1
            if not self._by_user[user]:
                del self._by_user[user]


def digest_of(user: str, timestamp_ms: int, nonce: int) -> bytes:
    """Return 16 bytes that identify a signature."""
    return hashlib.blake2b(f"{timestamp_ms} {nonce} {user}".encode(errors="surrogatepass"), digest_size=16).digest()
