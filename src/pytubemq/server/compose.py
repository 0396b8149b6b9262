"""The roles of one process: their order at the start, and their stop.

The invariants: a node that failed to start has stopped again what it had started; the Master's ports open when the
Broker beside it serves, and refuse connections before; `close` is idempotent, ends within STOP_TIMEOUT_S, and stops a
Broker before the Master that it reports to.
"""

from __future__ import annotations

import asyncio
import logging
import os
from dataclasses import asdict, dataclass, replace
from enum import Enum, unique
from pathlib import Path
from typing import TYPE_CHECKING

from pytubemq.errors import ConfigError, FencedError, TubeError
from pytubemq.master.leader.store_settings import SQLITE
from pytubemq.model.cluster_address import ClusterUser
from pytubemq.model.ids import (
    DEFAULT_BROKER_PORT,
    DEFAULT_BROKER_TLS_PORT,
    DEFAULT_MASTER_PORT,
    DEFAULT_MASTER_TLS_PORT,
    Address,
)
from pytubemq.net.clock import Clock, SystemClock
from pytubemq.security.authentication_mode import AuthenticationMode
from pytubemq.security.credentials import Credentials
from pytubemq.server.certificates import Certificates
from pytubemq.server.dev_ports import port_owner
from pytubemq.server.exposure import ExposureReminder, exposure
from pytubemq.server.files import Shares, file_limit, make_directory, shares
from pytubemq.server.keys.root_key import load_root_key
from pytubemq.server.keys.store_password import database_options
from pytubemq.server.sections.addresses import is_loopback, parse_address
from pytubemq.server.sections.broker import DEFAULT_BROKER_HTTP_PORT
from pytubemq.server.sections.http import DEFAULT_HTTP_PORT
from pytubemq.storage.disk.disk import Disk, OsDisk

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from pytubemq.admin.serving.http import HttpServer
    from pytubemq.admin.webapi.authorization import Access
    from pytubemq.broker.service import BrokerService
    from pytubemq.core.database.store_options import StoreOptions
    from pytubemq.master.access.http.oidc import OidcTokens
    from pytubemq.master.service import MasterService
    from pytubemq.net.client.connection import Route
    from pytubemq.net.elect.elector import Elector
    from pytubemq.server.settings import Settings
    from pytubemq.storage.disk.disk import DirectoryLock

logger = logging.getLogger(__name__)

STOP_TIMEOUT_S = 2.6
"""The time for all roles together; work that has not ended by then is left to the end of the process."""


@unique
class Role(Enum):
    """A role of a process."""

    MASTER = "master"
    BROKER = "broker"


