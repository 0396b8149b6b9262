"""The server's side of the protocol: accepts connections, passes calls to handlers, sends their responses.

The invariants: a fault in a frame closes that connection with one line in the log and affects no other; a fault in an
envelope or an unknown method gets a response and the connection stays; every wait for a peer is bounded; a response
after its caller's deadline is dropped and counted, never sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import socket
import sys
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from pytubemq.errors import ConfigError
from pytubemq.model.limits import (
    FRAME_TIMEOUT_S,
    IDLE_TIMEOUT_S,
    MAX_BUFFERED_BYTES,
    MAX_CALL_BYTES,
    MAX_CONNECTIONS,
    MAX_UNSENT_TOTAL_BYTES,
    MIB,
    REFUSALS_SHOWN_S,
    SILENT_UNTIL_CLOSED_S,
    TLS_HANDSHAKE_TIMEOUT_S,
)
from pytubemq.net.clock import Clock, SystemClock
from pytubemq.net.server.connection import ServerConnection
from pytubemq.net.server.hosts import Hosts
from pytubemq.net.server.listening import BACKLOG, ListeningSocket, address_of, bind, open_port
from pytubemq.net.server.peer_warnings import PeerWarnings
from pytubemq.net.server.response_budget import ResponseBudget
from pytubemq.net.server.serving_turns import ServingTurns
from pytubemq.net.server.stats import ServerStats
from pytubemq.net.server.tls_listener import TlsListener
from pytubemq.net.tls.reload import trouble_of
from pytubemq.wire.protocol.extensions import OURS, Capability
from pytubemq.wire.rpc.methods import METHODS

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from pytubemq.model.ids import Address
    from pytubemq.net.server.call import Call, Handler
    from pytubemq.net.server.call_run import RunHandler
    from pytubemq.net.server.hosts import Host
    from pytubemq.net.tls.reload import ReloadingContext

logger = logging.getLogger(__name__)

SWEEP_PERIOD_S = 1.0
STANDING_FRAME_S: Final = 1.0
"""How long a frame has not grown whose connection is closed first when too much is buffered."""
LEAST_PEAK_BYTES: Final = 64 * MIB
"""The least peak of buffered bytes after which returning memory is worth its cost."""


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Bounds on what the peers of one server may use together, and on how long it waits for each of them."""

    frame_timeout_s: float = FRAME_TIMEOUT_S
    """The longest time from the first byte of a frame to its last."""
    idle_timeout_s: float = IDLE_TIMEOUT_S
    """The longest silence of a connection without an open call."""
    handshake_timeout_s: float = TLS_HANDSHAKE_TIMEOUT_S
    """The longest time from the accepting of a connection at the TLS port to the end of its handshake."""
    max_connections: int = MAX_CONNECTIONS
    max_buffered_bytes: int = MAX_BUFFERED_BYTES
    """Bytes of unanswered calls, of incomplete frames, and of requests that were put off."""
    max_call_bytes: int = MAX_CALL_BYTES
    """The part of these in unanswered calls beyond which each connection may only have its share."""
    max_unsent_bytes: int = MAX_UNSENT_TOTAL_BYTES
    """Bytes of responses that peers have not received."""


DEFAULT_LIMITS: Final = ServerLimits()


