"""Fetches that wait at the end of their partition for a message, until their time is over.

The invariants: each waiter is resumed exactly once or dropped with its connection; their number is bounded; a
publish touches only the waiters of the partitions it wrote to, the end of a connection only its own.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pytubemq.model.limits import MAX_WAITING_FETCHES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PartitionKey = tuple[str, int]
"""Topic and partition id."""


class Waiter:
    """One waiting fetch. `resume(timed_out)` continues it."""

    __slots__ = ("connection", "key", "resume", "timer")

    def __init__(self, key: PartitionKey, connection: int, resume: Callable[[bool], None]) -> None:
        self.key = key
        self.connection = connection
        self.resume = resume
        self.timer: asyncio.TimerHandle | None = None


class Waiters:
    """All waiting fetches of one Broker."""

    def __init__(self, *, most: int = MAX_WAITING_FETCHES) -> None:
        self._most = most
        # Dicts in the place of sets: fetches are resumed in the order in which they came.
        self._by_partition: dict[PartitionKey, dict[Waiter, None]] = {}
        self._by_connection: dict[int, dict[Waiter, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def hold(self, key: PartitionKey, *, connection: int, wait_s: float, resume: Callable[[bool], None]) -> bool:
        """Hold a fetch for at most `wait_s`; False if it cannot be held and must be answered now."""
        # Want of room is no error: the client hears that there is nothing yet, and fetches again.
        if wait_s <= 0 or self._count >= self._most:
            return False
        waiter = Waiter(key, connection, resume)
        # A timer for each and no sweep: with the long poll most end by their time, and in any order.
        waiter.timer = asyncio.get_running_loop().call_later(wait_s, self._time_out, waiter)
        self._by_partition.setdefault(key, {})[waiter] = None
        self._by_connection.setdefault(connection, {})[waiter] = None
        self._count += 1
        return True

    def wake(self, keys: Iterable[PartitionKey]) -> None:
        """Resume the fetches of partitions to which something was published."""
        if not self._count:
            return
        for key in keys:
            # A copy, as a fetch that finds nothing for its filter is held again at once.
            for waiter in list(self._by_partition.get(key, ())):
                self._remove(waiter)
                waiter.resume(False)

    def drop(self, connection: int) -> None:
        """Forget the fetches of a connection that is gone."""
        for waiter in list(self._by_connection.get(connection, ())):
            self._remove(waiter)

    def release(self) -> None:
        """Resume all as if their time were over."""
        # All of them first, as one that is resumed may be held again.
        for waiter in [w for held in self._by_partition.values() for w in held]:
            self._remove(waiter)
            waiter.resume(True)

    def _time_out(self, waiter: Waiter) -> None:
        self._remove(waiter)
        waiter.resume(True)

    def _remove(self, waiter: Waiter) -> None:
        held = self._by_partition[waiter.key]
        del held[waiter]
        # Else a dict would stay for every partition that a fetch has ever waited for.
        if not held:
            del self._by_partition[waiter.key]
        mine = self._by_connection[waiter.connection]
        del mine[waiter]
        if not mine:
            del self._by_connection[waiter.connection]
        self._count -= 1
        if waiter.timer is not None:
            # Or the loop would keep it, with the fetch and its connection, until the wait is over.
            waiter.timer.cancel()
