"""A lease whose calls block, for an event loop.

The invariant: one call at a time is under way, on a thread of its own.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytubemq.core.database.lease_watch import Lease
    from pytubemq.net.elect.stored_lease import BlockingLease

T = TypeVar("T")


class ThreadedLease:
    """`StoredLease` on a `BlockingLease`, which nobody else uses."""

    def __init__(self, lease: BlockingLease) -> None:
        self._lease = lease
        self._thread = ThreadPoolExecutor(1, "pytubemq-election")

    async def see(self, *, limit_s: float) -> Lease:
        return await self._run(partial(self._lease.see, limit_s=limit_s))

    async def take(self, seen: Lease, *, holder: str, lease_s: float, limit_s: float) -> bool:
        return await self._run(partial(self._lease.take, seen, holder=holder, lease_s=lease_s, limit_s=limit_s))

    async def renew(self, epoch: int, *, limit_s: float) -> bool:
        return await self._run(partial(self._lease.renew, epoch, limit_s=limit_s))

    async def give_back(self, epoch: int, *, limit_s: float) -> None:
        await self._run(partial(self._lease.give_back, epoch, limit_s=limit_s))

    def close(self) -> None:
        self._lease.close()
        self._thread.shutdown(wait=False)

    async def _run(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except asyncio.CancelledError:
            self._lease.drop()  # so that the thread is soon free
            raise
