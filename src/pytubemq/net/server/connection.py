"""One accepted connection: bytes to calls, responses to bytes, with limits on both.

The invariant: a peer that sends faster than it reads, or requests faster than it is answered, is not read from until
it has caught up; its share of our memory is bounded, individually and together with all others.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

from pytubemq.errors import EnvelopeError, FrameError
from pytubemq.model.limits import (
    BLOCK_BYTES,
    DEFAULT_REQUEST_TIMEOUT_S,
    MAX_CALLS_PER_CONNECTION,
    MAX_REQUEST_TIMEOUT_S,
    MIB,
    SERVING_SLICE_S,
    VANISHED_PEER_S,
)
from pytubemq.net.outbox import Outbox
from pytubemq.net.server.call import Call
from pytubemq.net.server.call_run import CallRun
from pytubemq.net.server.response_budget import COUNTED_BYTES
from pytubemq.net.sockets import watch_peer
from pytubemq.net.tls.contexts import certificate_name
from pytubemq.wire.framing.frame import Frame
from pytubemq.wire.protocol.extensions import Capability
from pytubemq.wire.rpc.envelope import Request, decode_request, encode_exception
from pytubemq.wire.rpc.methods import method_for
from pytubemq.wire.rpc.request_run import RequestRun
from pytubemq.wire.rpc.stream import RequestStream

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from pytubemq.net.clock import Clock
    from pytubemq.net.server.call import Handler
    from pytubemq.net.server.call_run import RunHandler
    from pytubemq.net.server.peer_warnings import PeerWarnings
    from pytubemq.net.server.response_budget import ResponseBudget
    from pytubemq.net.server.stats import ServerStats

_Item: TypeAlias = Request | RequestRun | Frame

NO_CAPABILITY = Capability(0)
_BACKLOG_BYTES = 2 * MIB
_LARGE_BODY_BYTES = 4096
_CLIENT_HELLO = b"\x16\x03"
"""The first bytes of a TLS client."""
_NOT_TLS = b"\x15\x03\x01\x00\x02\x02\x0a"
"""TLS's alert "unexpected message", fatal."""
_MAX_TIMEOUT_MS = MAX_REQUEST_TIMEOUT_S * 1000


