"""A connection for one thread that has nothing else to do: requests out, responses in the same order.

Reading ranges by the thousand million costs a quarter less without an event loop between the socket and the reader.

The invariants: the buffer behind a response's body is unchanged until the next `receive`; every wait has an end; after
an error the connection cannot be used any more.
"""

from __future__ import annotations

import contextlib
import socket
import time
from typing import TYPE_CHECKING, Final

from pytubemq.errors import (
    ConnectionLostError,
    FrameError,
    RequestTimeoutError,
    TubeError,
    UnreachableError,
)
from pytubemq.model.limits import (
    BLOCK_BYTES,
    CONNECT_TIMEOUT_S,
    FRAME_TIMEOUT_S,
    MAX_FRAME_BLOCKS,
    MIB,
    VANISHED_PEER_S,
)
from pytubemq.net.client.pending_calls import remote_error
from pytubemq.net.client.probe import PROBE_GROUP
from pytubemq.net.sockets import watch_socket
from pytubemq.net.tls.failures import is_tls_failure, no_connection, no_handshake
from pytubemq.net.tls.reload import client_tls
from pytubemq.wire.framing.frame import FRAME_HEAD, TOKEN, Frame
from pytubemq.wire.protobuf.schema import Status
from pytubemq.wire.protocol.extensions import OURS, Capability
from pytubemq.wire.protocol.messages.broker import AuthorizedInfo, HeartBeatRequestC2B
from pytubemq.wire.rpc.envelope import decode_response, encode_request, usual_body_at
from pytubemq.wire.rpc.methods import METHODS, Method, Service
from pytubemq.wire.serialization.message_bytes import encode

if TYPE_CHECKING:
    import ssl

    from pytubemq.model.ids import Address
    from pytubemq.model.tls_options import TlsOptions

_SERIAL_MASK: Final = 0x7FFFFFFF
_HEAD_BYTES: Final = 128
"""The usual length of a response's envelope at most, in bytes."""
_FIRST_ROOM_BYTES: Final = 1 * MIB
_LENGTH_BYTES: Final = 4


