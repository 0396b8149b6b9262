"""One Master: its components put together, started and stopped, and its operations beside the protocol.

The invariants: a topic that `create_topic` has returned can be produced to and consumed at once; whatever changes,
every held heartbeat that it concerns is answered in the same turn of the loop.

The metadata store blocks and runs on one thread of its own (`catalogue`); everything else is memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from functools import partial
from typing import TYPE_CHECKING

from pytubemq._version import __version__
from pytubemq.core.reset_target import parse_reset_target
from pytubemq.errors import Code, UnavailableError
from pytubemq.master.broker_inspector import BrokerInspector
from pytubemq.master.brokers.adoption import Adoption
from pytubemq.master.catalogue.catalogue import Catalogue, make_metastore
from pytubemq.master.components import make_components
from pytubemq.master.groups.group_resets import GroupResets, choose_partitions
from pytubemq.master.handlers import handlers
from pytubemq.master.metrics import Calls, MasterFacts, states_of
from pytubemq.master.registry.audit import API_USER, author_of
from pytubemq.master.registry.broker_waits import BrokerWaits
from pytubemq.master.registry.registry import make_registry
from pytubemq.master.registry.topic_change import topic_change
from pytubemq.master.registry.topic_life import TopicLife
from pytubemq.master.reports.cluster_health import ClusterHealth
from pytubemq.master.reports.group_reports import GroupReports
from pytubemq.master.reports.layout import Layout
from pytubemq.master.reports.reports import Reports
from pytubemq.master.settings import MasterSettings
from pytubemq.master.timeouts import Timeouts
from pytubemq.master.views import TopicsCreated
from pytubemq.model.ids import Address
from pytubemq.model.limits import BROKER_READY_TIMEOUT_S, RESET_TIMEOUT_S
from pytubemq.model.missing_topic import topic_missing
from pytubemq.model.names import check_group
from pytubemq.net.client.pool import ConnectionPool
from pytubemq.net.clock import Clock, SystemClock
from pytubemq.net.server.server import RpcServer, ServerLimits
from pytubemq.net.tls.reload import expiry_of
from pytubemq.security.permissions import Operation, ResourceKind
from pytubemq.wire.rpc.methods import Service

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pytubemq.master.brokers.brokers import Brokers
    from pytubemq.master.groups.groups import Groups
    from pytubemq.master.producers import Producers
    from pytubemq.master.registry.audit import Audit
    from pytubemq.master.registry.topic_change import TopicChange
    from pytubemq.master.views import (
        BrokerView,
        ClusterView,
        DefaultsView,
        GroupDetail,
        GroupReset,
        GroupView,
        Health,
        ResetHistory,
        TopicDetail,
        TopicRemoval,
        TopicsAdopted,
        TopicView,
    )
    from pytubemq.model.records import Record
    from pytubemq.net.client.connection import Route
    from pytubemq.net.server.connection import ServerConnection
    from pytubemq.net.tls.reload import ReloadingContext
    from pytubemq.security.secret import Secret

__all__ = ["MasterService", "MasterSettings"]

logger = logging.getLogger(__name__)


class MasterService:
    """A Master on one address."""

    def __init__(
        self, settings: MasterSettings, *, clock: Clock | None = None, tls: ReloadingContext | None = None
    ) -> None:
        """`tls` is the context of the TLS port, for settings that have one."""
        self.settings = settings
        self._tls = tls
        self._tls_address: Address | None = None
        self._clock = clock or SystemClock()
        self.started_ms = self._clock.wall_ms()
        self._timeouts = Timeouts(self._clock, self._failed)
        self._catalogue = Catalogue(self._clock, audit_days=settings.audit_days)
        self._catalogue.on_change = self._metadata_changed
        parts = make_components(
            self._catalogue, settings, self._clock, layout_changed=self._layout_changed, poke=self._timeouts.poke
        )
        self._brokers, self._groups, self._producers = parts.brokers, parts.groups, parts.producers
        self._flow = parts.flow
        self._access, self.http_access = parts.access, parts.access.http
        self._adoption = Adoption(self._catalogue, self._brokers, self._clock)
        self._waits = BrokerWaits(self._catalogue, self._brokers, settings, self._clock)
        self._topic_life = TopicLife(self._catalogue, self._brokers, self._waits, self._clock)
        self._calls = Calls()
        self._server = RpcServer(
            handlers(
                self._producers,
                parts.consumers,
                parts.client_balance,
                self._brokers,
                access=parts.access,
                calls=self._calls,
            ),
            offered=frozenset({Service.MASTER}),
            name="master",
            on_connection_lost=self._connection_lost,
            clock=self._clock,
            limits=ServerLimits(max_connections=settings.max_connections),
        )
        self.registry = make_registry(self._catalogue, self._brokers, parts.access.sealer, self._waits)
        self._pool = ConnectionPool(tls=settings.servers_tls, secured=self._brokers.tls_address)
        self._watcher: asyncio.Task[None] | None = None
        self._address: Address | None = None
        self._closing = False
        inspector = BrokerInspector(
            self._pool, timeout_s=settings.inspect_timeout_s, tokens=parts.access.tokens.of_master
        )
        self._resets = GroupResets(
            self._pool, inspector, timeout_s=RESET_TIMEOUT_S, tokens=parts.access.tokens.of_master
        )
        self._layout = Layout(self._catalogue, self._brokers)
        self._reports = Reports(self._layout, self._groups, self._producers, inspector, started_ms=self.started_ms)
        self._group_reports = GroupReports(self._layout, self._groups, inspector)
        self.cluster_health = ClusterHealth(
            self._reports,
            self._groups,
            self._producers,
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
        if self._tls_address is None:
            return None
        return Address(self.address.host, self._tls_address.port)

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
            await self._catalogue.open(partial(make_metastore, self.settings.data_dir))
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

    async def await_served(self, broker_id: int, *, timeout_s: float = BROKER_READY_TIMEOUT_S) -> bool:
        """Wait until a Broker is online and has reported all its topics; return False if it has not in time."""
        return await self._waits.until_served(broker_id, timeout_s=timeout_s)

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
        await self._catalogue.close()

    # --- topics -------------------------------------------------------------------------------------------------

    async def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        max_message_bytes: int | None = None,
        delete_policy: str | None = None,
        durability: str | None = None,
    ) -> TopicDetail:
        """Create a topic on every online Broker, each with `partitions` partitions, and wait until it is there.

        Raises:
            MessageError: not a topic name.
            BadRequestError: a number is out of its range.
            AlreadyExistsError: there is a topic of this name.
            UnavailableError: no Broker is online, one of this name is still being removed, or some Broker did not
                report the topic in time (it is created all the same, and ready as soon as they do).
        """
        change = topic_change(
            partitions=partitions,
            max_message_bytes=max_message_bytes,
            delete_policy=delete_policy,
            durability=durability,
        )
        await self._topic_life.create(name, change)
        return await self._reports.topic(name)

    async def create_topics(self, changes: Mapping[str, TopicChange], *, exist_ok: bool = False) -> TopicsCreated:
        """Create topics in one step, all or none, each as `create_topic` does, and wait until they are ready.

        With `exist_ok` those that are in use already are left as they are.

        Raises:
            BadRequestError: there are more than `MAX_TOPICS_PER_CALL`, or none.
            MessageError, AlreadyExistsError, UnavailableError: as `create_topic`.
        """
        created = await self._topic_life.create_all(changes, exist_ok=exist_ok)
        return TopicsCreated(created=created, existing=[name for name in changes if name not in set(created)])

    async def alter_topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        max_message_bytes: int | None = None,
        delete_policy: str | None = None,
        durability: str | None = None,
    ) -> TopicDetail:
        """Change a topic on all its Brokers and wait until those online have taken it up; None = stays.

        The word `default` for a policy or a durability removes the topic's own setting.

        Raises:
            NotFoundError: there is no such topic.
            BadRequestError: a value is out of its range, or the topic would have fewer partitions.
            UnavailableError: some Broker did not report the change in time (it is made all the same).
        """
        change = topic_change(
            partitions=partitions,
            max_message_bytes=max_message_bytes,
            delete_policy=delete_policy,
            durability=durability,
        )
        await self._topic_life.alter(name, change)
        return await self._reports.topic(name)

    async def delete_topic(self, name: str) -> TopicRemoval:
        """Remove a topic with its messages from all Brokers; wait for those online, and return what is left to do.

        Raises:
            NotFoundError: there is no such topic.
            BadRequestError: it is the system's own.
        """
        return await self._topic_life.delete(name)

    async def topics(self) -> list[TopicView]:
        """Return all topics, by name."""
        return await self._reports.topics()

    async def topic(self, name: str) -> TopicDetail:
        """Return one topic with its partitions. Raises NotFoundError."""
        self._check_topic(name)
        return await self._reports.topic(name)

    # --- the rest of the cluster --------------------------------------------------------------------------------

    async def brokers(self) -> list[BrokerView]:
        """Return all Brokers, by id."""
        return self._reports.brokers()

    async def groups(self) -> list[GroupView]:
        """Return all groups with members or confirmed offsets, by name. Raises UntoldError: Brokers are away."""
        return await self._group_reports.groups()

    async def group(self, name: str, *, topic: str | None = None) -> GroupDetail:
        """Return a group with members, assignment and lag; with a topic only that topic's rows.

        Raises:
            NotFoundError: there is none and nothing keeps it out of a topic, or there is no such topic.
            UntoldError: that cannot be determined, as Brokers are away.
        """
        if topic is not None:
            check_group(name)
            self._check_topic(topic)
        return await self._group_reports.group(name, topic=topic)

    async def reset_group(
        self,
        name: str,
        topic: str,
        to: str,
        *,
        partitions: Sequence[str] = (),
        dry_run: bool = False,
        user: str = API_USER,
    ) -> GroupReset:
        """Move a group in a topic to an offset, described by `to`; members that are reading continue there.

        Args:
            name: the group; it need not exist yet, and will begin there.
            topic: the topic.
            to: the target, as `core.reset_target` parses it.
            partitions: some of its partitions, as `group_resets.choose_partitions` parses them; all if empty.
            dry_run: return what would happen, and change nothing.
            user: the author, for the history.

        Raises:
            MessageError: not a group's name.
            NotFoundError: there is no such topic.
            BadRequestError: not a target, or one that some partition does not have; nothing was moved.
            UnavailableError: a Broker of the topic does not respond.
        """
        check_group(name)
        target = parse_reset_target(to, now_ms=self._clock.wall_ms())
        self._check_topic(topic)
        wanted = choose_partitions(self._layout.partitions(topic), partitions)
        return await self._resets.move(
            self._layout.addresses({partition.broker_id for partition in wanted}),
            name,
            wanted,
            target,
            user=user,
            dry_run=dry_run,
        )

    async def group_resets(self, name: str, *, most: int = 100) -> ResetHistory:
        """Show who reset a group, when, from where to where; the newest first."""
        check_group(name)
        return await self._resets.history(self._layout.online(), name, most=most, away=self._layout.away())

    async def health(self) -> Health:
        """Return the health of the cluster, with reasons."""
        return self.cluster_health.health()

    async def adopt_topics(self, *, discard: bool = False) -> TopicsAdopted:
        """Take over the topics that Brokers hold and this Master does not know; with `discard`, discard them.

        Raises:
            StorageError: the records cannot be written; nothing has changed.
        """
        return await self._adoption.adopt(discard=discard)

    async def defaults(self) -> DefaultsView:
        """Return the cluster's defaults for topics."""
        return self._reports.defaults()

    async def alter_defaults(
        self,
        *,
        max_message_bytes: int | None = None,
        delete_policy: str | None = None,
        durability: str | None = None,
    ) -> DefaultsView:
        """Change the cluster's defaults for topics; None = stays, the word `default` = as built in.

        Raises:
            BadRequestError: a value is out of its range.
        """
        change = topic_change(max_message_bytes=max_message_bytes, delete_policy=delete_policy, durability=durability)
        await self.registry.cluster.alter(change, by=self.change_by(None))
        return self._reports.defaults()

    async def enroll_broker(self, name: str) -> Secret:
        """Return a new secret of a user that may register as a Broker; the user is created if it is not there.

        Raises:
            ConfigError: this Master has no key for secrets.
        """
        users, by = self.registry.users, self.change_by("server")
        secret = await (users.rotate if name in self._catalogue.users else users.create)(name, by=by)
        await users.grant(name, Operation.BROKER, ResourceKind.CLUSTER, "*", by=by)
        return secret

    def change_by(self, user: str | None) -> Audit:
        """Return the author and time of a change that is made now."""
        return author_of(user, self._clock.wall_ms())

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
            http_expires_s=expiry_of(self.cluster_health.http_certificate),
        )

    @property
    def version(self) -> str:
        """The version of this software."""
        return __version__

    @property
    def catalogue(self) -> Catalogue:
        """The records, for reading; `registry` changes them."""
        return self._catalogue

    @property
    def group_room(self) -> Groups:
        """The consumer groups that have members now."""
        return self._groups

    @property
    def producer_room(self) -> Producers:
        """The registered producers."""
        return self._producers

    @property
    def broker_room(self) -> Brokers:
        """The registered Brokers."""
        return self._brokers

    # --- inside -------------------------------------------------------------------------------------------------

    def _check_topic(self, name: str) -> None:
        if name not in self._catalogue.topics:
            raise topic_missing(name, known=self._catalogue.topics, code=Code.NOT_FOUND, creatable=False)

    def _metadata_changed(self, records: Collection[Record]) -> None:
        """Notify Brokers of changed records, and everyone who waits for them."""
        self._brokers.metadata_changed(records)
        if self._access.checks.note(records):
            self._brokers.access_changed()
        self._layout_changed()
        self._groups.rules_changed(self._flow.ids)

    def _layout_changed(self) -> None:
        """Update groups and producers, since topics may have become available or unavailable."""
        if self._closing:
            return
        self._groups.partitions_changed()
        self._producers.held.wake_all()
        self._waits.changed()
        self._timeouts.poke()

    def _connection_lost(self, connection: ServerConnection) -> None:
        self._producers.connection_lost(connection)
        self._groups.connection_lost(connection)
        self._brokers.connection_lost(connection)
        self._brokers.turns.let_go(connection)
        self._timeouts.poke()

    def _failed(self, what: str) -> None:
        """Record an error inside this Master."""
        self.cluster_health.fault = what
