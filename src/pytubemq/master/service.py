"""One Master: its components put together, started and stopped.

The invariant: whatever changes, every held heartbeat that it concerns is answered in the same turn of the loop.

The metadata store blocks and runs on one thread of its own (`catalogue`); everything else is memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from pytubemq.errors import Code, UnavailableError
from pytubemq.master.catalogue.catalogue import Catalogue
from pytubemq.master.components import make_components
from pytubemq.master.groups.partitions.long_reports import LongReports
from pytubemq.master.handlers import handlers
from pytubemq.master.metrics import Calls, MasterFacts, states_of
from pytubemq.master.operations import MasterOperations
from pytubemq.master.reports.cluster_health import ClusterHealth
from pytubemq.master.settings import MasterSettings
from pytubemq.master.timeouts import Timeouts
from pytubemq.model.ids import Address
from pytubemq.net.client.pool import ConnectionPool
from pytubemq.net.clock import Clock, SystemClock
from pytubemq.net.server.server import RpcServer, ServerLimits
from pytubemq.net.tls.reload import expiry_of
from pytubemq.wire.rpc.methods import Service

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from pytubemq.master.views import ClusterView, Health
    from pytubemq.model.records import Record
    from pytubemq.net.client.connection import Route
    from pytubemq.net.server.connection import ServerConnection
    from pytubemq.net.tls.reload import ReloadingContext

__all__ = ["MasterService", "MasterSettings"]

logger = logging.getLogger(__name__)


class MasterService(MasterOperations):
    """A Master on one address, with all its operations."""

    def __init__(
        self,
        settings: MasterSettings,
        *,
        clock: Clock | None = None,
        tls: ReloadingContext | None = None,
        leads: Callable[[], bool] = lambda: True,
    ) -> None:
        """`tls` is the context of the TLS port, for settings that have one.

        While `leads()` is False, requests are refused as by a standby.
        """
        clock = clock or SystemClock()
        self._leads = leads
        self._tls = tls
        self._tls_address: Address | None = None
        self._timeouts = Timeouts(clock, self._failed, leads)
        catalogue = Catalogue(clock, audit_days=settings.audit_days)
        catalogue.on_change = self._metadata_changed
        parts = make_components(
            catalogue, settings, clock, topics_changed=self._topics_changed, poke=self._timeouts.poke
        )
        self._pool = ConnectionPool(tls=settings.servers_tls, secured=parts.brokers.tls_address)
        super().__init__(settings, catalogue, parts, self._pool, clock)
        self._flow = parts.flow
        self._access, self.http_access = parts.access, parts.access.http
        self._calls = Calls()
        self._long_reports = LongReports()
        self._server = RpcServer(
            handlers(
                parts.producers,
                parts.consumers,
                parts.client_balance,
                parts.brokers,
                self._long_reports,
                access=parts.access,
                calls=self._calls,
                leads=leads,
            ),
            offered=frozenset({Service.MASTER}),
            name="master",
            on_connection_lost=self._connection_lost,
            clock=clock,
            limits=ServerLimits(max_connections=settings.max_connections),
        )
        self._watcher: asyncio.Task[None] | None = None
        self._address: Address | None = None
        self._closing = False
        self.cluster_health = ClusterHealth(
            self._reports,
            parts.groups,
            parts.producers,
            parts.admission,
            self._server,
            self.http_access,
            insecure=settings.insecure,
        )

    @property
    def address(self) -> Address:
        """The address that clients are sent: the advertised address, else the one in use."""
        if self._address is None:
            raise UnavailableError("the Master is not started", code=Code.SERVICE_UNAVAILABLE)
        return self.settings.advertised or self._address

    @property
    def tls_address(self) -> Address | None:
        """The address for TLS; None without a TLS port."""
        return None if self._tls_address is None else Address(self.address.host, self._tls_address.port)

    async def start(self) -> None:
        """Open the metadata and the port; ready when it returns. Raises as `prepare` and `open`."""
        await self.prepare()
        await self.open()

    async def prepare(self) -> None:
        """Open the metadata and reserve the port without opening it; until `open`, only `route` leads here.

        Raises:
            ConfigError: the address cannot be used.
            StorageError: the metadata cannot be read, or a newer version wrote it.
        """
        try:
            await self._catalogue.open(self.settings.open_store)
            await self._access.open(self.settings.data_dir)
            self._brokers.expect_all()
            self._address = await self._server.bind(self.settings.listen)
            if self._tls is not None and self.settings.tls_listen is not None:
                self._tls_address = self._server.bind_tls(self.settings.tls_listen, self._tls)
        except BaseException:
            await self.close()
            raise
        self._watcher = asyncio.get_running_loop().create_task(
            self._timeouts.run((self._producers, self._groups, self._brokers))
        )

    async def open(self) -> None:
        """Open the port that `prepare` reserved.

        Raises:
            ConfigError: another program has bound it meanwhile.
        """
        await self._server.open(plain=self.settings.opens_plain)
        if self.settings.opens_plain:
            logger.info("master listens on %s", self._address)
        if self._tls_address is not None:
            logger.info("master listens on %s for TLS", self._tls_address)

    @property
    def route(self) -> Route:
        """Return a connection function to this Master for a client in this process. It needs no port."""
        return self._server.connect_inside

    async def close(self) -> None:
        """Answer held heartbeats, stop listening, close the metadata. Idempotent, bounded in time."""
        if self._closing:
            return
        self._closing = True
        self._producers.held.release_all()
        self._groups.held.release_all()
        self._brokers.held.release_all()
        if self._watcher is not None:
            self._watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watcher
        await self._server.close()
        await self._brokers.upkeep.close()
        await self._pool.close()
        self._access.close()
        await self._catalogue.close()

    # --- views --------------------------------------------------------------------------------------------------

    async def health(self) -> Health:
        """Return the health of the cluster, with reasons."""
        return self.cluster_health.health()

    async def cluster(self) -> ClusterView:
        """Return the view of the cluster."""
        return self._reports.cluster(self.address)

    def facts(self) -> MasterFacts:
        """Return the state that its metrics are read from, as of now."""
        cluster = self._reports.cluster(self.address)
        return MasterFacts(
            health=self.cluster_health.health(),
            brokers=tuple(cluster.brokers),
            group_states=states_of(group.view.balanced for group in self._groups.groups.values()),
            server=self._server.stats,
            calls=self._calls.copy(),
            held_heartbeats=cluster.held_heartbeats,
            rebalances=cluster.rebalances,
            refusals=self._access.guard.refusals.copy(),
            leads=self._leads(),
            http_expires_s=expiry_of(self.cluster_health.http_certificate),
        )

    # --- inside -------------------------------------------------------------------------------------------------

    def _metadata_changed(self, records: Collection[Record]) -> None:
        """Notify Brokers of changed records, and everyone who waits for them."""
        self._brokers.metadata_changed(records)
        if self._access.checks.note(records):
            self._brokers.access_changed()
        if not self._closing:
            self._groups.records_changed(records)
            self._layout_changed()
        self._groups.rules_changed(records, self._flow.ids)

    def _topics_changed(self, topics: Collection[str]) -> None:
        """Update groups and producers, since topics may have become available or unavailable."""
        if not self._closing:
            self._groups.topics_changed(topics)
            self._layout_changed()

    def _layout_changed(self) -> None:
        """Update those who wait for topics, after the groups."""
        self._producers.held.wake_all()
        self._waits.changed()
        self._timeouts.poke()

    def _connection_lost(self, connection: ServerConnection) -> None:
        self._producers.connection_lost(connection)
        self._groups.connection_lost(connection)
        self._brokers.connection_lost(connection)
        self._brokers.turns.let_go(connection)
        self._long_reports.let_go(connection)
        self._timeouts.poke()

    def _failed(self, what: str) -> None:
        """Record an error inside this Master."""
        self.cluster_health.fault = what
