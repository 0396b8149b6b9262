"""The contracts of a lease that is stored where several Masters reach it: one awaits, the other one blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pytubemq.core.database.lease_watch import Lease


class StoredLease(Protocol):
    """A lease that passes from one holder to the next only as it was seen; each one that takes it has the next epoch.

    Each call ends within its limit, in seconds, and raises TubeError: a retriable one where no response came, so that
    the call may have taken effect. One that is cancelled is given up.
    """

    async def see(self, *, limit_s: float) -> Lease:
        """Return the lease; a connection has a limit of its own."""
        ...

    async def take(self, seen: Lease, *, holder: str, lease_s: float, limit_s: float) -> bool:
        """Take the lease with the next epoch; return False if it is no longer as it was last seen."""
        ...

    async def renew(self, epoch: int, *, limit_s: float) -> bool:
        """Renew the lease that was taken with this epoch; return False if another epoch has begun."""
        ...

    async def give_back(self, epoch: int, *, limit_s: float) -> None:
        """Give the lease back, if no other epoch has begun."""
        ...

    def close(self) -> None:
        """Abandon the call that is under way; none follows. Idempotent."""
        ...


class BlockingLease(Protocol):
    """The same with calls that block."""

    def see(self, *, limit_s: float) -> Lease:
        """See `StoredLease`."""
        ...

    def take(self, seen: Lease, *, holder: str, lease_s: float, limit_s: float) -> bool:
        """See `StoredLease`."""
        ...

    def renew(self, epoch: int, *, limit_s: float) -> bool:
        """See `StoredLease`."""
        ...

    def give_back(self, epoch: int, *, limit_s: float) -> None:
        """See `StoredLease`."""
        ...

    def drop(self) -> None:
        """Abandon the call that is under way; the next one begins anew. Idempotent."""
        ...

    def close(self) -> None:
        """See `StoredLease`."""
        ...
