"""A Master's ports from the start of its process until it leads.

The invariant: the ports are free again when `lead` returns, for the Master that then serves there.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytubemq.admin.serving.http import HttpServer
from pytubemq.admin.standby_app import create_standby_app
from pytubemq.master.leader.standby import StandbyServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from pytubemq.model.ids import Address
    from pytubemq.net.clock import Clock
    from pytubemq.net.elect.elector import Elector
    from pytubemq.net.tls.reload import ReloadingContext

_LEADS_AT_ONCE_S: Final = 1.0
"""The time in which a Master without a rival gets to lead; it then opens its ports only once, as the leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyPorts:
    """The ports of a Master that waits until it leads; those of TLS are None without it."""

    listen: Address
    plain: bool
    """True if the port of `listen` is opened without TLS."""
    tls_listen: Address | None
    tls: ReloadingContext | None
    http_listen: Address
    http_tls: ReloadingContext | None
    hosts: Sequence[str]
    """Names under which HTTP may be called, beside loopback addresses."""
    max_connections: int
    max_http_connections: int

    async def lead(self, elector: Elector, clock: Clock) -> int:
        """Wait until this Master leads, and answer as a standby meanwhile; return its epoch.

        Raises:
            ConfigError: a port cannot be used, or the store of the lease refuses this Master.
            TubeError: as `Elector.lead`.
        """
        leading = asyncio.get_running_loop().create_task(elector.lead())
        try:
            await asyncio.wait({leading}, timeout=_LEADS_AT_ONCE_S)
            if not leading.done():
                async with self._open(elector, clock):
                    await asyncio.wait({leading})
            return await leading
        finally:
            leading.cancel()

    @contextlib.asynccontextmanager
    async def _open(self, elector: Elector, clock: Clock) -> AsyncIterator[None]:
        app = create_standby_app(lambda: elector.leader, hosts=[self.http_listen.host, *self.hosts])
        async with contextlib.AsyncExitStack() as stack:
            http = HttpServer(app, self.http_listen, max_connections=self.max_http_connections, tls=self.http_tls)
            stack.push_async_callback(http.close)
            await http.start()
            rpc = StandbyServer(lambda: elector.leader, clock=clock, max_connections=self.max_connections)
            stack.push_async_callback(rpc.close)
            await rpc.open(self.listen, plain=self.plain, tls_listen=self.tls_listen, tls=self.tls)
            yield
