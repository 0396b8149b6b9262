"""A real cluster inside a program: the same roles as `server run`, in this process or with Brokers as children.

The invariants: when `async with` is entered, every Broker is registered and a topic can be created; when it is left,
nothing runs any more, and a temporary directory is gone.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pytubemq.errors import ConfigError
from pytubemq.model.policy import policy_of_retention
from pytubemq.net.iothread import IoThread
from pytubemq.server.compose import Endpoints, Node, Role
from pytubemq.server.processes import ServerProcess
from pytubemq.server.sources import load_settings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from pytubemq.server.settings import Settings
    from pytubemq.storage.disk.disk import Disk

T = TypeVar("T")

ANY_PORT = "127.0.0.1:0"


class EmbeddedCluster:
    """One Master with its HTTP, and one Broker or more, on free ports of this machine.

    Args:
        data_dir: the directory of all data, which stays; None uses a temporary directory that is removed at the end.
        brokers: how many; their ids are 1, 2, ...
        broker_in_child: run Brokers as child processes, so that they can be killed.
        settings: settings over the defaults by dotted name, as in `{"broker.durability": "process"}`.
        disk: the disk of Brokers in this process, for tests that need a bad one.
    """

    def __init__(
        self,
        *,
        data_dir: Path | None = None,
        brokers: int = 1,
        broker_in_child: bool = False,
        settings: Mapping[str, object] | None = None,
        disk: Disk | None = None,
    ) -> None:
        if broker_in_child and disk is not None:
            raise ConfigError("a Broker in a child process takes no disk", hint="leave out broker_in_child or disk")
        self.data_dir = data_dir or Path()
        self._data_dir = data_dir
        self._temporary: Path | None = None
        self._brokers = brokers
        self._in_child = broker_in_child
        self._overrides = dict(settings or {})
        self._disk = disk
        self._master: Node | None = None
        self._running: dict[int, Node | ServerProcess] = {}
        self._addresses: dict[int, str] = {}
        self._tls_ports: dict[int, str] = {}

    @property
    def master(self) -> str:
        """The Master's `host:port`, as `connect` accepts it."""
        return _known(self._endpoints.master)

    @property
    def master_tls(self) -> str:
        """The Master's `host:port` for TLS; ConfigError without `tls.cert` in the settings."""
        return _known(self._endpoints.master_tls)

    @property
    def http(self) -> str:
        """URL of the JSON API."""
        return _known(self._endpoints.http)

    @property
    def brokers(self) -> Mapping[int, str]:
        """`host:port` of each Broker by its id."""
        return dict(self._addresses)

    @property
    def broker_pages(self) -> Mapping[int, str]:
        """URL of each running Broker's `/broker.htm` by its id."""
        return {
            broker_id: f"{broker.endpoints.broker_http}/broker.htm"
            for broker_id, broker in self._running.items()
            if broker.endpoints.broker_http is not None
        }

    async def start(self) -> EmbeddedCluster:
        """Start Master and Brokers."""
        if self._data_dir is None:
            self._temporary = Path(tempfile.mkdtemp(prefix="pytubemq-"))
        self.data_dir = self._temporary or self.data_dir
        try:
            self._master = Node(self._settings({}), frozenset({Role.MASTER}))
            await self._master.start()
            for broker_id in range(1, self._brokers + 1):
                await self._start_broker(broker_id)
        except BaseException:
            await self.close()
            raise
        return self

    async def close(self) -> None:
        """Stop all. Idempotent."""
        running, self._running = self._running, {}
        await asyncio.gather(*(broker.close() for broker in running.values()))
        master, self._master = self._master, None
        if master is not None:
            await master.close()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None

    async def create_topic(
        self, name: str, *, partitions: int = 4, durability: str | None = None, retention: str | None = None
    ) -> None:
        """Create a topic on every Broker; it can be used when this returns.

        `durability` is disk, process or memory, `retention` as in `72h,10GB` or `forever`.
        """
        if self._master is None or self._master.master is None:
            raise ConfigError("the cluster is not running", hint="use it inside `async with`")
        policy = None if retention is None else policy_of_retention(retention)
        await self._master.master.create_topic(name, partitions, delete_policy=policy, durability=durability)

    def child(self, broker_id: int = 1) -> int | None:
        """The process id of a Broker that runs as a child process; None when there is no such child."""
        broker = self._running.get(broker_id)
        return broker.pid if isinstance(broker, ServerProcess) else None

    async def kill_broker(self, broker_id: int = 1) -> None:
        """SIGKILL a Broker that runs as a child process."""
        broker = self._running.get(broker_id)
        if not isinstance(broker, ServerProcess):
            raise ConfigError(
                f"Broker {broker_id} is not a child process and cannot be killed", hint="set broker_in_child=True"
            )
        await broker.kill()

    async def stop_broker(self, broker_id: int = 1) -> None:
        """Stop a Broker cleanly."""
        await self._running.pop(broker_id).close()

    async def restart_broker(self, broker_id: int = 1) -> None:
        """Start a Broker again, on its address and its data; stops it first when it runs."""
        broker = self._running.get(broker_id)
        if isinstance(broker, ServerProcess):
            await broker.restart()
            return
        if broker is not None:
            await self.stop_broker(broker_id)
        await self._start_broker(broker_id)

    async def __aenter__(self) -> EmbeddedCluster:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def _endpoints(self) -> Endpoints:
        return self._master.endpoints if self._master is not None else Endpoints()

    def _settings(self, more: Mapping[str, object]) -> Settings:
        base: dict[str, object] = {"data": str(self.data_dir), "log.level": "warning"}
        base |= dict.fromkeys(("master.listen", "broker.listen", "http.listen", "broker.http_listen"), ANY_PORT)
        if "tls.cert" in self._overrides:
            base |= {"master.tls_port": 0, "broker.tls_port": 0}
        return load_settings(None, environ={}, flags={**base, **self._overrides, **more})

    async def _start_broker(self, broker_id: int) -> None:
        # Registered before it is started, so that a failed start leaves nothing behind.
        masters = [self.master_tls if "tls.ca" in self._overrides else self.master]
        more: dict[str, object] = {"broker.id": broker_id, "broker.masters": masters}
        if broker_id in self._tls_ports:
            more["broker.tls_port"] = int(self._tls_ports[broker_id].rpartition(":")[2])
        if broker_id in self._addresses:
            more["broker.listen"] = self._addresses[broker_id]
        elif self._brokers > 1:
            more["broker.listen"] = ANY_PORT
        settings = self._settings(more)
        broker: Node | ServerProcess
        if self._in_child:
            broker = ServerProcess("broker", settings, name=f"broker-{broker_id}-process")
        else:
            broker = Node(settings, frozenset({Role.BROKER}), disk=self._disk)
        self._running[broker_id] = broker
        endpoints = await broker.start()
        if endpoints.broker is not None:  # without a plain port it has an address over TLS alone
            self._addresses[broker_id] = endpoints.broker
        if endpoints.broker_tls is not None:
            self._tls_ports[broker_id] = endpoints.broker_tls


