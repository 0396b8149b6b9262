"""One connection per peer, shared; a dead one is replaced at the next use, an unused one is closed.

The invariant: a connection with an expected response is never closed for being idle.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from pytubemq.errors import ClosedError
from pytubemq.model.limits import CONNECT_TIMEOUT_S, IDLE_CONNECTION_S
from pytubemq.net.client.connection import RpcConnection
from pytubemq.wire.protocol.extensions import OURS, Capability

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytubemq.model.ids import Address
    from pytubemq.model.tls_options import TlsOptions
    from pytubemq.net.client.connection import Route


logger = logging.getLogger(__name__)


class ConnectionPool:
    """The connections by address. Concurrent callers share one attempt to connect."""

    def __init__(
        self,
        *,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        capabilities: Capability = OURS,
        idle_after_s: float = IDLE_CONNECTION_S,
        routes: Mapping[Address, Route] | None = None,
        tls: TlsOptions | None = None,
        secured: Callable[[Address], Address | None] = lambda address: address,
    ) -> None:
        """Use `routes`, by address, for servers in this process, and TLS for others if there are options for it.

        `secured` returns the TLS address of a server, or None for one that is to be reached without."""
        self._routes = routes or {}
        self._tls = tls
        self._secured = secured
        self._connect_timeout_s = connect_timeout_s
        self._capabilities = capabilities
        self._open: dict[Address, RpcConnection] = {}
        self._connected: set[RpcConnection] = set()
        """Every connection whose socket is not closed yet, so those too that have ended."""
        self._connecting: dict[Address, asyncio.Task[RpcConnection]] = {}
        self._closed = False
        self._idle_after_s = idle_after_s
        self._sweeper: asyncio.TimerHandle | None = None

    def peek(self, address: Address) -> RpcConnection | None:
        """Return the live connection to a peer, if there is one."""
        connection = self._open.get(address)
        return connection if connection is not None and not connection.closed else None

    async def get(self, address: Address) -> RpcConnection:
        """Return a live connection.

        Raises:
            UnreachableError: none could be opened.
            ClosedError: the pool is closed.
        """
        if self._closed:
            raise ClosedError("the connection pool is closed")
        connection = self.peek(address)
        if connection is not None:
            return connection
        task = self._connecting.get(address)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._connect(address))
            task.add_done_callback(_retrieve_error)
            self._connecting[address] = task
        # One caller's cancellation must not end the attempt for the others.
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Close every connection. Idempotent."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        for task in list(self._connecting.values()):
            task.cancel()
        await asyncio.gather(*self._connecting.values(), return_exceptions=True)
        self._open.clear()
        await asyncio.gather(*(connection.close() for connection in list(self._connected)))

    async def _connect(self, address: Address) -> RpcConnection:
        try:
            secured = None if self._tls is None else self._secured(address)
            connection = await RpcConnection.connect(
                secured or address,
                timeout_s=self._connect_timeout_s,
                capabilities=self._capabilities,
                route=self._routes.get(address),
                tls=None if secured is None else self._tls,
            )
            self._open[address] = connection
            self._connected.add(connection)
            connection.disconnected.add_done_callback(lambda _: self._connected.discard(connection))
            self._sweep_later()
            return connection
        finally:
            self._connecting.pop(address, None)

    def _sweep_later(self) -> None:
        if self._sweeper is None and not self._closed:
            self._sweeper = asyncio.get_running_loop().call_later(self._idle_after_s / 4, self._sweep)

    def _sweep(self) -> None:
        self._sweeper = None
        for address, connection in list(self._open.items()):
            if not connection.closed and connection.idle_s >= self._idle_after_s:
                logger.debug("closing the idle connection to %s", address)
                connection.drop()
            if connection.closed:
                del self._open[address]
        if self._open:
            self._sweep_later()


def _retrieve_error(task: asyncio.Task[RpcConnection]) -> None:
    """Retrieve the error of a failed attempt, so that asyncio logs nothing if all its callers were cancelled."""
    if not task.cancelled():
        task.exception()
