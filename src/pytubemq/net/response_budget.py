"""One budget for the responses that peers have not read, and for reads under way, of all connections of a server.

The invariants: while the budget is used up no read begins but for peers that have taken all they were given, so memory
follows what peers take and not what they ask for; a connection is closed only if its peer takes less than the least
progress, or, where twice the budget is held, if it is the worst: first those that take nothing, then those that hold
most. A peer that takes what it is given is never closed to make room for another.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from pytubemq.model.limits import (
    KIB,
    PROVEN_READER_BYTES,
    RESPONSE_LEAST_BYTES,
    RESPONSE_PERIOD_S,
    STALLED_LEAST_BYTES,
    STALLED_PERIOD_S,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

COUNTED_BYTES: Final = 64 * KIB
"""Responses that wait for the end of the loop's turn are counted from this size on."""

_TRIED_AT_ONCE: Final = 16
"""Of those that wait, so many are looked at when a read ends; all of them once a second."""


class Reader(Protocol):
    """What the budget needs of a connection."""

    @property
    def unsent_bytes(self) -> int:
        """Responses that the peer has not taken."""
        ...

    @property
    def taken_bytes(self) -> int:
        """Those that it has, since it connected."""
        ...


@dataclass(slots=True)
class _Progress:
    """How much a peer had taken at the beginning of a period."""

    since_s: float
    taken_bytes: int

    def is_short(self, now_s: float, taken_bytes: int, *, period_s: float, least_bytes: int) -> bool:
        """True if the period is over and too little was taken in it; begins the next one if it is over."""
        if now_s - self.since_s < period_s:
            return False
        taken = taken_bytes - self.taken_bytes
        if taken >= least_bytes:
            self.since_s, self.taken_bytes = now_s, taken_bytes
            return False
        return True


@dataclass(slots=True)
class _Debt:
    """What one peer has not taken, and how it gets on."""

    unsent_bytes: int
    least: _Progress
    """For the least progress that is asked of everybody."""
    recent: _Progress
    """For the one that is asked of everybody while the budget is used up."""


class ResponseBudget:
    """Counts what waits for peers, and names those that must go."""

    def __init__(self, *, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.unsent_bytes = 0
        self._reserved_bytes = 0
        self._debts: dict[Reader, _Debt] = {}
        self._waiting: deque[Callable[[], None]] = deque()

    @property
    def is_tight(self) -> bool:
        """True if more than half is used: then everybody takes what it was given before it is given more."""
        return 2 * (self.unsent_bytes + self._reserved_bytes) >= self.max_bytes

    @property
    def is_used_up(self) -> bool:
        """True if no read may begin for a peer that has not shown that it reads."""
        return self.unsent_bytes + self._reserved_bytes >= self.max_bytes

    def can_read(self, reader: Reader) -> bool:
        """True if a read for this peer may begin.

        A peer that has taken all that it was given, and more than systems take without being read, may go on when the
        budget is used up by others, up to half as much again: so a crowd that does not read stops nobody who does.
        """
        if not self.is_tight:
            return True
        if reader.unsent_bytes:
            return False
        if not self.is_used_up:
            return True
        held_bytes = self.unsent_bytes + self._reserved_bytes
        return reader.taken_bytes >= PROVEN_READER_BYTES and 2 * held_bytes < 3 * self.max_bytes

    @property
    def is_overdrawn(self) -> bool:
        """True if somebody has to go now, however it gets on."""
        return self.unsent_bytes > 2 * self.max_bytes

    def record(self, reader: Reader, now_s: float) -> None:
        """Count what a connection holds now."""
        unsent_bytes = reader.unsent_bytes
        debt = self._debts.get(reader)
        if debt is not None:
            self.unsent_bytes += unsent_bytes - debt.unsent_bytes
            debt.unsent_bytes = unsent_bytes
            if not unsent_bytes:
                del self._debts[reader]
        elif unsent_bytes:
            taken_bytes = reader.taken_bytes
            self.unsent_bytes += unsent_bytes
            self._debts[reader] = _Debt(unsent_bytes, _Progress(now_s, taken_bytes), _Progress(now_s, taken_bytes))

    def forget(self, reader: Reader) -> None:
        """A connection has ended: nothing of it counts any more."""
        debt = self._debts.pop(reader, None)
        if debt is not None:
            self.unsent_bytes -= debt.unsent_bytes

    # --- reads ----------------------------------------------------------------------------------------------

    def reserve(self, size_bytes: int) -> None:
        """Count a read that begins and may become so large; each needs one `release`."""
        self._reserved_bytes += size_bytes

    def release(self, size_bytes: int) -> None:
        """A read has ended: its response counts from now on, where the peer does not take it."""
        self._reserved_bytes -= size_bytes
        if self._waiting:
            self.admit(_TRIED_AT_ONCE)

    def wait(self, resume: Callable[[], None]) -> None:
        """Call `resume` when there is room, in the order of these calls."""
        self._waiting.append(resume)

    def admit(self, most: int | None = None) -> None:
        """Let those go on that wait for room, as far as there is some; those that may not yet wait on behind."""
        for _ in range(len(self._waiting) if most is None else min(most, len(self._waiting))):
            if self.is_used_up:
                return
            self._waiting.popleft()()

    # --- who must go ----------------------------------------------------------------------------------------

    def slow_readers(self, now_s: float) -> list[Reader]:
        """Count everybody anew; return those that take too little, the ones that hold most first.

        Usually these are the ones that made no least progress in a long period. While the budget is used up a short
        period is asked for, and no more of them are named than make room for half of it.
        """
        for reader in list(self._debts):
            self.record(reader, now_s)
        found = [
            reader
            for reader, debt in self._debts.items()
            if debt.least.is_short(
                now_s, reader.taken_bytes, period_s=RESPONSE_PERIOD_S, least_bytes=RESPONSE_LEAST_BYTES
            )
        ]
        stalled = [
            reader
            for reader, debt in self._debts.items()
            if debt.recent.is_short(
                now_s, reader.taken_bytes, period_s=STALLED_PERIOD_S, least_bytes=STALLED_LEAST_BYTES
            )
        ]
        if self.is_used_up:
            left_bytes = self.unsent_bytes - sum(self._debts[reader].unsent_bytes for reader in found)
            for reader in self._by_size(set(stalled).difference(found)):
                if left_bytes <= self.max_bytes // 2:
                    break
                left_bytes -= self._debts[reader].unsent_bytes
                found.append(reader)
        return found

    def worst_reader(self) -> Reader | None:
        """Return who has to go when too much is held: who holds most of those that took nothing lately, or of all."""
        idle = [reader for reader, debt in self._debts.items() if reader.taken_bytes <= debt.recent.taken_bytes]
        return next(iter(self._by_size(idle or self._debts)), None)

    def _by_size(self, readers: Iterable[Reader]) -> list[Reader]:
        return sorted(readers, key=lambda reader: -self._debts[reader].unsent_bytes)