class RpcServer:
    """A server of a table of handlers on one listening address, and on a second one over TLS if it has one."""

    def __init__(
        self,
        handlers: Mapping[int, Handler],
        *,
        offered: frozenset[int],
        name: str,
        run_handlers: Mapping[int, RunHandler] | None = None,
        on_connection_lost: Callable[[ServerConnection], None] | None = None,
        capabilities: Capability = OURS,
        clock: Clock | None = None,
        limits: ServerLimits = DEFAULT_LIMITS,
    ) -> None:
        """Serve `offered`, the service types (1 Master, 2 Broker read, 3 Broker write) of this server.

        `run_handlers` may serve several requests of a method at once."""
        self.handlers = handlers
        self.run_handlers = run_handlers or {}
        self.offered = offered
        self.name = name
        self.capabilities = capabilities
        self.capability_bits = int(capabilities)
        """Our capabilities as responses carry them."""
        self.served = frozenset(
            (method, int(service)) for method, spec in METHODS.items() for service in spec.services & offered
        )
        """The pairs of method and service that requests may have here."""
        self.request_bytes: Mapping[int, int] = {
            method: spec.request_bytes for method, spec in METHODS.items() if spec.services & offered
        }
        """The largest request frame of each method that is served here."""
        self.clock = clock or SystemClock()
        self.stats = ServerStats()
        self._warnings = PeerWarnings(logger, name)
        self.faults = PeerWarnings(logger, name)
        self.connections: set[ServerConnection] = set()
        self._silent: deque[ServerConnection] = deque()
        """Silent connections, found when all slots were in use, the longest silent first."""
        self.responses = ResponseBudget(max_bytes=limits.max_unsent_bytes)
        self._peak_held_bytes = 0
        self._refusals = 0
        """Refused connections, each within `REFUSALS_SHOWN_S` of the one before."""
        self._refused_s = float("-inf")
        self._on_connection_lost = on_connection_lost
        self._limits = limits
        self.hosts = Hosts()
        self.turns = ServingTurns(self.clock)
        self.buffered_bytes = 0
        """The bytes of unanswered calls and of what is not served yet, of all connections."""
        self.unserved_bytes = 0
        """The part of these in incomplete frames and requests that were put off."""
        self.watched_bytes = min(limits.max_buffered_bytes, limits.max_call_bytes)
        """The bytes beyond which `limit_buffers` is called when more are buffered."""
        self.is_crowded = False
        """True while open calls take so much that each connection may only have its share."""
        self._divided_bytes = 0
        """The bytes of open calls when they were last divided."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._socket: ListeningSocket | None = None
        self._tls_listener: TlsListener | None = None
        self._sweeper: asyncio.Task[None] | None = None

    async def start(self, listen: Address) -> Address:
        """Bind and open the port; port 0 picks a free one. Return the address in use.

        Raises:
            ConfigError: the address is in use or not of this machine.
        """
        address = await self.bind(listen)
        await self.open()
        return address

    async def bind(self, listen: Address) -> Address:
        """Reserve the port without opening it; port 0 picks a free one. Return the address in use.

        Until `open`, only connections from `connect_inside` are served.

        Raises:
            ConfigError: the address is in use or not of this machine.
        """
        self._check_version(listen)
        loop = asyncio.get_running_loop()
        self._socket = bind(listen, name=self.name)
        self._server = await loop.create_server(
            lambda: ServerConnection(self), sock=self._socket, backlog=BACKLOG, start_serving=False
        )
        self._sweeper = loop.create_task(self._sweep())
        return address_of(self._socket)

    def bind_tls(self, listen: Address, tls: ReloadingContext) -> Address:
        """Reserve a second port, over TLS, for the same handlers and within the same limits, as `bind` does.

        Raises:
            ConfigError: the address is in use or not of this machine.
        """
        self._check_version(listen)
        bound = bind(listen, name=f"{self.name} (TLS)")
        self._tls_listener = TlsListener(self, bound, tls, timeout_s=self._limits.handshake_timeout_s)
        self.stats.certificate_expires_s = tls.expires_s
        return self._tls_listener.address

    async def open(self, *, plain: bool = True) -> None:
        """Open the ports that `bind` and `bind_tls` reserved; without `plain` the first one stays closed.

        Raises:
            ConfigError: another program has begun to listen there meanwhile.
        """
        assert self._server is not None
        assert self._socket is not None
        if self._tls_listener is not None:
            self._tls_listener.open()
        if not plain:  # the port stays bound: it is a part of the server's name in the protocol
            return
        open_port(self._socket, name=self.name)
        await self._server.start_serving()

    async def connect_inside(self) -> socket.socket:
        """Return one end of a connection whose other end this server serves, for a client in the same process.

        It needs no port, so it also works before `open`.
        """
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        await asyncio.get_running_loop().connect_accepted_socket(lambda: ServerConnection(self), theirs)
        return ours

    async def close(self, *, grace_s: float = 1.0) -> None:
        """Stop listening, let running calls finish for `grace_s`, then close every connection. Idempotent."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        if self._tls_listener is not None:
            await self._tls_listener.close()
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=grace_s)
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._sweeper is not None:
            self._sweeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._sweeper
            self._sweeper = None
        for connection in list(self.connections):
            connection.close()
        # One turn of the loop for the transports to hand over what they hold and to report their end.
        await asyncio.sleep(0)
        for connection in list(self.connections):
            connection.abort()

    def admit(self, connection: ServerConnection) -> bool:
        """Register a new connection; return False if there are too many and none can make room for it."""
        is_full = len(self.connections) >= self._limits.max_connections
        if self._server is None or (is_full and not self._make_room(connection.host)):
            now_s = self.clock.now_s()
            self.stats.refused += 1
            if self._server is not None:
                self._refusals = self._refusals + 1 if now_s - self._refused_s < REFUSALS_SHOWN_S else 1
                self._refused_s = now_s
            self._warnings.warning(
                f"connection from {connection.peer} refused: {len(self.connections)} are open, the limit", now_s
            )
            return False
        self.connections.add(connection)
        connection.host = self.hosts.enter(connection.host.name, connection)
        self.stats.accepted += 1
        self.stats.connections = len(self.connections)
        return True

    @property
    def problem(self) -> str | None:
        """The reason why new connections are refused, or were within the last `REFUSALS_SHOWN_S`; None otherwise."""
        is_recent = self.clock.now_s() - self._refused_s < REFUSALS_SHOWN_S
        refused = f"{self._refusals if is_recent else 0} were refused lately, {self.stats.refused} since the start"
        if len(self.connections) >= self._limits.max_connections:
            return f"all {self._limits.max_connections} connections are in use; {refused}"
        if is_recent:
            return f"all {self._limits.max_connections} connections were in use within the last minute; {refused}"
        return None

    @property
    def certificate_problem(self) -> str | None:
        """The reason why the certificate of the TLS port has to be replaced; None if it need not."""
        return None if self._tls_listener is None else trouble_of(self._tls_listener.certificate)

    def _make_room(self, newcomer: Host) -> bool:
        """Close a connection for one from this host; return False if none is to be closed for it.

        First the oldest without a served request, of the host with most of these; then one that has been silent for
        long; then the least active one of the host with most, if that has clearly more than the newcomer's. A host
        that has clearly less closes none of its own.
        """
        crowding, unused = self.hosts.crowding(newcomer.name), self.hosts.most_unused()
        victim: ServerConnection | None = None
        if unused is not None and (crowding is None or unused.name != newcomer.name):
            victim = cast("ServerConnection", next(iter(unused.unused)))
        while victim is None and self._silent:
            silent = self._silent.popleft()
            if silent in self.connections and self._is_silent(silent, self.clock.now_s()):
                victim = silent
        if victim is None and crowding is not None:
            victim = cast("ServerConnection | None", crowding.least_active())
        if victim is None:
            return False
        self.stats.made_room += 1
        self._warnings.warning(
            f"{len(self.connections)} connections are open: closing {victim.peer} to make room",
            self.clock.now_s(),
        )
        self._drop(victim)
        return True

    def _is_silent(self, connection: ServerConnection, now_s: float) -> bool:
        return now_s - connection.last_byte_s > SILENT_UNTIL_CLOSED_S and not connection.open_calls

    def _drop(self, connection: ServerConnection) -> None:
        connection.abort()
        connection.release()
        self.forget(connection)

    def forget(self, connection: ServerConnection) -> None:
        """Forget a connection that has ended; called once for each."""
        if connection not in self.connections:
            return
        self.connections.discard(connection)
        self.hosts.leave(connection.host, connection)
        self.stats.connections = len(self.connections)
        if self._on_connection_lost is not None:
            self._on_connection_lost(connection)

    def limit_buffers(self) -> None:
        """Stop reading from hosts whose open calls take more than their share; close a connection beyond the limit."""
        call_bytes = self.buffered_bytes - self.unserved_bytes
        max_bytes = self._limits.max_call_bytes
        if call_bytes > (self._divided_bytes + max_bytes // 8 if self.is_crowded else max_bytes):
            self._divide_calls(call_bytes)
        if self.buffered_bytes > self._limits.max_buffered_bytes:
            self._shed()

    def _divide_calls(self, call_bytes: int) -> None:
        """Let each connection have its share of open calls, or as many as before once all take little again."""
        max_bytes = self._limits.max_call_bytes
        was_crowded, self.is_crowded = self.is_crowded, call_bytes > max_bytes // 2
        if not (was_crowded or self.is_crowded):
            return
        self._divided_bytes = call_bytes
        self.hosts.share_calls(max_bytes // 2)
        for connection in list(self.connections):
            connection.balance_reading()
        if self.is_crowded and not was_crowded:
            self._warnings.warning(
                f"open calls take {call_bytes} bytes: reading less from hosts with more than their share",
                self.clock.now_s(),
            )

    def _shed(self) -> None:
        """Close a connection of the host that buffers most: one whose frame stands still, or else the largest."""
        host = self.hosts.largest_buffer()
        if host is None:
            return
        now_s = self.clock.now_s()
        # One that was closed in this turn of the loop is still there and holds nothing.
        members = [one for one in cast("dict[ServerConnection, None]", host.connections) if one.buffered_bytes > 0]
        standing = [one for one in members if one.still_s(now_s) > STANDING_FRAME_S]
        victim = max(standing or members, key=lambda connection: connection.buffered_bytes, default=None)
        if victim is None:
            return
        victim.fault(
            f"it has {victim.buffered_bytes} bytes in unfinished or unanswered requests, its host "
            f"{host.buffered_bytes} and all together {self.buffered_bytes}; "
            f"{self._limits.max_buffered_bytes} are allowed"
        )
        victim.abort()
        victim.release()

    def close_slowest_reader(self) -> None:
        """Close the connection of the slowest reader, because far too many responses wait to be read."""
        victim = self.responses.slowest_reader()
        if victim is not None:
            self._close_slow([cast("ServerConnection", victim)])

    def _close_slow(self, slow: Sequence[ServerConnection]) -> None:
        """Close connections whose peers do not read their responses."""
        for connection in slow:
            self.stats.slow_readers += 1
            self._warnings.warning(
                f"closing {connection.peer}: it does not read its responses, {connection.unsent_bytes} bytes wait for "
                f"it and {self.responses.unsent_bytes} for all",
                self.clock.now_s(),
            )
            self._drop(connection)

    def run(self, call: Call, coroutine: Coroutine[Any, Any, None]) -> None:
        """Own a handler's task; its failure becomes the call's response."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._ended(call, done))

    def _ended(self, call: Call, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            call.crash(error)

    def _check_version(self, listen: Address) -> None:
        if ":" in listen.host:
            raise ConfigError(
                f"{self.name} cannot listen on {listen}: the protocol cannot carry an IPv6 address",
                hint="give an IPv4 address, or a host name that has one",
            )

    async def _sweep(self) -> None:
        """End, once a second, connections that stopped within a frame, were silent for long, or do not read."""
        while True:
            await asyncio.sleep(SWEEP_PERIOD_S)
            self._check_connections()

    def _check_connections(self) -> None:
        now_s = self.clock.now_s()
        is_full = len(self.connections) >= self._limits.max_connections
        silent: list[ServerConnection] = []
        for connection in list(self.connections):
            silent_s = now_s - connection.last_byte_s
            if connection.frame_age_s(now_s) > self._limits.frame_timeout_s:
                connection.fault(f"a frame was not completed within {self._limits.frame_timeout_s:g} s")
            elif silent_s > self._limits.idle_timeout_s and not connection.open_calls:
                logger.info("%s: closing %s, silent for %.0f s", self.name, connection.peer, silent_s)
                connection.close()
            elif is_full and self._is_silent(connection, now_s):
                silent.append(connection)
        self._silent = deque(sorted(silent, key=lambda connection: connection.last_byte_s))
        self._close_slow([cast("ServerConnection", reader) for reader in self.responses.slow_readers(now_s)])
        if self.is_crowded:
            self._divide_calls(self.buffered_bytes - self.unserved_bytes)
        self.responses.admit()
        self.stats.unsent_bytes = self.responses.unsent_bytes
        if self._tls_listener is not None:
            self.stats.certificate_expires_s = self._tls_listener.certificate.expires_s
        self._warnings.log_rest(now_s)
        self.faults.log_rest(now_s)
        self._release_free_memory()

    def _release_free_memory(self) -> None:
        """Return free memory to the operating system after a time in which much was buffered."""
        held_bytes = self.buffered_bytes + self.responses.unsent_bytes
        self._peak_held_bytes = max(self._peak_held_bytes, held_bytes)
        if self._peak_held_bytes > LEAST_PEAK_BYTES and held_bytes < self._peak_held_bytes // 4:
            self._peak_held_bytes = held_bytes
            asyncio.get_running_loop().run_in_executor(None, release_free_memory)


def release_free_memory() -> bool:
    """Return freed memory that the C library keeps to the operating system; return True if there was any.

    Nothing depends on it; with another C library nothing happens.

    Small objects that outlive a flood keep its pages from going back (glibc gives back only what lies above the last
    one), so a process stays as large as it ever was. This also returns the pages between them.
    """
    if not sys.platform.startswith("linux"):
        return False
    with contextlib.suppress(OSError, AttributeError, TypeError):  # no such library, or no such function in it
        return bool(ctypes.CDLL(None).malloc_trim(0))
    return False