class ThreadedCluster:
    """An `EmbeddedCluster` for programs without an event loop: it runs on a thread of its own."""

    def __init__(
        self,
        *,
        data_dir: Path | None = None,
        brokers: int = 1,
        broker_in_child: bool = False,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        self._cluster = EmbeddedCluster(
            data_dir=data_dir, brokers=brokers, broker_in_child=broker_in_child, settings=settings
        )
        self._thread: IoThread | None = None

    @property
    def master(self) -> str:
        """`host:port` of the Master, as `connect` takes it."""
        return self._cluster.master

    @property
    def master_tls(self) -> str:
        """The Master's `host:port` for TLS; ConfigError without `tls.cert` in the settings."""
        return self._cluster.master_tls

    @property
    def http(self) -> str:
        """URL of the JSON API."""
        return self._cluster.http

    @property
    def brokers(self) -> Mapping[int, str]:
        """`host:port` of each Broker by its id."""
        return self._cluster.brokers

    @property
    def broker_pages(self) -> Mapping[int, str]:
        """URL of each running Broker's `/broker.htm` by its id."""
        return self._cluster.broker_pages

    @property
    def data_dir(self) -> Path:
        """The data directory."""
        return self._cluster.data_dir

    def start(self) -> ThreadedCluster:
        """Start Master and Brokers."""
        self._thread = IoThread(name="pytubemq-cluster")
        try:
            self._thread.run(self._cluster.start())
        except BaseException:
            self._thread.close()
            raise
        return self

    def close(self) -> None:
        """Stop all. Idempotent."""
        thread, self._thread = self._thread, None
        if thread is not None:
            try:
                thread.run(self._cluster.close())
            finally:
                thread.close()

    def create_topic(
        self, name: str, *, partitions: int = 4, durability: str | None = None, retention: str | None = None
    ) -> None:
        """Create a topic on every Broker; it can be used when this returns. As in `EmbeddedCluster`."""
        self._io.run(
            self._cluster.create_topic(name, partitions=partitions, durability=durability, retention=retention)
        )

    def kill_broker(self, broker_id: int = 1) -> None:
        """SIGKILL a Broker that runs as a child process."""
        self._io.run(self._cluster.kill_broker(broker_id))

    def restart_broker(self, broker_id: int = 1) -> None:
        """Start a Broker again, on its address and its data."""
        self._io.run(self._cluster.restart_broker(broker_id))

    def __enter__(self) -> ThreadedCluster:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _io(self) -> IoThread:
        if self._thread is None:
            raise ConfigError("the cluster is not running", hint="use it inside `with`")
        return self._thread


def _known(value: T | None) -> T:
    if value is None:
        raise ConfigError("the cluster is not running", hint="use it inside `async with`")
    return value