class ConnectionServer(Protocol):
    """The part of a server that a connection uses: the table of methods, the limits of all connections together."""

    name: str
    clock: Clock
    stats: ServerStats
    faults: PeerWarnings
    responses: ResponseBudget
    handlers: Mapping[int, Handler]
    run_handlers: Mapping[int, RunHandler]
    offered: frozenset[int]
    served: frozenset[tuple[int, int]]
    request_bytes: Mapping[int, int]
    capabilities: Capability
    capability_bits: int
    unused: dict[ServerConnection, None]
    buffered_bytes: int
    max_buffered_bytes: int

    def admit(self, connection: ServerConnection) -> bool:
        """Register a new connection; return False if there is no room for it."""
        ...

    def forget(self, connection: ServerConnection) -> None:
        """Forget a connection that has ended."""

    def shed(self) -> None:
        """Close a connection, because all together buffer too much."""

    def close_slowest_reader(self) -> None:
        """Close the connection of the slowest reader."""

    def run(self, call: Call, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a handler's coroutine as a task of the server."""


class ServerConnection(asyncio.Protocol):
    """A peer as the server sees it."""

    def __init__(self, server: ConnectionServer, *, is_tls: bool = False) -> None:
        self.server = server
        self.peer = "?"
        self.is_tls = is_tls
        """True if it came to the TLS port; the handshake is over before the first request."""
        self.peer_name: str | None = None
        """The name in the peer's certificate; None without one."""
        self.handshake: asyncio.Task[None] | None = None
        """The TLS handshake, while it goes on."""
        self.capabilities = NO_CAPABILITY
        self.block_bytes: int | None = BLOCK_BYTES
        self.context: dict[str, Any] = {}
        """A place for the service to store the caller's identity; gone with the connection."""
        self.on_writable: Callable[[], None] | None = None
        """Called when `paused` has ended."""
        self.closed = False
        self.is_unused = True
        """True until a request of it was served; refused ones do not count."""
        self.open_calls = 0
        self.buffered_bytes = 0
        """The bytes of its unanswered calls and of its incomplete frame."""
        self.last_byte_s = server.clock.now_s()
        self.mid_frame_since_s: float | None = None
        """Time when the incomplete frame began; times without reading do not count."""
        self._paused_s = 0.0
        """Time when reading was paused."""
        self._stream = RequestStream(server.request_bytes)
        self._unfinished_bytes = 0
        self._shown: int | None = None
        self._transport: asyncio.Transport | None = None
        self._outbox: Outbox | None = None
        self._writing_paused = False
        self._reading_paused = False
        self._put_off: list[_Item] = []
        """Requests that would take too long to serve in one turn of the loop; nothing is read until they are served.
        """

    # --- asyncio calls these --------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_BACKLOG_BYTES)
        self._outbox = Outbox(self._transport, asyncio.get_running_loop(), self._count_unsent)
        if self.is_tls:  # it has had its place since before the handshake
            self.handshake = None
            self.peer_name = certificate_name(transport.get_extra_info("peercert"))
            if self.closed:
                self.abort()
            return
        peer = transport.get_extra_info("peername")
        self.peer = f"{peer[0]}:{peer[1]}" if peer else "?"
        watch_peer(transport, gone_after_s=VANISHED_PEER_S)
        if not self.server.admit(self):
            self.abort()

    def data_received(self, data: bytes) -> None:
        now_s = self.server.clock.now_s()
        self.last_byte_s = now_s
        stream = self._stream
        try:
            items = stream.feed_requests(data)
        except FrameError as error:
            if data.startswith(_CLIENT_HELLO) and self._transport is not None and not self.is_tls:
                self._transport.write(_NOT_TLS)  # so that the peer's error says it, too
            self.fault(str(error))
            return
        if not stream.mid_frame:
            self.mid_frame_since_s = None
        elif items or self.mid_frame_since_s is None:
            self.mid_frame_since_s = now_s
        unfinished_bytes = stream.buffered_bytes
        if unfinished_bytes != self._unfinished_bytes:
            self._buffer(unfinished_bytes - self._unfinished_bytes)
            self._unfinished_bytes = unfinished_bytes
        if self._put_off:  # what a transport had read before it was paused
            self._put_off += items
        else:
            self._serve_all(items, now_s)
        if self._reading_paused or self._writing_paused or self._put_off or self.open_calls > MAX_CALLS_PER_CONNECTION:
            self._balance_reading()

    def pause_writing(self) -> None:
        self._writing_paused = True
        self._balance_reading()

    def resume_writing(self) -> None:
        self._writing_paused = False
        self._count_unsent()
        self.server.responses.admit()
        self._balance_reading()
        if self.on_writable is not None:
            self.on_writable()

    def connection_lost(self, exc: Exception | None) -> None:
        self.release()
        # Its parts refer to each other, so the collector of cycles would free it, and that runs rarely in a server.
        self._stream = RequestStream(self.server.request_bytes)
        self._put_off = []
        self._outbox = None
        self.server.forget(self)

    # --- the server and its calls use these -----------------------------------------------------------------

    def send(self, buffers: Sequence[bytes]) -> None:
        """Queue a response's buffers."""
        outbox = self._outbox
        if outbox is not None and not self.closed:
            outbox.put(buffers)
            if outbox.queued_bytes > COUNTED_BYTES:
                self._count_unsent()

    @property
    def unsent_bytes(self) -> int:
        """Bytes of responses that the peer has not received."""
        if self._outbox is None or self._transport is None:
            return 0
        return self._outbox.queued_bytes + self._transport.get_write_buffer_size()

    @property
    def taken_bytes(self) -> int:
        """Bytes of responses that the peer, or its operating system, has received."""
        if self._outbox is None or self._transport is None:
            return 0
        return self._outbox.handed_bytes - self._transport.get_write_buffer_size()

    @property
    def paused(self) -> bool:
        """True if the peer reads more slowly than it is answered; `on_writable` is called when it has caught up."""
        return self._writing_paused

    @property
    def backlogged(self) -> bool:
        """True if so many responses are queued that a service should not build another large one.

        It should wait for the loop's next turn, or, while `paused`, for `on_writable`."""
        return self._writing_paused or (self._outbox is not None and self._outbox.queued_bytes > _BACKLOG_BYTES)

    def announce(self, request: Request) -> int | None:
        """Return the capability field of the response: only for a peer that announced its own."""
        return None if request.capabilities is None else self.server.capability_bits

    def count_answered(self, size_bytes: int, calls: int = 1) -> None:
        """Count calls, which came with this many bytes, as answered."""
        self.open_calls -= calls
        if not self.closed:
            self.buffered_bytes -= size_bytes
            self.server.buffered_bytes -= size_bytes
        if self._reading_paused:
            self._balance_reading()

    def release(self) -> None:
        """Stop counting the bytes of this connection, because it has ended."""
        self.closed = True
        self.server.responses.forget(self)
        self.server.buffered_bytes -= self.buffered_bytes
        self.buffered_bytes = 0

    def fault(self, reason: str) -> None:
        """End a connection whose bytes cannot be understood: one line in the log."""
        self.server.stats.faults += 1
        self.server.faults.warning(f"closing {self.peer}: {reason.splitlines()[0]}", self.server.clock.now_s())
        self.close()

    def close(self) -> None:
        """Close the connection once what is queued has gone out."""
        self.closed = True
        if self._outbox is not None:
            self._outbox.flush()
        if self._transport is not None:
            self._transport.close()
        elif self.handshake is not None:
            self.handshake.cancel()

    def abort(self) -> None:
        """Close now."""
        self.closed = True
        if self.handshake is not None:
            self.handshake.cancel()
        if self._transport is not None:
            self._transport.abort()

    # --- inside ---------------------------------------------------------------------------------------------

    def _serve_all(self, items: Sequence[_Item], now_s: float) -> None:
        """Serve alike requests together, if their method has a handler for that; after a while put off the rest."""
        handlers, count, at = self.server.run_handlers, len(items), 0
        clock, until_s = self.server.clock, now_s + SERVING_SLICE_S
        while at < count and not self.closed:
            if at and clock.now_s() > until_s:
                self._put_off_rest(items[at:])
                return
            first = items[at]
            end = at + 1
            envelope = _envelope(first)
            if envelope is None:
                self._serve(cast("Frame", first), now_s)
                at = end
                continue
            together = envelope[1] in handlers
            while together and end < count and _envelope(items[end]) == envelope:
                end += 1
            parts = cast("Sequence[Request | RequestRun]", items[at:end])
            at = end
            if together and (len(parts) > 1 or isinstance(first, RequestRun)):
                left = self._serve_run(parts, now_s, until_s)
            else:
                left = self._serve_each(parts, now_s, until_s)
            if left:
                self._put_off_rest([*left, *items[at:]])
                return

    def _put_off_rest(self, items: Sequence[_Item]) -> None:
        """Serve these in the loop's next turn, after requests that others have sent meanwhile."""
        self._put_off += items
        asyncio.get_running_loop().call_soon(self._serve_rest)

    def _serve_rest(self) -> None:
        items, self._put_off = self._put_off, []
        if self.closed:
            return
        now_s = self.server.clock.now_s()
        self._serve_all(items, now_s)
        self._balance_reading()

    def _serve_each(self, parts: Sequence[Request | RequestRun], now_s: float, until_s: float) -> list[Request]:
        """Serve them one by one; return those that are left when the time is over."""
        requests = [request for part in parts for request in (part if isinstance(part, RequestRun) else (part,))]
        clock = self.server.clock
        for at, request in enumerate(requests):
            if self.closed:
                return []
            if at and clock.now_s() > until_s:
                return requests[at:]
            self._serve(request, now_s)
        return []

    def _serve_run(self, parts: Sequence[Request | RequestRun], now_s: float, until_s: float) -> list[Request]:
        """Serve them together if that is possible, else one by one; return what is left when the time is over."""
        server = self.server
        run = CallRun(parts, self, now_s, now_s)
        first = run.first
        shown = first.capabilities is not None and first.capabilities != self._shown
        if shown or (first.method, first.service) not in server.served:
            return self._serve_each(parts, now_s, until_s)
        run.deadline_s += _timeout_s(first.timeout_ms)
        server.stats.calls += len(run.serials)
        self.open_calls += len(run.serials)
        self._buffer(run.size_bytes)
        try:
            taken = server.run_handlers[first.method](run)
        except EnvelopeError:  # of the first; the others are served nevertheless
            taken = False
        except Exception as error:  # a handler's fault must not end the connection of a sound peer
            run.answered = True
            for call in run.calls():
                call.crash(error)
            return []
        if taken:
            run.keep_serials()
            return []
        self.count_answered(run.size_bytes, len(run.serials))  # each is counted individually
        server.stats.calls -= len(run.serials)
        return self._serve_each(parts, now_s, until_s)

    def _serve(self, item: Request | Frame, now_s: float) -> None:
        server = self.server
        server.stats.calls += 1
        request: Request | None = None
        try:
            request = decode_request(item) if isinstance(item, Frame) else item
            if request.capabilities is not None and request.capabilities != self._shown:
                self._shown = request.capabilities
                self._learn(Capability(request.capabilities) & server.capabilities)
            if (request.method, request.service) not in server.served:
                method_for(request, offered=server.offered)
        except EnvelopeError as error:
            self._refuse(item.serial, error, request)
            return
        call = Call(request, self, now_s, now_s + _timeout_s(request.timeout_ms))
        self.open_calls += 1
        self._buffer(call.size_bytes)
        self._handle(call)

    def _handle(self, call: Call) -> None:
        server, request = self.server, call.request
        handler = server.handlers.get(request.method)
        if handler is None:
            call.fail(
                exception_name="java.lang.Exception",
                text=f"method {request.method} is not served by this {server.name}",
            )
            return
        try:
            result = handler(call)
        except Exception as error:  # a handler's fault must not end the connection of a sound peer
            call.crash(error)
        else:
            if result is not None and inspect.iscoroutine(result):
                server.run(call, result)
            elif call.size_bytes > _LARGE_BODY_BYTES and not call.answered:
                # It was read; while the call waits for its response, nobody needs the bytes again.
                call.request = request._replace(body=b"")

    def _buffer(self, more_bytes: int) -> None:
        """Count the bytes that are buffered for this peer, and for all of them."""
        if self.closed:
            return
        self.buffered_bytes += more_bytes
        server = self.server
        server.buffered_bytes += more_bytes
        if server.buffered_bytes > server.max_buffered_bytes and more_bytes > 0:
            server.shed()

    def _count_unsent(self) -> None:
        """Record the bytes that wait for this peer in the server's budget."""
        if self.closed:
            return
        server = self.server
        server.responses.record(self, server.clock.now_s())
        if server.responses.is_overdrawn:
            server.close_slowest_reader()

    def frame_age_s(self, now_s: float) -> float:
        """Return the age of an incomplete frame; 0 if there is none, or while we pause reading."""
        return 0.0 if self.mid_frame_since_s is None or self._reading_paused else now_s - self.mid_frame_since_s

    def _refuse(self, serial: int, error: EnvelopeError, request: Request | None) -> None:
        self.server.stats.failed += 1
        self.send(
            encode_exception(
                serial,
                fatal=error.fatal,
                exception_name=error.exception_name,
                text=error.text,
                capabilities=None if request is None else self.announce(request),
            )
        )

    def mark_used(self) -> None:
        """Mark the connection as used: a request of it was served, not refused."""
        self.is_unused = False
        self.server.unused.pop(self, None)

    def _learn(self, capabilities: Capability) -> None:
        self.capabilities = capabilities
        if Capability.BIG_BLOCKS in capabilities:
            self.block_bytes = None

    def _balance_reading(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        limit = MAX_CALLS_PER_CONNECTION // 2 if self._reading_paused else MAX_CALLS_PER_CONNECTION
        pause = self._writing_paused or bool(self._put_off) or self.open_calls > limit
        if pause and not self._reading_paused:
            self._transport.pause_reading()
            self._paused_s = self.server.clock.now_s()
        elif self._reading_paused and not pause:
            self._transport.resume_reading()
            paused_s = self.server.clock.now_s() - self._paused_s
            self.last_byte_s += paused_s
            if self.mid_frame_since_s is not None:
                self.mid_frame_since_s += paused_s
        self._reading_paused = pause


def _envelope(item: Request | RequestRun | Frame) -> tuple[int | None, ...] | None:
    """Return the common envelope of requests that are served together; None for a frame that is not decoded yet."""
    if isinstance(item, Frame):
        return None
    return (item[0] if isinstance(item, RequestRun) else item)[1:-1]


def _timeout_s(timeout_ms: int) -> float:
    """Return the time that the caller waits, according to the request."""
    if timeout_ms <= 0:
        return DEFAULT_REQUEST_TIMEOUT_S
    return timeout_ms / 1000 if timeout_ms <= _MAX_TIMEOUT_MS else MAX_REQUEST_TIMEOUT_S
