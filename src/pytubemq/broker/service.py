"""The Broker as a service: opens the store, listens, registers with the Master, and stops cleanly.

The invariants: it serves nothing before the store has recovered; it confirms nothing by stopping; a part that fails
in the background is seen in `health()` and in the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from pytubemq.broker.append.append_path import AppendPath
from pytubemq.broker.append.log_applier import LogApplier
from pytubemq.broker.append.waiters import Waiters
from pytubemq.broker.handlers import CAPABILITIES, OFFERED, handlers, run_handlers
from pytubemq.broker.inspect import BrokerInspect
from pytubemq.broker.members.caller_access import CallerAccess
from pytubemq.broker.members.consumer_registry import ConsumerRegistry
from pytubemq.broker.members.positions import Positions
from pytubemq.broker.members.reset_epochs import ResetEpochs
from pytubemq.broker.members.reset_history import ResetHistory
from pytubemq.broker.metrics import BrokerFacts
from pytubemq.broker.offsets.offset_admin import OffsetAdmin
from pytubemq.broker.produce.send_checks import SendChecks
from pytubemq.broker.request_checks import ServingState
from pytubemq.broker.settings import BrokerSettings
from pytubemq.broker.state import BrokerState
from pytubemq.broker.topics import TopicTable
from pytubemq.broker.upkeep.health import StoreTroubles, problems
from pytubemq.broker.upkeep.master_orders import MasterOrders
from pytubemq.broker.upkeep.master_session import BrokerIdentity, MasterSession
from pytubemq.broker.upkeep.periodic_checks import PeriodicChecks
from pytubemq.broker.upkeep.reports import Condition, reported_leases
from pytubemq.broker.upkeep.retention import RetentionPasses
from pytubemq.broker.upkeep.stored_topics import StoredTopics
from pytubemq.broker.upkeep.topic_file import TopicFile
from pytubemq.errors import ClosedError, TubeError
from pytubemq.model.ids import BrokerInfo
from pytubemq.model.limits import (
    DISK_READERS,
    MAX_PROBLEM_CHARS,
    MAX_REPORTED_PROBLEMS,
)
from pytubemq.net.client.masters import MasterClient
from pytubemq.net.client.pool import ConnectionPool
from pytubemq.net.client.request_signer import RequestSigner
from pytubemq.net.clock import Clock, SystemClock
from pytubemq.net.server.server import RpcServer, ServerLimits
from pytubemq.net.tls.reload import expiry_of, trouble_of
from pytubemq.observe.metrics import Shown
from pytubemq.storage.disk.disk import OsDisk
from pytubemq.storage.store.store import BrokerStore

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from pytubemq.broker.topics import MasterConfig
    from pytubemq.model.ids import Address
    from pytubemq.net.client.connection import Route
    from pytubemq.net.server.connection import ServerConnection
    from pytubemq.net.tls.reload import ReloadingContext
    from pytubemq.storage.disk.disk import Disk

__all__ = ["BrokerService", "BrokerSettings"]

logger = logging.getLogger(__name__)

_WATCH_S = 0.2
"""The time in which the Master learns that something is wrong here, or well again."""
_JOIN_TIMEOUT_S = 5.0
"""The time that a start waits for the Master before it serves without it."""


class BrokerService:
    """One Broker. `start` returns when it is ready; `close` is bounded and may be called at any time."""

    address: Address
    """The address on which it listens, after `start`."""

    def __init__(
        self,
        settings: BrokerSettings,
        *,
        clock: Clock | None = None,
        disk: Disk | None = None,
        routes: Mapping[Address, Route] | None = None,
        tls: ReloadingContext | None = None,
    ) -> None:
        """Use `routes`, by address, for Masters in this process; `tls` is the context of the TLS port, if there is
        one."""
        self.settings = settings
        self._tls = tls
        self.tls_address: Address | None = None
        """The address of the TLS port, after `start`; None without one."""
        self._routes = routes or {}
        self.directory = settings.data_dir / f"broker-{settings.broker_id}"
        self._clock = clock or SystemClock()
        self._disk: Disk = disk or OsDisk()
        self._closing = False
        self._tasks: list[asyncio.Task[None]] = []
        self._faults: dict[str, str] = {}
        """Failures in the background, by part; kept until a restart."""
        self._store: BrokerStore | None = None
        self._server: RpcServer | None = None
        self._applier: LogApplier | None = None
        self._state: BrokerState | None = None
        self._orders: MasterOrders | None = None
        self._session: MasterSession | None = None
        self.retention: RetentionPasses | None = None
        """Retention; None before the start."""
        self._periodic_checks: PeriodicChecks | None = None
        self._pool: ConnectionPool | None = None
        self._shown = Shown()
        self._troubles = StoreTroubles()
        self.web_port: int | None = None
        """The port of its web pages, for the Master's record; None without pages. Set before the start."""
        self.http_certificate: ReloadingContext | None = None
        """The context of these pages; None without TLS there. Set before the start."""
        self.workers_down: tuple[str, ...] = ()
        """Brokers that one parent runs beside this one and that do not run now, each with the reason."""

    # --- start ----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Recover the store, listen, register at the Master if it can be reached.

        Raises:
            DirectoryLockedError, NewerVersionError, CorruptError, StorageError: the files on disk cannot be used.
            ConfigError: the server cannot listen on its address.
        """
        try:
            await self._start()
        except BaseException:
            await self.close()
            raise

    async def _start(self) -> None:
        settings = self.settings
        loop = asyncio.get_running_loop()
        self._store = await loop.run_in_executor(
            None, lambda: BrokerStore.open(self.directory, disk=self._disk, settings=settings.store)
        )
        resets = await loop.run_in_executor(None, ResetHistory.open, self._disk, self.directory)
        state = self._state = self._make_state(self._store, resets)
        stored = StoredTopics(state.store.partitions() if settings.masters else ())
        known = await loop.run_in_executor(None, TopicFile.open, self._disk, self.directory, stored)
        if known.stored.names():
            known.stored.widen(state.store.position_keys())
        orders = self._orders = MasterOrders(state, known, stored)
        if settings.masters:
            orders.restore(known.config)
        else:
            orders.serve(settings.topics)
        self._applier = LogApplier(self._store, on_progress=self._progress(loop, state.path))
        self._applier.start()
        checks = SendChecks(state)
        self._server = RpcServer(
            handlers(state, checks),
            run_handlers=run_handlers(state, checks),
            offered=OFFERED,
            capabilities=CAPABILITIES,
            name="Broker",
            on_connection_lost=self._handle_lost_connection,
            clock=self._clock,
            limits=ServerLimits(max_connections=settings.max_connections),
        )
        self.address = await self._server.bind(settings.listen)
        if self._tls is not None and settings.tls_listen is not None:
            self.tls_address = self._server.bind_tls(settings.tls_listen, self._tls)
        await self._server.open(plain=settings.opens_plain)
        state.serving.started = True
        periodic_checks = self._periodic_checks = PeriodicChecks(
            state, self._disk, self.directory, reserve_bytes=settings.store.reserve_bytes
        )
        await periodic_checks.look_at_space()
        self._spawn("periodic checks", periodic_checks.run())
        self.retention = RetentionPasses(state, period_s=settings.retention_check_s)
        self._spawn("retention", self.retention.run())
        if settings.masters:
            self._spawn("removal of topics", orders.removal.run())
            await self._join(known.config, orders)
        served_on = self.address if settings.opens_plain else self.tls_address
        logger.info("Broker %d serves %d topics on %s", settings.broker_id, len(state.topics), served_on)
        if self.tls_address is not None and settings.opens_plain:
            logger.info("Broker %d listens on %s for TLS", settings.broker_id, self.tls_address)

    @staticmethod
    def _progress(loop: asyncio.AbstractEventLoop, path: AppendPath) -> Callable[[], None]:
        """Return a callback that reports the applier's progress to the loop, which may be gone if a stop timed out."""

        def report_progress() -> None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(path.resume)

        return report_progress

    def _make_state(self, store: BrokerStore, resets: ResetHistory) -> BrokerState:
        settings = self.settings
        waiters = Waiters()
        path = AppendPath(
            store,
            clock=self._clock,
            on_published=waiters.wake,
            on_written=self._written,
            backlog_error=lambda: self._applier.error if self._applier else None,
            max_staged_bytes=settings.max_staged_bytes,
            max_unapplied_bytes=settings.max_unapplied_bytes,
        )
        positions = Positions(store, path, most=settings.max_positions)
        registry = ConsumerRegistry(lease_timeout_s=settings.lease_timeout_s)
        positions.spare.is_reading = registry.is_reading
        return BrokerState(
            serving=ServingState(settings.broker_id),
            clock=self._clock,
            store=store,
            topics=TopicTable(),
            path=path,
            positions=positions,
            registry=registry,
            waiters=waiters,
            readers=ThreadPoolExecutor(DISK_READERS, thread_name_prefix="pytubemq-read"),
            lookups=ThreadPoolExecutor(1, thread_name_prefix="pytubemq-lookup"),
            resets=resets,
            reset_epochs=ResetEpochs(reversed(resets.newest())),
            access=CallerAccess(required=settings.requires_access),
        )

    async def _join(self, config: MasterConfig, orders: MasterOrders) -> None:
        settings = self.settings
        self._pool = ConnectionPool(routes=self._routes, tls=settings.servers_tls)
        self._session = MasterSession(
            BrokerIdentity(
                broker_id=settings.broker_id,
                advertised=settings.advertised or self.address,
                tls_port=settings.tls_port if self.tls_address is None else self.tls_address.port,
                has_tls=self.tls_address is not None,
                web_port=self.web_port,
                durability=settings.store.durability,
            ),
            MasterClient(settings.masters, self._pool, RequestSigner(settings.credentials)),
            config,
            orders,
            heartbeat_period_s=settings.heartbeat_period_s,
            leases=self._leases,
        )
        self._session.report(self._condition())
        if not await self._session.join(timeout_s=_JOIN_TIMEOUT_S):
            logger.warning("Broker %d starts without the Master, with the topics it knows", settings.broker_id)
        self._spawn("Master session", self._session.run())
        self._spawn("watch", self._watch(self._session))

    # --- what its parts call --------------------------------------------------------------------------------

    def _leases(self, room_bytes: int) -> tuple[str, ...]:
        """Return the leases of this Broker's readers, as many as fit."""
        assert self._state is not None
        broker = BrokerInfo(self.settings.broker_id, self.settings.advertised or self.address)
        return reported_leases(
            self._state.registry.registrations(), broker, now_s=self._clock.now_s(), room_bytes=room_bytes
        )

    def _written(self) -> None:
        if self._applier is not None and self._state is not None:
            self._applier.record_write()
            self._state.positions.writable_again()

    def _handle_lost_connection(self, connection: ServerConnection) -> None:
        assert self._state is not None
        settings = self.settings
        ours = bool(connection.capabilities)
        self._state.waiters.drop(id(connection))
        self._state.long_work.let_go(connection)
        self._state.short_work.let_go(connection)
        self._state.registry.connection_lost(
            id(connection),
            now_s=self._clock.now_s(),
            grace_s=settings.lost_connection_grace_s if ours else settings.foreign_connection_grace_s,
            can_detect_loss=ours,
        )

    async def _watch(self, session: MasterSession) -> None:
        """Report this Broker's condition to the Master whenever it changes."""
        while True:
            session.report(self._condition())
            await asyncio.sleep(_WATCH_S)

    def _spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Start a background task whose failure shows in the health."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        task.add_done_callback(self._record_task_end)
        self._tasks.append(task)

    def _record_task_end(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or (error := task.exception()) is None:
            return
        logger.error("the %s has failed", task.get_name(), exc_info=error)
        self._faults[task.get_name()] = f"{type(error).__name__}: {error}"

    # --- stop -----------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Refuse new requests, finish what is on its way to the disk, stop. Confirms nothing. Idempotent."""
        if self._closing:
            return
        self._closing = True
        state = self._state
        if state is not None:
            state.serving.started = False
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._session is not None:
            await self._session.leave()
        if self._pool is not None:
            await self._pool.close()
        if state is not None:
            state.waiters.release()
            await state.path.close(timeout_s=self.settings.stop_timeout_s)
        if self._server is not None:
            await self._server.close()
        await asyncio.get_running_loop().run_in_executor(None, self._close_store)

    def _close_store(self) -> None:
        """Stop the threads and close the store; blocks."""
        stopped = self._applier is None or self._applier.close(timeout_s=self.settings.stop_timeout_s)
        if self._state is not None:
            self._state.readers.shutdown(wait=True, cancel_futures=True)
            self._state.lookups.shutdown(wait=True, cancel_futures=True)
        if self._store is not None and stopped:
            with contextlib.suppress(TubeError):
                self._store.close()

    # --- for those who look after it ------------------------------------------------------------------------

    @property
    def inspect(self) -> BrokerInspect:
        """Return queries about topics, positions, consumers and messages. Raises ClosedError unless it runs."""
        return BrokerInspect(self._running_state())

    @property
    def offsets(self) -> OffsetAdmin:
        """Return changes of groups' positions. Raises ClosedError unless it runs."""
        return OffsetAdmin(self._running_state())

    @property
    def enforces_access(self) -> bool:
        """True if the Master lets in only callers with a permission, or this Broker does until it knows."""
        return self.settings.requires_access or (self._state is not None and self._state.access.is_enforced)

    def _running_state(self) -> BrokerState:
        if self._state is None or self._closing or not self._state.serving.started:
            raise ClosedError(f"Broker {self.settings.broker_id} is not running", hint="try again when it has started")
        return self._state

    def facts(self) -> BrokerFacts:
        """Return the state that its metrics are read from, as of now. ClosedError unless it runs."""
        state = self._running_state()
        assert self._server is not None
        return BrokerFacts(
            state=state,
            server=self._server.stats,
            topics={served.config.name: sorted(served.partition_ids) for served in state.topics},
            registrations=len(state.registry),
            handed_out=dict(state.counters.handed_out),
            problems=len(self.health()["problems"]),
            insecure=self.settings.insecure,
            http_expires_s=expiry_of(self.http_certificate),
            failed=self._writes_off(state),
            registered=self._session.health.registered if self._session is not None else None,
            master_failures=self._session.health.failures if self._session is not None else 0,
            forgotten=self._session.health.forgotten if self._session is not None else 0,
            retention=self.retention,
            free_bytes=lambda: self._disk.free_bytes(self.directory),
            shown=self._shown,
        )

    # --- health ---------------------------------------------------------------------------------------------

    @property
    def refused_by_master(self) -> str | None:
        """Return the reason why the Master refuses this Broker; None when it accepts it, or was not reached."""
        return None if self._session is None else self._session.health.refusal

    def health(self) -> dict[str, Any]:
        """Return the Broker's health.

        `status` is "ok", "degraded" (serves, but something is wrong) or "failed" (refuses messages), `problems` are
        texts, the rest are counts.
        """
        state = self._state
        if state is None or self._closing:
            return {"status": "failed", "problems": ["not running"]}
        path, session, server = state.path, self._session, self._server
        found = self._problems(state)
        if session is not None:
            said = (session.health.problem, session.health.unusable)
            found += [f"Master: {problem}" for problem in said if problem is not None]
        if server is not None:
            of_ports = (server.problem, server.certificate_problem, trouble_of(self.http_certificate))
            found += [problem for problem in of_ports if problem is not None]
        return {
            "status": "failed" if self._writes_off(state) else "degraded" if found else "ok",
            "problems": found,
            "insecure": self.settings.insecure,
            "broker_id": self.settings.broker_id,
            "address": str(self.address),
            "registered": session.health.registered if session is not None else None,
            "topics": len(state.topics),
            "consumers": len(state.registry),
            "held_fetches": len(state.waiters),
            "slowed_fetches": state.flow.refusals,
            "connections": server.stats.connections if server is not None else 0,
            "messages": path.stats.messages,
            "writes": path.stats.writes,
            "failed_writes": path.stats.failed_writes,
            "expired": path.stats.expired,
            "overflows": path.stats.overflows,
            "staged_bytes": path.staged_bytes,
            "unapplied_bytes": state.store.unapplied_bytes,
        }

    def _condition(self) -> Condition:
        """Return the health in the form of the report to the Master."""
        if (state := self._state) is None:
            return Condition()
        reported = (problem[:MAX_PROBLEM_CHARS] for problem in self._problems(state)[:MAX_REPORTED_PROBLEMS])
        return Condition(
            writes_off=self._writes_off(state),
            problems=tuple(reported),
            read_stopped=state.serving.read_stopped,
            write_stopped=state.serving.write_stopped,
            removed=self._orders.removal.removed if self._orders is not None else (),
        )

    def _writes_off(self, state: BrokerState) -> bool:
        """True if messages are refused until a restart."""
        return state.path.errors.fatal is not None or (self._applier is not None and self._applier.dead)

    def _problems(self, state: BrokerState) -> list[str]:
        """Return the problems of the Broker itself."""
        return problems(
            state,
            faults=self._faults,
            workers_down=self.workers_down,
            troubles=self._troubles,
            applier=self._applier,
            orders=self._orders,
            retention=self.retention,
            shortage=self._periodic_checks.shortage if self._periodic_checks is not None else None,
        )
