"""The contract of a lease that is stored where several Masters reach it; its calls block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pytubemq.core.database.lease_watch import Lease


class StoredLease(Protocol):
    """A lease that passes from one holder to the next only if nobody has changed it meanwhile.

    Each call ends within its limit, in seconds, and raises TubeError: a retriable one where no response came, so that
    the call may have taken effect.
    """

    def see(self, *, limit_s: float) -> tuple[Lease, int]:
        """Return the lease and its version, which each change increases; a connection has a limit of its own."""
        ...

    def take(self, seen: Lease, version: int, *, holder: str, lease_s: float, limit_s: float) -> bool:
        """Take the lease with the next epoch; return False if it is no longer the version that was seen."""
        ...

    def write(self, epoch: int, *, holder: str, lease_s: float, limit_s: float) -> bool:
        """Renew the lease, or with a blank holder give it back; return False if another epoch has begun."""
        ...

    def drop(self) -> None:
        """Abandon the call that is under way; the next one begins anew. Idempotent."""
        ...

    def close(self) -> None:
        """Abandon the call that is under way, and refuse others. Idempotent."""
        ...