class BlockingConnection:
    """A connection to a Broker. One thread at a time may use it."""

    def __init__(self, handle: socket.socket, peer: Address) -> None:
        """Create a connection; callers use `connect`."""
        self.peer = peer
        self.capabilities = Capability(0)
        self.closed = False
        self._socket = handle
        self._serial = 0
        self._due: list[tuple[int, int]] = []
        """Requests without a response."""
        self._room = bytearray(_FIRST_ROOM_BYTES)
        """The buffer for responses; it grows to the largest."""

    @classmethod
    def connect(
        cls,
        peer: Address,
        *,
        client_id: str,
        auth_info: AuthorizedInfo | None,
        request_timeout_s: float,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        tls: TlsOptions | None = None,
    ) -> BlockingConnection:
        """Open a connection, over TLS if there are options for it, and learn the peer's capabilities with a heartbeat
        for no partition.

        Raises:
            UnreachableError: refused, unknown host, or nothing within `connect_timeout_s`.
            TlsError: the TLS handshake failed.
            TransportError: it does not respond.
            ConfigError: a file of the TLS options cannot be used.
        """
        context = None if tls is None else client_tls(tls)
        try:
            handle = socket.create_connection((peer.host, peer.port), timeout=connect_timeout_s)
        except TimeoutError as error:
            raise UnreachableError(f"nothing responds at {peer} within {connect_timeout_s:g} s") from error
        except OSError as error:
            raise UnreachableError(f"cannot connect to {peer}: {error.strerror or error}") from error
        if context is not None:
            handle = _shake_hands(context, handle, peer, (tls and tls.server_name) or peer.host, connect_timeout_s)
        connection = cls(handle, peer)
        try:
            handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            watch_socket(handle, gone_after_s=VANISHED_PEER_S)
            probe = HeartBeatRequestC2B(client_id=client_id, group_name=PROBE_GROUP, read_status=0, auth_info=auth_info)
            connection._send(
                Method.CONSUMER_HEARTBEAT_C2B, Service.BROKER_READ, encode(probe), request_timeout_s, offer=OURS
            )
            connection._learn(request_timeout_s)
        except BaseException:
            connection.close()
            raise
        return connection

    def send(self, method: int, service: int, body: bytes, *, timeout_s: float) -> None:
        """Send a request; its response is received after those of the requests before it.

        Raises:
            ConnectionLostError: the connection broke.
        """
        self._send(method, service, body, timeout_s, offer=None)

    def receive(self, *, timeout_s: float) -> memoryview:
        """Return the body of the next response; it is valid until the next call.

        Raises:
            RequestTimeoutError: it does not begin within `timeout_s`, or is not whole within `FRAME_TIMEOUT_S`.
            ConnectionLostError: the connection broke.
            FrameError, EnvelopeError: the bytes are not a response.
            RemoteError: the peer failed at the request; the connection can still be used.
        """
        content = self._frame(timeout_s)
        at = usual_body_at(bytes(content[:_HEAD_BYTES]), len(content))
        if at is not None:
            return content[at:]
        response = decode_response(Frame(0, bytes(content)))
        if response.status is not Status.SUCCESS:
            raise remote_error(self.peer, response)
        return memoryview(response.body)

    def close(self) -> None:
        """Close it. Idempotent."""
        self.closed = True
        with contextlib.suppress(OSError):
            self._socket.close()

    # --- inside ---------------------------------------------------------------------------------------------

    def _learn(self, timeout_s: float) -> None:
        response = decode_response(Frame(0, bytes(self._frame(timeout_s))))
        if response.capabilities is not None:
            self.capabilities = Capability(response.capabilities) & OURS

    def _send(self, method: int, service: int, body: bytes, timeout_s: float, *, offer: Capability | None) -> None:
        serial = self._serial = self._serial % _SERIAL_MASK + 1
        request = encode_request(
            serial,
            service=service,
            method=method,
            timeout_ms=max(1, int(timeout_s * 1000)),
            body=(body,),
            capabilities=None if offer is None else int(offer),
            block_bytes=None if Capability.BIG_BLOCKS in self.capabilities else BLOCK_BYTES,
        )
        try:
            self._socket.settimeout(timeout_s)
            self._socket.sendall(b"".join(request))
        except OSError as error:
            raise self._lost(error) from error
        self._due.append((serial, METHODS[method].response_bytes))

    def _frame(self, timeout_s: float) -> memoryview:
        """Return the content of the next frame."""
        try:
            return self._read_frame(timeout_s)
        except TimeoutError as error:
            self.close()
            raise RequestTimeoutError(
                f"{self.peer} did not respond within {timeout_s:g} s",
                hint="it may be overloaded or gone",
            ) from error
        except OSError as error:
            raise self._lost(error) from error
        except FrameError:
            self.close()
            raise

    def _read_frame(self, timeout_s: float) -> memoryview:
        head = bytearray(FRAME_HEAD.size)
        self._read(memoryview(head), time.monotonic() + timeout_s)
        until_s = time.monotonic() + FRAME_TIMEOUT_S
        token, serial, blocks = FRAME_HEAD.unpack(head)
        if token != TOKEN or not 1 <= blocks <= MAX_FRAME_BLOCKS:
            raise FrameError(f"{self.peer} sent bytes that are not a frame: 0x{token:08x} with {blocks} blocks")
        due, most_bytes = self._due.pop(0) if self._due else (None, 0)
        if serial != due:
            raise FrameError(f"{self.peer} answered request {serial}, out of order")
        size = 0
        length = bytearray(_LENGTH_BYTES)
        for _ in range(blocks):
            self._read(memoryview(length), until_s)
            block_bytes = int.from_bytes(length, "big", signed=True)
            if block_bytes < 0 or size + block_bytes > most_bytes:
                raise FrameError(f"{self.peer} sent a block of {block_bytes} bytes behind {size} others")
            self._make_room(size, size + block_bytes)
            self._read(memoryview(self._room)[size : size + block_bytes], until_s)
            size += block_bytes
        return memoryview(self._room)[:size]

    def _make_room(self, used: int, needed: int) -> None:
        if needed > len(self._room):
            room = bytearray(max(needed, 2 * used))
            room[:used] = memoryview(self._room)[:used]
            self._room = room

    def _read(self, into: memoryview, until_s: float) -> None:
        """Fill `into`."""
        handle, at = self._socket, 0
        while at < len(into):
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            handle.settimeout(left_s)
            received = handle.recv_into(into[at:])
            if not received:
                raise ConnectionResetError("it was closed by its peer")
            at += received

    def _lost(self, error: OSError) -> TubeError:
        self.close()
        if is_tls_failure(error):  # TLS 1.3 shows a refused certificate after the handshake only
            return no_connection(self.peer, error)
        return ConnectionLostError(f"the connection to {self.peer} broke: {error.strerror or error}")


def _shake_hands(
    context: ssl.SSLContext, handle: socket.socket, peer: Address, name: str, timeout_s: float
) -> ssl.SSLSocket:
    """Return the socket under TLS; it is closed if that fails.

    Raises:
        TlsError, UnreachableError: the handshake failed, or was not over in time.
    """
    try:
        return context.wrap_socket(handle, server_hostname=name)
    except TimeoutError as error:
        handle.close()
        raise no_handshake(peer, f"nothing responds within {timeout_s:g} s") from error
    except OSError as error:
        handle.close()
        if is_tls_failure(error):
            raise no_connection(peer, error) from error
        raise no_handshake(peer, "it closed the connection during the handshake") from error
