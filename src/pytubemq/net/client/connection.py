"""The client's side of one connection: requests out, responses matched by serial number.

The invariants: every call ends, with its response, with an error, or by its deadline; a call that reached its deadline
is forgotten, and a late response to it is dropped; a connection on which calls reach their deadlines while no byte
arrives is given up, so that the next call gets another.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from pytubemq.errors import (
    ConnectionLostError,
    EnvelopeError,
    FrameError,
    TlsError,
    TubeError,
    UnreachableError,
)
from pytubemq.model.limits import (
    BLOCK_BYTES,
    CONNECT_TIMEOUT_S,
    MAX_FRAME_BYTES,
    SILENT_CONNECTION_S,
    TLS_CLOSE_TIMEOUT_S,
    VANISHED_PEER_S,
)
from pytubemq.net.client.pending_calls import PendingCall, PendingCalls, PendingRun
from pytubemq.net.outbox import Outbox
from pytubemq.net.sockets import close_once, watch_peer
from pytubemq.net.tls.failures import is_tls_failure, no_connection, no_handshake
from pytubemq.net.tls.reload import client_tls
from pytubemq.wire.protocol.extensions import OURS, Capability
from pytubemq.wire.rpc.envelope import Response, encode_request
from pytubemq.wire.rpc.methods import METHODS
from pytubemq.wire.rpc.stream import ResponseStream
from pytubemq.wire.serialization.message_bytes import decode, encode

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable, Sequence

    from pytubemq.model.ids import Address
    from pytubemq.model.tls_options import TlsOptions

logger = logging.getLogger(__name__)

T = TypeVar("T")

Route: TypeAlias = "Callable[[], Awaitable[socket.socket]]"
"""A function that opens a connection to a server in this process, as `RpcServer.connect_inside` does."""

_SWEEP_S = 0.1
_HELD_UP_S = 0.5
"""The delay of a sweep from which the loop was evidently busy with something else."""
_SERIAL_MASK = 0x7FFFFFFF


class RpcConnection(asyncio.Protocol):
    """A connection to a Master or a Broker, shared by everything in this process that talks to it."""

    def __init__(self, peer: Address, *, capabilities: Capability = OURS) -> None:
        """Create a connection; callers use `connect`.

        `capabilities` are announced to the peer; `Capability(0)` speaks as the original does."""
        self.peer = peer
        self.capabilities = Capability(0)
        self.closed = False
        self.lost: asyncio.Future[TubeError | None] = asyncio.get_running_loop().create_future()
        """Done when the connection has ended, with the reason if there is one."""
        self.disconnected: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when its socket is closed, too; over TLS that comes later, since the peer has to respond."""
        self._offer: int | None = int(capabilities) or None
        self._block_bytes: int | None = BLOCK_BYTES
        self._loop = asyncio.get_running_loop()
        self._stream = ResponseStream(self._response_bytes)
        self._offered = 0
        """The serial number of the last request that showed our capabilities."""
        self._pending_calls = PendingCalls(peer, self._learn)
        self._serial = 0
        self._transport: asyncio.Transport | None = None
        self._outbox: Outbox | None = None
        self._sweep_handle: asyncio.TimerHandle | None = None
        self._sweep_due_s = 0.0
        self._heard_s = 0.0
        """When the last byte arrived."""
        self._used_s = self._loop.time()
        """When the last request was sent."""
        self._unanswered_since_s: float | None = None
        """When the first request after that byte was sent."""
        self._refusal: TlsError | None = None
        """The reason why the peer refused TLS after the handshake; None if it did not."""

    @classmethod
    async def connect(
        cls,
        peer: Address,
        *,
        timeout_s: float = CONNECT_TIMEOUT_S,
        capabilities: Capability = OURS,
        route: Route | None = None,
        tls: TlsOptions | None = None,
    ) -> RpcConnection:
        """Open a connection, over `route` if the peer is in this process, else over TLS if there are options for it.

        Raises:
            UnreachableError: refused, unknown host, or nothing within `timeout_s`.
            TlsError: the handshake failed.
            ConfigError: a file of the TLS options cannot be used.
        """
        loop = asyncio.get_running_loop()
        secure: dict[str, Any] = {}
        if tls is not None and route is None:
            secure = {
                "ssl": client_tls(tls),
                "server_hostname": tls.server_name or peer.host,
                "ssl_handshake_timeout": timeout_s + 1.0,  # `timeout_s` ends it before
                "ssl_shutdown_timeout": TLS_CLOSE_TIMEOUT_S,
            }
        try:
            async with asyncio.timeout(timeout_s):
                if route is not None:
                    _, connection = await loop.create_unix_connection(
                        lambda: cls(peer, capabilities=capabilities), sock=await route()
                    )
                else:
                    _, connection = await loop.create_connection(
                        lambda: cls(peer, capabilities=capabilities), peer.host, peer.port, **secure
                    )
        except TimeoutError as error:
            if secure:
                raise no_handshake(peer, f"nothing responds within {timeout_s:g} s") from error
            raise UnreachableError(f"nothing responds at {peer} within {timeout_s:g} s") from error
        except OSError as error:
            if is_tls_failure(error):
                raise no_connection(peer, error) from error
            if secure and isinstance(error, ConnectionResetError | ConnectionAbortedError):
                raise no_handshake(peer, "it closed the connection during the handshake") from error
            raise UnreachableError(f"cannot connect to {peer}: {_reason(error)}") from error
        except (ValueError, OverflowError) as error:  # no name that can be looked up, no number that is a port
            raise UnreachableError(
                f"cannot connect to {str(peer)!r:.200}: the address is not valid",
                hint="check the addresses that the Master has for its Brokers (`pytubemq cluster info`)",
            ) from error
        return connection

    # --- calls ----------------------------------------------------------------------------------------------

    def call(
        self, method: int, service: int, body: bytes | Sequence[bytes], *, timeout_s: float
    ) -> asyncio.Future[Response]:
        """Send a request; the future gets its response.

        Raises (through the future): ConnectionLostError, RequestTimeoutError, RemoteError, StandbyError.
        """
        future: asyncio.Future[Response] = self._loop.create_future()
        self._send_request(method, service, body, timeout_s, partial(_settle, future), future)
        return future

    def send_request(
        self,
        method: int,
        service: int,
        body: bytes | Sequence[bytes],
        *,
        timeout_s: float,
        done: Callable[[Response | TubeError], None],
    ) -> None:
        """Send a request; call `done` once with its response or the error of `call`, from the loop, after this returns.

        It costs less than a future, for callers with a hundred thousand requests a second."""
        self._send_request(method, service, body, timeout_s, done, None)

    def _send_request(
        self,
        method: int,
        service: int,
        body: bytes | Sequence[bytes],
        timeout_s: float,
        done: Callable[[Response | TubeError], None],
        future: asyncio.Future[Response] | None,
    ) -> None:
        outbox = self._outbox
        if self.closed or outbox is None:
            closed = self._closed_error()
            if future is not None:
                future.set_exception(closed)
            else:
                self._loop.call_soon(done, closed)
            return
        serial = self._serial = self._serial % _SERIAL_MASK + 1
        offer = None
        if not self._pending_calls.known:
            # Announced until the peer has responded to such a request: the first one may be answered last, or never.
            offer = self._offer
            self._offered = serial
        outbox.put(
            encode_request(
                serial,
                service=service,
                method=method,
                timeout_ms=max(1, int(timeout_s * 1000)),
                body=(body,) if isinstance(body, bytes) else body,
                capabilities=offer,
                block_bytes=self._block_bytes,
            )
        )
        now_s = self._used_s = self._loop.time()
        if self._unanswered_since_s is None:
            self._unanswered_since_s = now_s
        call = tuple.__new__(PendingCall, (done, now_s + timeout_s, timeout_s, method, future))
        self._pending_calls.add(serial, call)
        if self._sweep_handle is None:
            self._sweep_soon(now_s)

    def send_requests(
        self,
        method: int,
        count: int,
        write: Callable[[int], list[bytes]],
        *,
        timeout_s: float,
        on_responses: Callable[[int, Sequence[Response]], None],
        on_error: Callable[[int, TubeError], None],
    ) -> None:
        """Send `count` requests of one method at once, on a connection that `knows_capabilities`.

        `write` returns their frames, given the first serial number; the others' follow. `on_responses` is called with
        that number and responses as they arrive, `on_error` with the number of a request, from 0, and the error of
        `call`: one or the other once for each request, as `send_request` does.
        """
        outbox = self._outbox
        if self.closed or outbox is None:
            closed = self._closed_error()
            for number in range(count):
                self._loop.call_soon(on_error, number, closed)
            return
        first = self._serial + 1 if self._serial + count <= _SERIAL_MASK else 1
        self._serial = first + count - 1
        outbox.put((b"".join(write(first)),))
        now_s = self._used_s = self._loop.time()
        if self._unanswered_since_s is None:
            self._unanswered_since_s = now_s
        run = PendingRun(first, count, partial(on_responses, first), on_error)
        self._pending_calls.add_run(run, PendingCall(run, now_s + timeout_s, timeout_s, method, None))
        if self._sweep_handle is None:
            self._sweep_soon(now_s)

    def flush(self) -> None:
        """Send the requests so far, without waiting for the end of the loop turn."""
        if self._outbox is not None and not self.closed:
            self._outbox.flush()

    async def request(
        self, message: object, response_type: type[T], method: int, service: int, *, timeout_s: float
    ) -> T:
        """Encode, call, decode. The business code inside the response is the caller's to check."""
        response = await self.call(method, service, encode(message), timeout_s=timeout_s)
        return decode(response_type, response.body)

    @property
    def knows_capabilities(self) -> bool:
        """True if `capabilities` is known: a request that announced ours has its response."""
        return self._pending_calls.known

    @property
    def block_bytes(self) -> int | None:
        """The most bytes in a block of a frame; None if the peer accepts any."""
        return self._block_bytes

    @property
    def local_host(self) -> str:
        """Our own address as this peer sees it (unless something translates addresses in between)."""
        name = self._transport.get_extra_info("sockname") if self._transport is not None else None
        return str(name[0]) if name else "127.0.0.1"

    @property
    def idle_s(self) -> float:
        """The time without a request or an expected response, in seconds."""
        return 0.0 if self._pending_calls else self._loop.time() - self._used_s

    @property
    def in_flight(self) -> int:
        """The number of calls without a response."""
        return len(self._pending_calls)

    async def close(self) -> None:
        """Close; calls without a response fail with ConnectionLostError. Idempotent."""
        if self._outbox is not None and not self.closed:
            self._outbox.flush()
        self.drop()
        if self._transport is None:
            return
        await asyncio.wait([self.disconnected], timeout=TLS_CLOSE_TIMEOUT_S)
        if not self.disconnected.done():
            self._transport.abort()
            await asyncio.wait([self.disconnected], timeout=TLS_CLOSE_TIMEOUT_S)

    def drop(self) -> None:
        """Close without waiting for the end of it; calls without a response fail."""
        self._end(None)
        if self._transport is not None:
            close_once(self._transport)

    # --- asyncio calls these --------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        watch_peer(self._transport, gone_after_s=VANISHED_PEER_S)
        self._outbox = Outbox(self._transport, self._loop)

    def data_received(self, data: bytes) -> None:
        self._heard_s = self._loop.time()
        self._unanswered_since_s = None
        try:
            self._pending_calls.complete_all(self._stream.feed_responses(data))
        except (FrameError, EnvelopeError) as error:
            logger.warning("closing the connection to %s: %s", self.peer, error)
            self._end(error)
            if self._transport is not None:
                self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None and is_tls_failure(exc):  # TLS 1.3 shows a refused certificate after the handshake only
            self._end(no_connection(self.peer, exc))
        else:
            self._end(ConnectionLostError(f"the connection to {self.peer} broke: {exc}") if exc else None)
        if not self.disconnected.done():
            self.disconnected.set_result(None)

    # --- inside ---------------------------------------------------------------------------------------------

    def _response_bytes(self, serial: int) -> int:
        """Return how large the response to a call may be; a response to a call that has ended is never decoded."""
        method = self._pending_calls.method_of(serial)
        return MAX_FRAME_BYTES if method is None or method not in METHODS else METHODS[method].response_bytes

    def _learn(self, response: Response) -> None:
        """Record the peer's capabilities, which its first response carries."""
        if response.capabilities is not None:
            self._pending_calls.known = True
            self.capabilities = Capability(response.capabilities) & OURS
            if Capability.BIG_BLOCKS in self.capabilities:
                self._block_bytes = None
        elif response.serial <= self._offered or self._offer is None:
            self._pending_calls.known = True

    def _sweep_soon(self, now_s: float) -> None:
        self._sweep_due_s = now_s + _SWEEP_S
        self._sweep_handle = self._loop.call_later(_SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        self._sweep_handle = None
        now_s = self._loop.time()
        if now_s - self._sweep_due_s > _HELD_UP_S:
            late_s = now_s - self._sweep_due_s
            self._pending_calls.allow_for(late_s)
            if self._unanswered_since_s is not None:
                self._unanswered_since_s += late_s
        silent = self._pending_calls.expire(now_s, heard_s=self._heard_s)
        silent_s = now_s - self._unanswered_since_s if silent and self._unanswered_since_s is not None else 0.0
        if silent and silent_s >= SILENT_CONNECTION_S:
            self._give_up(silent_s)
        elif not self._pending_calls:
            self._unanswered_since_s = None
        elif not self.closed:
            self._sweep_soon(now_s)

    def _give_up(self, silent_s: float) -> None:
        """Give up the connection: a long poll ends before its call's deadline, so the peer is not there."""
        logger.warning("closing the connection to %s: no response and no byte for %.1f s", self.peer, silent_s)
        self._end(ConnectionLostError(f"nothing was received from {self.peer} for {silent_s:.1f} s"))
        if self._transport is not None:
            self._transport.abort()

    def _closed_error(self) -> TubeError:
        """Return the error of a request on a closed connection, which a server that refused TLS never took."""
        if self._refusal is not None:
            return TlsError(self._refusal.message, hint=self._refusal.hint)
        return ConnectionLostError(f"the connection to {self.peer} is closed")

    def _end(self, reason: TubeError | None) -> None:
        if self.closed:
            return
        self.closed = True
        self._refusal = reason if isinstance(reason, TlsError) else None
        if self._sweep_handle is not None:
            self._sweep_handle.cancel()
        self._pending_calls.end(reason, self._loop)
        if not self.lost.done():
            self.lost.set_result(reason)


def _settle(future: asyncio.Future[Response], result: Response | TubeError) -> None:
    if future.done():
        return
    if isinstance(result, TubeError):
        future.set_exception(result)
    else:
        future.set_result(result)


def _reason(error: OSError) -> str:
    """Return the system's text for an error, not asyncio's: `Connection refused`."""
    numbers = [str(error.errno)] if error.errno else re.findall(r"\[Errno (\d+)\]", str(error))
    if "Connect call failed" in str(error) and numbers:
        return ", ".join(dict.fromkeys(os.strerror(int(number)) for number in numbers))
    return str(error.strerror or error)
