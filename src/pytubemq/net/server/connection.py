"""One accepted connection: bytes to calls, responses to bytes, with limits on both.

The invariant: a peer that sends faster than it reads, or requests faster than it is answered, is not read from until
it has caught up; its share of our memory is bounded, individually and together with all others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol, cast

from pytubemq.errors import FrameError
from pytubemq.model.limits import (
    BLOCK_BYTES,
    KIB,
    MAX_CALLS_PER_CONNECTION,
    MIB,
    SERVING_SLICE_S,
    VANISHED_PEER_S,
)
from pytubemq.net.outbox import Outbox
from pytubemq.net.server.hosts import Host
from pytubemq.net.server.request_dispatch import DispatchServer, dispatch
from pytubemq.net.server.response_budget import COUNTED_BYTES
from pytubemq.net.sockets import close_once, watch_peer
from pytubemq.net.tls.contexts import certificate_name
from pytubemq.wire.protocol.extensions import Capability
from pytubemq.wire.rpc.stream import RequestStream

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytubemq.net.server.hosts import Hosts
    from pytubemq.net.server.peer_warnings import PeerWarnings
    from pytubemq.net.server.request_dispatch import Item
    from pytubemq.net.server.serving_turns import ServingTurns
    from pytubemq.wire.rpc.envelope import Request

NO_CAPABILITY = Capability(0)
_BACKLOG_BYTES = 2 * MIB
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


class ConnectionServer(DispatchServer, Protocol):
    """The part of a server that a connection uses: the table of methods, the limits of all connections together."""

    faults: PeerWarnings
    request_bytes: Mapping[int, int]
    capability_bits: int
    hosts: Hosts
    turns: ServingTurns
    buffered_bytes: int
    unserved_bytes: int
    watched_bytes: int

    def admit(self, connection: ServerConnection) -> bool:
        """Register a new connection; return False if there is no room for it."""
        ...

    def forget(self, connection: ServerConnection) -> None:
        """Forget a connection that has ended."""

    def limit_buffers(self) -> None:
        """Stop reading from connections, or close one, because all together buffer much."""

    def close_slowest_reader(self) -> None:
        """Close the connection of the slowest reader."""


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
        self.announced: int | None = None
        """The capability field of the peer's newest request that had one."""
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
        self._transport: asyncio.Transport | None = None
        self._outbox: Outbox | None = None
        self._writing_paused = False
        self._reading_paused = False
        self._put_off: list[Item] = []
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
            or (server.is_crowded and self.is_over_share())
        ):
            self._unread.append(data)
            self._count_unserved()
        else:
            items = self._read(data, now_s)
            self._put_off = dispatch(self, items, now_s, now_s + SERVING_SLICE_S)
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
    def delivered_bytes(self) -> int:
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

    def is_over_share(self) -> bool:
        """True if its open calls take more than its share, while those of all take too much."""
        share_bytes = self.server.hosts.call_share_bytes(self.host)
        if share_bytes is None:
            return False
        # Less to begin again, so that not each response begins and ends it.
        return self.buffered_bytes - self.unserved_bytes > (share_bytes // 2 if self._reading_paused else share_bytes)

    def count_buffered(self, more_bytes: int) -> None:
        """Count the bytes that are buffered for this peer, for its host, and for all of them."""
        if self.closed:
            return
        self.buffered_bytes += more_bytes
        self.host.buffered_bytes += more_bytes
        server = self.server
        server.buffered_bytes += more_bytes
        if server.buffered_bytes > server.watched_bytes and more_bytes > 0:
            server.limit_buffers()

    def mark_used(self) -> None:
        """Mark the connection as used: a request of it was served, not refused."""
        self.is_unused = False
        self.server.hosts.mark_used(self.host, self)

    def frame_age_s(self, now_s: float) -> float:
        """Return the age of an incomplete frame; 0 if there is none, or while we pause reading."""
        return 0.0 if self.mid_frame_since_s is None or self._reading_paused else now_s - self.mid_frame_since_s

    def still_s(self, now_s: float) -> float:
        """Return the time in which an incomplete frame has not grown; 0 if there is none, or while we pause reading."""
        return 0.0 if self.mid_frame_since_s is None or self._reading_paused else now_s - self._grown_s

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
            self._put_off = dispatch(self, items, now_s, until_s)
            now_s = clock.now_s()
            if now_s > until_s or not self._may_serve():
                break
        self._count_unserved()
        self._has_turn = self._may_serve()
        self.balance_reading()
        return self._has_turn

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
            or (self.server.is_crowded and self.is_over_share())
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
            close_once(self._transport)
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

    def _read(self, data: bytes, now_s: float) -> list[Item]:
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

    def _may_serve(self) -> bool:
        """True if requests were put off and may be served."""
        if self.closed or not (self._put_off or self._unread):
            return False
        if self.server.is_crowded and self.is_over_share():
            return False
        return bool(self._put_off) or not (self._writing_paused or self.open_calls > MAX_CALLS_PER_CONNECTION)

    def _count_unserved(self) -> None:
        """Count the bytes of requests that are incomplete or put off."""
        if self.closed:
            return
        put_off_bytes = len(self._put_off) * self._put_off_bytes + sum(map(len, self._unread))
        more_bytes = self._stream.buffered_bytes + put_off_bytes - self.unserved_bytes
        self.unserved_bytes += more_bytes
        self.host.unserved_bytes += more_bytes
        self.server.unserved_bytes += more_bytes
        self.count_buffered(more_bytes)

    def _count_unsent(self) -> None:
        """Record the bytes that wait for this peer in the server's budget."""
        if self.closed:
            return
        server = self.server
        server.responses.record(self, server.clock.now_s())
        if server.responses.is_overdrawn:
            server.close_slowest_reader()
