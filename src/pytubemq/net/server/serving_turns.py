"""Turns of connections whose requests take too long to serve in one turn of the event loop.

The invariants: all of them together get one slice of time in each turn of the loop, so however many they are, others
wait for one slice; hosts take turns, then the connections of each host.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from pytubemq.model.limits import KIB, PUT_OFF_SLICE_S

if TYPE_CHECKING:
    from collections.abc import Hashable

    from pytubemq.net.clock import Clock

_SMALL_READ_BYTES: Final = 4 * KIB
"""A read that is served at once while other hosts wait for their turns; it has few requests."""
_SHARES: Final = 4
"""The connections that have a part of a slice, if so many wait."""


class Put(Protocol):
    """The part of a connection that is used here."""

    @property
    def host(self) -> Hashable: ...

    def serve_put_off(self, until_s: float) -> bool:
        """Serve requests until then, at least one; return True if others are left that may be served."""
        ...


_Queue: TypeAlias = "OrderedDict[Put, None]"


class ServingTurns:
    """The turns of one server. Event loop only."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.waiting: OrderedDict[Hashable, _Queue] = OrderedDict()
        """The waiting connections of each host, both in the order of their turns."""
        self._scheduled = False

    def has_to_wait(self, host: Hashable, size_bytes: int) -> bool:
        """True if a read is to be put off while others wait: it is large, or one of its host waits already."""
        return bool(self.waiting) and (size_bytes > _SMALL_READ_BYTES or host in self.waiting)

    def add(self, connection: Put) -> None:
        """Add a connection behind the others of its host, unless it waits already."""
        self.waiting.setdefault(connection.host, OrderedDict()).setdefault(connection)
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._give)

    def remove(self, connection: Put) -> None:
        """Remove a connection that has ended."""
        queue = self.waiting.get(connection.host)
        if queue is not None and connection in queue:
            del queue[connection]
            if not queue:
                del self.waiting[connection.host]

    def _give(self) -> None:
        """Serve connections for one slice."""
        self._scheduled = False
        now_s = self._clock.now_s()
        until_s = now_s + PUT_OFF_SLICE_S
        waiting = sum(map(len, self.waiting.values()))
        part_s = PUT_OFF_SLICE_S / max(1, min(waiting, _SHARES))
        left: list[Put] = []
        while self.waiting and now_s < until_s:
            connection = self._next()
            if connection.serve_put_off(min(until_s, now_s + part_s)):
                left.append(connection)
            now_s = self._clock.now_s()
        for connection in left:
            self.add(connection)
        if self.waiting and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._give)

    def _next(self) -> Put:
        """Take the next connection out; its host's others move behind the other hosts."""
        host, queue = self.waiting.popitem(last=False)
        connection, _ = queue.popitem(last=False)
        if queue:
            self.waiting[host] = queue
        return connection
