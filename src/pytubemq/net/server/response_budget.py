"""One budget for the responses that peers have not read, and for reads under way, of all connections of a server.

The invariants: while more than half of the budget is used, only peers that have read all their responses may begin a
read, so memory follows what peers read and not what they request. Half a budget beyond the limit is kept for such peers
whose read is small or who have proven that they read. A connection is closed only if its peer reads less than the
required minimum, or, at twice the budget, if it is the worst: first those that read nothing, then those that owe most.
A peer that reads its responses is never closed to make room for another.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

from pytubemq.model.limits import (
    CROWDED_DEBT_S,
    CROWDED_PERIOD_S,
    KIB,
    MAX_FRAME_BYTES,
    PROVEN_READER_BYTES,
    RESPONSE_LEAST_BYTES,
    RESPONSE_PERIOD_S,
    SMALL_READ_BYTES,
    STALLED_LEAST_BYTES,
    STALLED_PERIOD_S,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

COUNTED_BYTES: Final = 64 * KIB
"""The least size of a response that is counted while it waits for the end of the event loop's turn."""

_TRIED_AT_ONCE: Final = 16
"""How many waiting reads are tried when a read ends; all of them are tried once a second."""

_Resume: TypeAlias = "Callable[[], None]"


class Reader(Protocol):
    """The part of a connection that the budget needs."""

    @property
    def unsent_bytes(self) -> int:
        """Bytes of responses that the peer has not received."""
        ...

    @property
    def delivered_bytes(self) -> int:
        """Bytes of responses that it has received since it connected."""
        ...


class ReadSize(NamedTuple):
    """The expected size of a read."""

    most_bytes: int
    """The largest size of the read, as far as is known."""
    message_bytes: int = 0
    """The size of a message there; one is always read."""

    @property
    def little_bytes(self) -> int:
        """The size of the read if it is limited to a small one."""
        return min(self.most_bytes, max(SMALL_READ_BYTES, self.message_bytes))


@dataclass(slots=True)
class _Progress:
    """The bytes that a peer had received at the beginning of a period."""

    since_s: float
    delivered_bytes: int

    def is_short(self, now_s: float, delivered_bytes: int, *, period_s: float, least_bytes: int) -> bool:
        """True if the period is over and the peer received too little in it; begins the next period if it is over."""
        if now_s - self.since_s < period_s:
            return False
        delivered = delivered_bytes - self.delivered_bytes
        if delivered >= least_bytes:
            self.since_s, self.delivered_bytes = now_s, delivered_bytes
            return False
        return True


