"""One accepted connection: bytes to calls, responses to bytes, with limits on both.

The invariant: a peer that sends faster than it reads, or requests faster than it is answered, is not read from until
it has caught up; its share of our memory is bounded, individually and together with all others.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

from pytubemq.errors import EnvelopeError, FrameError
from pytubemq.model.limits import (
    BLOCK_BYTES,
    DEFAULT_REQUEST_TIMEOUT_S,
    KIB,
    MAX_CALLS_PER_CONNECTION,
    MAX_REQUEST_TIMEOUT_S,
    MIB,
    SERVING_SLICE_S,
    VANISHED_PEER_S,
)
from pytubemq.net.outbox import Outbox
from pytubemq.net.server.call import Call
from pytubemq.net.server.call_run import CallRun
from pytubemq.net.server.hosts import Host
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
    from pytubemq.net.server.hosts import Hosts
    from pytubemq.net.server.peer_warnings import PeerWarnings
    from pytubemq.net.server.response_budget import ResponseBudget
    from pytubemq.net.server.serving_turns import ServingTurns
    from pytubemq.net.server.stats import ServerStats

_Item: TypeAlias = Request | RequestRun | Frame

NO_CAPABILITY = Capability(0)
_BACKLOG_BYTES = 2 * MIB
_LARGE_BODY_BYTES = 4096
_PUT_OFF_BYTES = 256
"""What a request that was put off takes beside its bytes."""
_PIECE_BYTES = 64 * KIB
"""What was put off is read in such pieces, each in 1 to 5 ms."""
_LEAST_GROWTH_BYTES = 64 * KIB
"""An incomplete frame that grows by less stands still."""
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
    hosts: Hosts
    turns: ServingTurns
    buffered_bytes: int
    unserved_bytes: int
    watched_bytes: int
    is_crowded: bool

    def admit(self, connection: ServerConnection) -> bool:
        """Register a new connection; return False if there is no room for it."""
        ...

    def forget(self, connection: ServerConnection) -> None:
        """Forget a connection that has ended."""

    def limit_buffers(self) -> None:
        """Stop reading from connections, or close one, because all together buffer much."""

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
        self.host = Host("?")
        """The peer's host, with all connections from there once the server admitted this one."""
        self.buffered_bytes = 0
        """The bytes of its unanswered calls and of what is not served yet."""
        self.unserved_bytes = 0
        """The bytes of its incomplete frame, and of requests that were put off."""
        self.last_byte_s = server.clock.now_s()
        self.mid_frame_since_s: float | None = None
        """Time when the incomplete frame began; times without reading do not count."""
        self._grown_s = 0.0
        """Time when the incomplete frame had last grown by some amount."""
        self._grown_bytes = 0
        """Its size then."""
        self._paused_s = 0.0
        """Time when reading was paused."""
        self._stream = RequestStream(server.request_bytes)
        self._shown: int | None = None
        self._transport: asyncio.Transport | None = None
        self._outbox: Outbox | None = None
        self._writing_paused = False
        self._reading_paused = False
        self._put_off: list[_Item] = []
        """Requests that would take too long to serve in one turn of the loop; nothing is read until they are served.
        """
        self._put_off_bytes = 0
        """About what each of them takes."""
        self._unread: deque[bytes] = deque()
        """What came behind them, or while others waited for their turns."""
        self._has_turn = False
        """True if it waits for a turn to serve them, or has it."""

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
        self.host = Host(str(peer[0]) if peer else "?")
        watch_peer(transport, gone_after_s=VANISHED_PEER_S)
        if not self.server.admit(self):
            self.abort()

    def data_received(self, data: bytes) -> None:
        server = self.server
        now_s = server.clock.now_s()
        self.last_byte_s = now_s
        if (
            self._unread
            or self._put_off  # and a transport had read this before it was paused
            or (server.turns.waiting and server.turns.has_to_wait(self.host, len(data)))
            or (server.is_crowded and self._is_over_share())
        ):
            self._unread.append(data)
            self._count_unserved()
        else:
            items = self._read(data, now_s)
            self._put_off = self._serve_all(items, now_s, now_s + SERVING_SLICE_S)
            if self._put_off:
                self._put_off_bytes = _PUT_OFF_BYTES + len(data) // len(items)
            if self._put_off or self._stream.buffered_bytes != self.unserved_bytes:
                self._count_unserved()
        if (
            self._reading_paused
            or self._writing_paused
            or self._put_off
            or self._unread
            or server.is_crowded
            or self.open_calls > MAX_CALLS_PER_CONNECTION
        ):
            self.balance_reading()

    def pause_writing(self) -> None:
        self._writing_paused = True
        self.balance_reading()

    def resume_writing(self) -> None:
        self._writing_paused = False
        self._count_unsent()
        self.server.responses.admit()
        self.balance_reading()
        if self.on_writable is not None:
            self.on_writable()

    def connection_lost(self, exc: Exception | None) -> None:
        self.release()
        # Its parts refer to each other, so the collector of cycles would free it, and that runs rarely in a server.
        self._stream = RequestStream(self.server.request_bytes)
        self._put_off = []
        self._unread.clear()
        self.server.turns.remove(self)
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

    def count_answered(self, held_bytes: int, calls: int = 1) -> None:
        """Count calls, which held this many bytes, as answered."""
        self.open_calls -= calls
        if not self.closed:
            self.buffered_bytes -= held_bytes
            self.host.buffered_bytes -= held_bytes
            self.server.buffered_bytes -= held_bytes
        if self._reading_paused:
            self.balance_reading()

    def release(self) -> None:
        """Stop counting the bytes of this connection, because it has ended."""
        self.closed = True
        server, host = self.server, self.host
        server.responses.forget(self)
        server.buffered_bytes -= self.buffered_bytes
        server.unserved_bytes -= self.unserved_bytes
        host.buffered_bytes -= self.buffered_bytes
        host.unserved_bytes -= self.unserved_bytes
        self.buffered_bytes = self.unserved_bytes = 0

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

    def _read(self, data: bytes, now_s: float) -> list[_Item]:
        """Return the requests that are whole with this data; none if it ends the connection."""
        stream = self._stream
        try:
            items = stream.feed_requests(data)
        except FrameError as error:
            if data.startswith(_CLIENT_HELLO) and self._transport is not None and not self.is_tls:
                self._transport.write(_NOT_TLS)  # so that the peer's error says it, too
            self.fault(str(error))
            return []
        if not stream.mid_frame:
            self.mid_frame_since_s = None
        elif items or self.mid_frame_since_s is None:
            self.mid_frame_since_s = self._grown_s = now_s
            self._grown_bytes = stream.buffered_bytes
        elif stream.buffered_bytes - self._grown_bytes >= _LEAST_GROWTH_BYTES:
            self._grown_s = now_s
            self._grown_bytes = stream.buffered_bytes
        return items

    def _serve_all(self, items: list[_Item], now_s: float, until_s: float) -> list[_Item]:
        """Serve alike requests together, if their method has a handler for that; after a while return the rest."""
        server = self.server
        handlers, count, at = server.run_handlers, len(items), 0
        clock = server.clock
        while at < count and not self.closed:
            if at and (clock.now_s() > until_s or (server.is_crowded and self._is_over_share())):
                return items[at:]
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
                return [*left, *items[at:]]
        return []

    def serve_put_off(self, until_s: float) -> bool:
        """Serve requests that were put off until then, at least one; return True if others wait for a turn."""
        self._has_turn = False
        if self.closed or not self._may_serve():
            return False
        self._has_turn = True
        clock = self.server.clock
        now_s = clock.now_s()
        while True:
            items, self._put_off = self._put_off, []
            if not items:
                data = self._unread.popleft()
                if len(data) > _PIECE_BYTES:
                    self._unread.appendleft(data[_PIECE_BYTES:])
                    data = data[:_PIECE_BYTES]
                items = self._read(data, now_s)
                self._put_off_bytes = _PUT_OFF_BYTES + len(data) // max(1, len(items))
            self._put_off = self._serve_all(items, now_s, until_s)
            now_s = clock.now_s()
            if now_s > until_s or not self._may_serve():
                break
        self._count_unserved()
        self._has_turn = self._may_serve()
        self.balance_reading()
        return self._has_turn

    def _may_serve(self) -> bool:
        """True if requests were put off and may be served."""
        if self.closed or not (self._put_off or self._unread):
            return False
        if self.server.is_crowded and self._is_over_share():
            return False
        return bool(self._put_off) or not (self._writing_paused or self.open_calls > MAX_CALLS_PER_CONNECTION)

    def _is_over_share(self) -> bool:
        """True if its open calls take more than its share, while those of all take too much."""
        share_bytes = self.server.hosts.call_share_bytes(self.host)
        if share_bytes is None:
            return False
        # Less to begin again, so that not each response begins and ends it.
        return self.buffered_bytes - self.unserved_bytes > (share_bytes // 2 if self._reading_paused else share_bytes)

    def _serve_each(self, parts: Sequence[Request | RequestRun], now_s: float, until_s: float) -> list[Request]:
        """Serve them one by one; return those that are left when the time is over."""
        requests = [request for part in parts for request in (part if isinstance(part, RequestRun) else (part,))]
        server = self.server
        clock = server.clock
        for at, request in enumerate(requests):
            if self.closed:
                return []
            if at and (clock.now_s() > until_s or (server.is_crowded and self._is_over_share())):
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
        self._buffer(run.held_bytes)
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
        self.count_answered(run.held_bytes, len(run.serials))  # each is counted individually
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
        self._buffer(call.held_bytes)
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
        """Count the bytes that are buffered for this peer, for its host, and for all of them."""
        if self.closed:
            return
        self.buffered_bytes += more_bytes
        self.host.buffered_bytes += more_bytes
        server = self.server
        server.buffered_bytes += more_bytes
        if server.buffered_bytes > server.watched_bytes and more_bytes > 0:
            server.limit_buffers()

    def _count_unserved(self) -> None:
        """Count the bytes of requests that are incomplete or put off."""
        if self.closed:
            return
        put_off_bytes = len(self._put_off) * self._put_off_bytes + sum(map(len, self._unread))
        more_bytes = self._stream.buffered_bytes + put_off_bytes - self.unserved_bytes
        self.unserved_bytes += more_bytes
        self.host.unserved_bytes += more_bytes
        self.server.unserved_bytes += more_bytes
        self._buffer(more_bytes)

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

    def still_s(self, now_s: float) -> float:
        """Return the time in which an incomplete frame has not grown; 0 if there is none, or while we pause reading."""
        return 0.0 if self.mid_frame_since_s is None or self._reading_paused else now_s - self._grown_s

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
        self.server.hosts.mark_used(self.host, self)

    def _learn(self, capabilities: Capability) -> None:
        self.capabilities = capabilities
        if Capability.BIG_BLOCKS in capabilities:
            self.block_bytes = None

    def balance_reading(self) -> None:
        """Read from the peer or not, according to what it has under way; serve what was put off once that may be."""
        if self._transport is None or self._transport.is_closing():
            return
        if not self._has_turn and self._may_serve():
            self._has_turn = True
            self.server.turns.add(self)
        limit = MAX_CALLS_PER_CONNECTION // 2 if self._reading_paused else MAX_CALLS_PER_CONNECTION
        pause = (
            self._writing_paused
            or bool(self._put_off or self._unread)
            or self.open_calls > limit
            or (self.server.is_crowded and self._is_over_share())
        )
        if pause and not self._reading_paused:
            self._transport.pause_reading()
            self._paused_s = self.server.clock.now_s()
        elif self._reading_paused and not pause:
            self._transport.resume_reading()
            paused_s = self.server.clock.now_s() - self._paused_s
            self.last_byte_s += paused_s
            self._grown_s += paused_s
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