ROLES: dict[str, frozenset[Role]] = {
    "master": frozenset({Role.MASTER}),
    "broker": frozenset({Role.BROKER}),
    "all": frozenset({Role.MASTER, Role.BROKER}),
}


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The addresses of a running node; None for a role that it does not run, and for a port that is closed."""

    master: str | None = None
    broker: str | None = None
    http: str | None = None
    broker_http: str | None = None
    master_tls: str | None = None
    broker_tls: str | None = None

    def as_dict(self) -> dict[str, str]:
        """Return those that exist."""
        return {key: value for key, value in asdict(self).items() if value is not None}


class Node:
    """The Master with its HTTP, a Broker, or both, in this process."""

    def __init__(
        self,
        settings: Settings,
        roles: frozenset[Role],
        *,
        clock: Clock | None = None,
        disk: Disk | None = None,
        before_open: Callable[[Node], Awaitable[None]] | None = None,
    ) -> None:
        """Await `before_open` when Master and Broker are ready, before the Master's ports open."""
        self.settings = settings
        self.roles = roles
        self.endpoints = Endpoints()
        self.master: MasterService | None = None
        self.broker: BrokerService | None = None
        self._clock = clock or SystemClock()
        self._disk = disk
        self._before_open = before_open
        self._routes: dict[Address, Route] = {}
        self._certificates = Certificates(settings)
        self._reminder = ExposureReminder(settings)
        self._http: HttpServer | None = None
        self._lock: DirectoryLock | None = None
        self._elector: Elector | None = None
        self._closing: list[tuple[str, Callable[[], Awaitable[None]]]] = []

    async def start(self) -> Endpoints:
        """Start every role; all are ready when this returns.

        Where a Broker runs beside its Master, the Master's ports open last, when the Broker serves its topics: a
        client that waits for such a port finds a cluster that works.

        Raises:
            ConfigError: an address or a directory cannot be used.
            DirectoryLockedError: another process uses the directory.
        """
        try:
            self._reminder.start()
            self._closing.append(("the reminder of insecure = true", self._reminder.close))
            self._certificates.load()
            self._certificates.follow()
            self._closing.append(("the look at certificates", self._certificates.close))
            if Role.MASTER in self.roles:
                await self._prepare_master()
                self._prepare_http()
                if not self._is_broker_ours:
                    await self._open_ports()
            if Role.BROKER in self.roles:
                await self._start_broker()
            if self._is_broker_ours:
                await self._await_broker()
                await self._open_ports()
        except BaseException:
            await self.close()
            raise
        return self.endpoints

    async def close(self) -> bool:
        """Stop everything; return False when something did not end in time (its log line names it)."""
        clean = True
        steps, self._closing = self._closing, []
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + STOP_TIMEOUT_S
        for index, (name, close) in enumerate(reversed(steps)):
            # Each may use the rest of the time, less a moment for each of the ones after it.
            budget_s = max(0.1, deadline_s - loop.time() - 0.3 * (len(steps) - 1 - index))
            try:
                await asyncio.wait_for(close(), budget_s)
            except TimeoutError:
                clean = False
                logger.error("%s did not stop within %.1f s", name, budget_s)
            except Exception:
                clean = False
                logger.exception("%s failed to stop", name)
        if self._lock is not None:
            self._lock.release()
            self._lock = None
        return clean

    async def until_failed(self) -> TubeError:
        """Wait until this node can serve no more; return the reason. Its Master then no longer leads."""
        if self._elector is None:
            await asyncio.Event().wait()
        assert self._elector is not None
        reason = await self._elector.until_lost()
        return FencedError(
            f"this Master no longer leads: {reason}", hint="start it again; it then stands by, and leads when it may"
        )

    @property
    def refused_by_master(self) -> str | None:
        """The reason why the Master refuses this process's Broker; None if it accepts it, or cannot be asked."""
        return None if self.broker is None else self.broker.refused_by_master

    def on_message(self, word: Mapping[str, object]) -> None:
        """Handle a message of the parent process: which of the Brokers that it runs beside this one are down."""
        down = word.get("workers_down")
        if self.broker is not None and isinstance(down, list):
            self.broker.workers_down = tuple(map(str, down))

    @property
    def _is_broker_ours(self) -> bool:
        """True if this process runs a Broker that reports to the Master in this process."""
        return {Role.MASTER, Role.BROKER} <= self.roles and not self._routes.keys().isdisjoint(self._masters())

    async def _await_broker(self) -> None:
        """Wait until the Broker of this process serves its topics, for a bounded time.

        The ports open even if it does not, because the cluster's health then shows the reason.
        """
        assert self.master is not None
        if self.refused_by_master is None and not await self.master.await_served(self.settings.broker.id):
            logger.warning("the Master opens its ports before Broker %d serves all its topics", self.settings.broker.id)
        if self._before_open is not None:
            await self._before_open(self)

    async def _open_ports(self) -> None:
        """Open the Master's ports, HTTP first, so that a client that waits for the protocol's port finds both open.

        Raises:
            FencedError: its lease ended while it loaded the records.
        """
        assert self.master is not None
        assert self._http is not None
        assert self._elector is not None
        if not self._elector.leads:
            raise await self.until_failed()
        await self._http.start()
        await self.master.open()

    async def _prepare_master(self) -> None:
        from pytubemq.master.service import MasterService, MasterSettings

        section, tls = self.settings.master, self._certificates.rpc
        listen = parse_address("master.listen", section.listen, default_port=DEFAULT_MASTER_PORT)
        directory = make_directory(self.settings.data_dir / "master")
        self._lock = OsDisk().lock(directory / "lock")
        advertised = _optional("master.advertised", section.advertised, DEFAULT_MASTER_PORT)
        database = self._database()
        tls_listen = None if tls is None else Address(listen.host, section.tls_port)
        epoch = await self._lead(database, advertised or listen, listen, tls_listen)
        self.master = MasterService(
            MasterSettings(
                listen=listen,
                advertised=advertised,
                tls_listen=tls_listen,
                opens_plain=self.settings.tls.plain,
                servers_tls=self.settings.tls.to_servers(),
                data_dir=directory,
                database=database,
                epoch=epoch,
                insecure=self.settings.insecure,
                authentication=self.settings.security.authentication,
                root_key=self._root_key(directory),
                audit_days=self.settings.security.audit_days,
                client_timeout_s=section.client_timeout_s,
                consumer_timeout_s=section.consumer_timeout_s,
                producer_timeout_s=section.producer_timeout_s,
                broker_timeout_s=section.broker_timeout_s,
                lost_connection_grace_s=section.lost_connection_grace_s,
                auto_register_brokers=section.auto_register_brokers,
                max_connections=self._shares().connections,
            ),
            clock=self._clock,
            tls=tls,
            leads=lambda: self._elector is not None and self._elector.leads,
        )
        self.master.cluster_health.http_certificate = self._certificates.http
        self._closing.append(("the Master", self.master.close))
        self.master.http_access.oidc = self._oidc()
        await self.master.prepare()
        self.endpoints = Endpoints(master=self._plain(self.master.address), master_tls=_text(self.master.tls_address))
        self._routes = {self.master.address: self.master.route}

    def _database(self) -> StoreOptions | None:
        """Return the database, or the nodes in ZooKeeper, of the Master's records; None if they are in a file."""
        section = self.settings.master
        if section.store == SQLITE:
            return None
        return database_options(section.store, section.store_password_file, os.environ)

    async def _lead(
        self, database: StoreOptions | None, address: Address, listen: Address, tls_listen: Address | None
    ) -> int:
        """Wait until the Master leads, and answer as a standby meanwhile; return its epoch."""
        from pytubemq.master.leader.candidacy import make_elector
        from pytubemq.server.standby import StandbyPorts

        lease_s = self.settings.master.lease_s
        self._elector = await make_elector(database, str(address), lease_s=lease_s, clock=self._clock)
        # After the Master has stopped, as the next one may lead at once.
        self._closing.append(("the election", self._elector.close))
        ports = StandbyPorts(
            listen=listen,
            plain=self.settings.tls.plain,
            tls_listen=tls_listen,
            tls=self._certificates.rpc,
            http_listen=parse_address("http.listen", self.settings.http.listen, default_port=DEFAULT_HTTP_PORT),
            http_tls=self._certificates.http,
            hosts=self.settings.http.hosts,
            max_connections=self._shares().connections,
            max_http_connections=self._shares().http_connections,
        )
        return await ports.lead(self._elector, self._clock)

    def _root_key(self, directory: Path) -> bytes | None:
        """Return the cluster's root key; it is made where callers are identified, and not before."""
        section = self.settings.security
        path = Path(section.key_file).expanduser() if section.key_file else directory / "root.key"
        return load_root_key(path, os.environ, create=section.authentication is not AuthenticationMode.OFF)

    def _oidc(self) -> OidcTokens | None:
        """Return the tokens of the OIDC issuer, whose keys are followed from now on; None where there is none."""
        from pytubemq.master.access.http.oidc import OidcTokens
        from pytubemq.server.keys.oidc_key_file import OidcKeyFile

        section = self.settings.security
        if not section.oidc_issuer:
            return None
        file = OidcKeyFile(Path(section.oidc_keys).expanduser())
        self._certificates.add(file)
        return OidcTokens(section.token_rules(), file, self._clock)

    def _prepare_http(self) -> None:
        from pytubemq.admin.app import create_app
        from pytubemq.admin.figures import metrics_route
        from pytubemq.admin.serving.http import HttpServer
        from pytubemq.admin.webapi.routes import master_routes

        assert self.master is not None
        section = self.settings.http
        listen = parse_address("http.listen", section.listen, default_port=DEFAULT_HTTP_PORT)
        access = self._access(listen)
        http = self.master.http_access
        pages = [*master_routes(self.master, access, http), metrics_route(self.master.facts)]
        self._http = HttpServer(
            create_app(self.master, hosts=[listen.host, *section.hosts], pages=pages, access=access, http=http),
            listen,
            max_connections=self._shares().http_connections,
            tls=self._certificates.http,
        )
        self._closing.append(("HTTP", self._http.close))
        try:
            address = self._http.bind()
        except ConfigError as error:
            raise _cannot_listen("http.listen", listen, error) from error
        self.endpoints = replace(self.endpoints, http=f"{self._scheme}://{address}")

    async def _start_broker(self) -> None:
        from pytubemq.broker.service import BrokerService, BrokerSettings
        from pytubemq.storage.store_settings import StoreSettings

        section, tls = self.settings.broker, self._certificates.rpc
        listen = parse_address("broker.listen", section.listen, default_port=DEFAULT_BROKER_PORT)
        self.broker = BrokerService(
            BrokerSettings(
                broker_id=section.id,
                listen=listen,
                advertised=_optional("broker.advertised", section.advertised, DEFAULT_BROKER_PORT),
                masters=self._masters(),
                data_dir=make_directory(self.settings.data_dir),
                insecure=self.settings.insecure,
                credentials=await self._broker_credentials(),
                requires_access=self.settings.security.authentication is AuthenticationMode.ENFORCED,
                tls_port=section.tls_port or DEFAULT_BROKER_TLS_PORT,
                tls_listen=None if tls is None else Address(listen.host, section.tls_port),
                opens_plain=self.settings.tls.plain,
                servers_tls=self.settings.tls.to_servers(),
                heartbeat_period_s=section.heartbeat_period_s,
                lease_timeout_s=section.lease_timeout_s,
                retention_check_s=section.retention_check_s,
                max_connections=self._shares().connections,
                store=StoreSettings(
                    durability=section.durability,
                    segment_bytes=section.segment_bytes,
                    journal_segment_bytes=section.journal_segment_bytes,
                    reserve_bytes=section.reserve_bytes,
                    check_on_read=section.check_on_read,
                    check_packs_on_read=section.check_packs_on_read,
                    max_open_files=self._shares().log_files,
                ),
            ),
            clock=self._clock,
            disk=self._disk,
            routes=self._routes,
            tls=tls,
        )
        await self._start_broker_http(self.broker)
        self._closing.append((f"Broker {section.id}", self.broker.close))
        await self.broker.start()
        self.endpoints = replace(
            self.endpoints, broker=self._plain(self.broker.address), broker_tls=_text(self.broker.tls_address)
        )

    async def _broker_credentials(self) -> Credentials | None:
        """Return the user as which the Broker registers; None if nobody asks who it is, or none is named.

        Beside a Master of this process it gets a user of its own, with a new secret at each start that is stored
        nowhere else.
        """
        from pytubemq.client.client_credentials import read_credentials

        section = self.settings.security
        if section.user:
            return read_credentials(ClusterUser(section.user, section.secret_file))
        if self.master is None or section.authentication is AuthenticationMode.OFF:
            return None
        name = f"broker-{self.settings.broker.id}"
        secret = await self.master.enroll_broker(name)
        return Credentials(name, secret)

    async def _start_broker_http(self, broker: BrokerService) -> None:
        """Start the Broker's HTTP before the Broker itself, so that a port in use is noticed before it registers."""
        from pytubemq.admin.broker_api.app import create_broker_app
        from pytubemq.admin.serving.http import HttpServer

        text = self.settings.broker.http_listen
        if not text:
            return
        listen = parse_address("broker.http_listen", text, default_port=DEFAULT_BROKER_HTTP_PORT)
        app = create_broker_app(broker, self._access(listen), hosts=[listen.host, *self.settings.http.hosts])
        server = HttpServer(app, listen, max_connections=self._shares().http_connections, tls=self._certificates.http)
        self._closing.append(("the Broker's HTTP", server.close))
        try:
            address = await server.start()
        except ConfigError as error:
            raise _cannot_listen("broker.http_listen", listen, error, ", or to nothing to do without") from error
        broker.web_port, broker.http_certificate = address.port, self._certificates.http
        self.endpoints = replace(self.endpoints, broker_http=f"{self._scheme}://{address}")

    def _access(self, listen: Address) -> Access:
        """Return the conditions for changes through a page that listens on this address."""
        from pytubemq.admin.webapi.authorization import Access

        section = self.settings.http
        return Access(
            section.token.strip(),
            in_url=section.token_in_url,
            local=is_loopback(listen.host),
            exposure=exposure(self.settings),
        )

    def _plain(self, address: Address) -> str | None:
        """Return an address without TLS; None where it is not opened."""
        return str(address) if self.settings.tls.plain else None

    @property
    def _scheme(self) -> str:
        return "http" if self._certificates.http is None else "https"

    def _shares(self) -> Shares:
        http_servers = (Role.MASTER in self.roles) + (
            Role.BROKER in self.roles and bool(self.settings.broker.http_listen)
        )
        return shares(file_limit(), servers=len(self.roles), http_servers=http_servers)

    def _masters(self) -> tuple[Address, ...]:
        """Return the named Masters; else the one in this process; else the address where it would listen."""
        over_tls = bool(self.settings.tls.ca)
        if self.settings.broker.masters:
            texts = self.settings.broker.masters
        elif self.master is not None:
            texts = [str(self.master.address)]
        else:
            named = self.settings.master.advertised or self.settings.master.listen
            host = parse_address("master.listen", named, default_port=DEFAULT_MASTER_PORT).host
            texts = [str(Address(host, self.settings.master.tls_port))] if over_tls else [named]
        port = DEFAULT_MASTER_TLS_PORT if over_tls else DEFAULT_MASTER_PORT
        return tuple(parse_address("broker.masters", text, default_port=port) for text in texts)


def _text(address: Address | None) -> str | None:
    return None if address is None else str(address)


def _cannot_listen(key: str, listen: Address, error: ConfigError, more: str = "") -> ConfigError:
    """Return the error of an HTTP server with its setting, and with the process that has the port, if it is known."""
    owner = port_owner(listen.port)
    by = f" by {owner}" if owner else ""
    return ConfigError(
        f"{key}: {error.message}{by}", hint=f"stop what uses the port, or set {key} to another one{more}"
    )


def _optional(key: str, text: str, default_port: int) -> Address | None:
    return parse_address(key, text, default_port=default_port) if text else None