@dataclass(slots=True)
class _Debt:
    """The bytes that one peer has not received, and its progress."""

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
        self._preferred: OrderedDict[Reader, _Resume] = OrderedDict()
        """Peers that wait, owe nothing, and may use the share beyond the limit, in order."""
        self._waiting: OrderedDict[Reader, _Resume] = OrderedDict()
        """The others that wait and owe nothing, in order."""
        self._owing: OrderedDict[Reader, _Resume] = OrderedDict()
        """Peers that have to read their responses first; they join the others when they have."""

    @property
    def is_tight(self) -> bool:
        """True if more than half is used: then each peer must read its responses before it gets more."""
        return 2 * (self.unsent_bytes + self._reserved_bytes) >= self.max_bytes

    @property
    def is_used_up(self) -> bool:
        """True if no read may begin, except one that may use the share beyond the limit."""
        return self.unsent_bytes + self._reserved_bytes >= self.max_bytes

    @property
    def _is_share_used_up(self) -> bool:
        """True if the share beyond the limit is used up as well."""
        return 2 * (self.unsent_bytes + self._reserved_bytes) >= 3 * self.max_bytes

    def grant(self, reader: Reader, size: ReadSize) -> int | None:
        """Return the limit in bytes for a read that may begin for this peer now; None if it has to wait.

        While more than half of the budget is used, a peer that has not proven that it reads gets little at a time.
        """
        if not self.is_tight:
            return MAX_FRAME_BYTES
        if reader.unsent_bytes:
            return None
        room = not self.is_used_up or (_is_preferred(reader, size) and not self._is_share_used_up)
        return (MAX_FRAME_BYTES if _is_proven(reader) else SMALL_READ_BYTES) if room else None

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
            delivered_bytes = reader.delivered_bytes
            self.unsent_bytes += unsent_bytes
            self._debts[reader] = _Debt(
                unsent_bytes, _Progress(now_s, delivered_bytes), _Progress(now_s, delivered_bytes)
            )

    def forget(self, reader: Reader) -> None:
        """Forget a connection that has ended."""
        for queue in (self._preferred, self._waiting, self._owing):
            queue.pop(reader, None)
        debt = self._debts.pop(reader, None)
        if debt is not None:
            self.unsent_bytes -= debt.unsent_bytes

    # --- reads ----------------------------------------------------------------------------------------------

    def reserve(self, size_bytes: int) -> None:
        """Reserve room for a read that begins; each needs one `release`."""
        self._reserved_bytes += size_bytes

    def release(self, size_bytes: int) -> None:
        """Release a read that has ended; from now on its response counts while the peer has not received it."""
        self._reserved_bytes -= size_bytes
        if self._waiting:
            self.admit(_TRIED_AT_ONCE)

    def wait(self, reader: Reader, size: ReadSize, resume: Callable[[], None]) -> None:
        """Call `resume` when there may be room for this peer's next read.

        A peer waits for one read at a time. Those that owe nothing wait in order; those that owe come after them.
        """
        if reader.unsent_bytes:
            self._owing[reader] = resume
        elif _is_preferred(reader, size):
            self._preferred[reader] = resume
        else:
            self._waiting[reader] = resume

    def admit(self, most: int | None = None) -> None:
        """Resume waiting reads as far as there is room, those of peers that owe nothing first."""
        owing = self._owing
        left = len(self._preferred) + len(self._waiting) + len(owing) if most is None else most
        while left > 0 and self._preferred and not self._is_share_used_up:
            left -= 1
            self._preferred.popitem(last=False)[1]()
        while left > 0 and self._waiting and not self.is_used_up:
            left -= 1
            self._waiting.popitem(last=False)[1]()
        for _ in range(min(left, len(owing))):
            reader, resume = owing.popitem(last=False)
            if self.is_tight and reader.unsent_bytes:
                owing[reader] = resume
            else:
                resume()

    # --- connections to close -------------------------------------------------------------------------------

    def slow_readers(self, now_s: float) -> list[Reader]:
        """Update all connections, and return the readers that are too slow, those that owe most first.

        Usually these are too slow over the long period. While the budget is used up the short period counts as well,
        and only as many are returned as free half of the budget. While peers wait that owe nothing, the period is
        shorter, all that are too slow in it are returned, and so are those that need too long for all that they owe.
        """
        for reader in list(self._debts):
            self.record(reader, now_s)
        found = [
            reader
            for reader, debt in self._debts.items()
            if debt.least.is_short(
                now_s, reader.delivered_bytes, period_s=RESPONSE_PERIOD_S, least_bytes=RESPONSE_LEAST_BYTES
            )
        ]
        others_wait = bool(self._preferred or self._waiting)
        period_s = CROWDED_PERIOD_S if others_wait else STALLED_PERIOD_S
        least_bytes = int(STALLED_LEAST_BYTES * period_s / STALLED_PERIOD_S)
        share = period_s / CROWDED_DEBT_S if others_wait else 0.0
        stalled = [
            reader
            for reader, debt in self._debts.items()
            if debt.recent.is_short(
                now_s,
                reader.delivered_bytes,
                period_s=period_s,
                least_bytes=max(least_bytes, int(debt.unsent_bytes * share)),
            )
        ]
        if self.is_used_up:
            left_bytes = self.unsent_bytes - sum(self._debts[reader].unsent_bytes for reader in found)
            for reader in self._by_size(set(stalled).difference(found)):
                if left_bytes <= self.max_bytes // 2 and not others_wait:
                    break
                left_bytes -= self._debts[reader].unsent_bytes
                found.append(reader)
        return found

    def slowest_reader(self) -> Reader | None:
        """Return the reader to close when too much is held: the one that owes most among the idle, else among all."""
        idle = [reader for reader, debt in self._debts.items() if reader.delivered_bytes <= debt.recent.delivered_bytes]
        return next(iter(self._by_size(idle or self._debts)), None)

    def _by_size(self, readers: Iterable[Reader]) -> list[Reader]:
        return sorted(readers, key=lambda reader: -self._debts[reader].unsent_bytes)


def _is_proven(reader: Reader) -> bool:
    """True if the peer has received more than operating systems buffer."""
    return reader.delivered_bytes >= PROVEN_READER_BYTES


def _is_preferred(reader: Reader, size: ReadSize) -> bool:
    """True if a read may use the share beyond the limit: it is small, or its peer has proven that it reads."""
    return size.little_bytes <= SMALL_READ_BYTES or _is_proven(reader)
