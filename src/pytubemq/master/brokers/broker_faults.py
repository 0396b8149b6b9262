"""Storage faults that Brokers of other makes report, and the restrictions that the Master imposes for them.

The original's rule: a Broker that cannot read is put offline, one that cannot write becomes only-read; so many at a
time and no more, for a fault that all report is not healed by taking all of them out. The status stays until an
operator changes it. A Broker of ours is not treated so: it says at once when it works again, and is spared as long as
it does not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pytubemq.model.records import ManageStatus


@dataclass(frozen=True, slots=True)
class FaultReport:
    """A Broker's reports of one value: 0, -1 (write), -100 (read), -101 (both); 1 for -1 if the Master stopped it."""

    value: int
    first_ms: int
    last_ms: int


@dataclass(frozen=True, slots=True)
class ForcedStatus:
    """The status that a Broker was given for its reports."""

    status: ManageStatus
    first_ms: int
    last_ms: int


class BrokerFaults:
    """The reports and what followed; memory only, as the original keeps them."""

    def __init__(self, *, most: int) -> None:
        self.abnormal: dict[int, FaultReport] = {}
        self.forbidden: dict[int, ForcedStatus] = {}
        self._most = most

    def report(
        self, broker_id: int, configured: ManageStatus, *, read: int, write: int, now_ms: int
    ) -> ManageStatus | None:
        """Record a report; return the status that the Broker is to be given, None if it keeps the one it has."""
        if read == 0 and write == 0:
            if broker_id not in self.forbidden:
                self.abnormal.pop(broker_id, None)
            return None
        known = self.abnormal.get(broker_id)
        first_ms = now_ms if known is None else known.first_ms
        self.abnormal[broker_id] = FaultReport(read * 100 + write, first_ms, now_ms)
        status = _deduced(configured, read=read, write=write)
        if status is None:
            return None
        earlier = self.forbidden.get(broker_id)
        if earlier is not None:
            self.forbidden[broker_id] = replace(earlier, status=status, last_ms=now_ms)
        elif len(self.forbidden) < self._most:  # whatever it reports, also that it was stopped already
            self.forbidden[broker_id] = ForcedStatus(status, now_ms, now_ms)
        else:
            return None
        return status

    def stops(self, broker_id: int) -> tuple[bool, bool]:
        """Return whether a Broker must stop reading, and whether it must stop writing."""
        found = self.forbidden.get(broker_id)
        return (False, False) if found is None else (not found.status.subscribes, not found.status.publishes)

    def release(self, broker_id: int) -> bool:
        """Lift a Broker's restrictions, for an operator or because it is gone; return True if it had any."""
        self.abnormal.pop(broker_id, None)
        return self.forbidden.pop(broker_id, None) is not None


def _deduced(configured: ManageStatus, *, read: int, write: int) -> ManageStatus | None:
    """Return the status for a report; None if the configured one is restricted enough already."""
    if configured in (ManageStatus.DRAFT, ManageStatus.OFFLINE):
        return None
    if read != 0 or (write != 0 and configured is ManageStatus.ONLY_WRITE):
        return ManageStatus.OFFLINE
    return None if configured is ManageStatus.ONLY_READ else ManageStatus.ONLY_READ
