"""The lease of a leader as others observe it: decisions on the observer's own clock.

The invariant: a lease that is renewed in time is never found free, whatever wall clocks do. A standby measures on its
own monotonic clock for how long it has seen no renewal; the time that the row names is for people.
"""

from __future__ import annotations

from dataclasses import dataclass

from pytubemq.core.database.database_limits import LEASE_MARGIN, MAX_LEASE_S, MIN_LEASE_S


@dataclass(frozen=True, slots=True)
class Lease:
    """The lease as it is stored; `holder` is blank where the last leader has given it back."""

    epoch: int
    holder: str
    renewals: int
    lease_s: float


class LeaseWatch:
    """A standby's observation of the lease."""

    def __init__(self) -> None:
        self._seen: Lease | None = None
        self._since_s = 0.0

    def is_free(self, lease: Lease, *, now_s: float) -> bool:
        """Note the lease as it is at `now_s`; return True if nobody holds it, or its time is over without a renewal."""
        if not lease.holder:
            return True
        if lease != self._seen:
            self._seen, self._since_s = lease, now_s
        return now_s - self._since_s >= min(max(lease.lease_s, MIN_LEASE_S), MAX_LEASE_S)


def leads_until_s(renewed_s: float, lease_s: float) -> float:
    """Return when the holder of a lease must have stopped, if its last renewal was sent at `renewed_s`.

    A margin before the end of the lease: others count from later, when they saw the renewal, but clocks do not run
    equally fast.
    """
    return renewed_s + lease_s * (1 - LEASE_MARGIN)
