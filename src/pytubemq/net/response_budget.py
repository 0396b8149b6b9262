"""One budget for the responses that peers have not read, and for reads under way, of all connections of a server.

The invariants: while the budget is used up, only peers that have read all their responses may begin a read, so memory
follows what peers read and not what they request. A connection is closed only if its peer reads less than the required
minimum, or, at twice the budget, if it is the worst: first those that read nothing, then those that owe most. A peer
that reads its responses is never closed to make room for another.
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
"""The least size of a response that is counted while it waits for the end of the event loop's turn."""

_TRIED_AT_ONCE: Final = 16
"""How many waiting reads are tried when a read ends; all of them are tried once a second."""


class Reader(Protocol):
    """The part of a connection that the budget needs."""

    @property
    def unsent_bytes(self) -> int:
        """Bytes of responses that the peer has not taken."""
        ...

    @property
    def taken_bytes(self) -> int:
        """Bytes of responses that it has taken since it connected."""
        ...


@dataclass(slots=True)
class _Progress:
    """The bytes that a peer had taken at the beginning of a period."""

    since_s: float
    taken_bytes: int

    def is_short(self, now_s: float, taken_bytes: int, *, period_s: float, least_bytes: int) -> bool:
        """True if the period is over and the peer took too little in it; begins the next period if it is over."""
        if now_s - self.since_s < period_s:
            return False
        taken = taken_bytes - self.taken_bytes
        if taken >= least_bytes:
            self.since_s, self.taken_bytes = now_s, taken_bytes
            return False
        return True


@dataclass(slots=True)
class _Debt:
    """The bytes that one peer has not taken, and its progress."""

    unsent_bytes: int
    least: _Progress
    """Progress in the long period, always required."""
    recent: _Progress
    """Progress in the short period, required while the budget is used up."""


class ResponseBudget:
    """The budget of one server, and the peers whose connections must be closed."""

    def __init__(self, *, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.unsent_bytes = 0
        self._reserved_bytes = 0
        self._debts: dict[Reader, _Debt] = {}
        self._waiting: deque[Callable[[], None]] = deque()

    @property
    def is_tight(self) -> bool:
        """True if more than half is used: then each peer must read its responses before it gets more."""
        return 2 * (self.unsent_bytes + self._reserved_bytes) >= self.max_bytes

    @property
    def is_used_up(self) -> bool:
        """True if no read may begin for a peer that has not proven that it reads."""
        return self.unsent_bytes + self._reserved_bytes >= self.max_bytes

    def can_read(self, reader: Reader) -> bool:
        """True if a read for this peer may begin.

        A peer that has read all its responses, and more bytes than operating systems buffer, may go on while others
        use up the budget, up to half as much again: so a crowd that does not read stops nobody who does.
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
        """True if a connection must be closed now, whatever its progress."""
        return self.unsent_bytes > 2 * self.max_bytes

    def record(self, reader: Reader, now_s: float) -> None:
        """Record the bytes that a connection holds now."""
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
        """Forget a connection that has ended."""
        debt = self._debts.pop(reader, None)
        if debt is not None:
            self.unsent_bytes -= debt.unsent_bytes

    # --- reads ----------------------------------------------------------------------------------------------

    def reserve(self, size_bytes: int) -> None:
        """Reserve room for a read that begins; each needs one `release`."""
        self._reserved_bytes += size_bytes

    def release(self, size_bytes: int) -> None:
        """Release a read that has ended; from now on its response counts while the peer has not taken it."""
        self._reserved_bytes -= size_bytes
        if self._waiting:
            self.admit(_TRIED_AT_ONCE)

    def wait(self, resume: Callable[[], None]) -> None:
        """Call `resume` when there is room; callers wait in order."""
        self._waiting.append(resume)

    def admit(self, most: int | None = None) -> None:
        """Resume waiting reads as far as there is room; the others go to the end of the queue."""
        for _ in range(len(self._waiting) if most is None else min(most, len(self._waiting))):
            if self.is_used_up:
                return
            self._waiting.popleft()()

    # --- connections to close -------------------------------------------------------------------------------

    def slow_readers(self, now_s: float) -> list[Reader]:
        """Count all connections anew, and return the readers that are too slow, those that owe most first.

        Usually these are too slow over the long period. While the budget is used up the short period counts as well,
        and only as many are returned as free half of the budget.
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
        """Return the reader to close when too much is held: the one that owes most among the idle, else among all."""
        idle = [reader for reader, debt in self._debts.items() if reader.taken_bytes <= debt.recent.taken_bytes]
        return next(iter(self._by_size(idle or self._debts)), None)

    def _by_size(self, readers: Iterable[Reader]) -> list[Reader]:
        return sorted(readers, key=lambda reader: -self._debts[reader].unsent_bytes)
