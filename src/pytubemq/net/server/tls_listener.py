"""The TLS port of a server: accepts connections, and lets them in when their handshakes are over.

The invariants: a connection has a place among the server's connections from its first moment, so handshakes are within
the limit of them all, and the oldest one makes room when every place is taken; a handshake that is not over in time
ends, with one line in the log; whatever a peer does in its handshake, no other connection notices.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import ssl
from typing import TYPE_CHECKING, Final

from pytubemq.model.limits import TLS_CLOSE_TIMEOUT_S, VANISHED_PEER_S
from pytubemq.net.server.connection import ConnectionServer, ServerConnection
from pytubemq.net.server.hosts import Host
from pytubemq.net.server.listening import ListeningSocket, address_of, open_port
from pytubemq.net.sockets import watch_socket
from pytubemq.net.tls.alerts import ACCEPTED
from pytubemq.net.tls.failures import failure_reason

if TYPE_CHECKING:
    import socket

    from pytubemq.model.ids import Address
    from pytubemq.net.tls.reload import ReloadingContext

logger = logging.getLogger(__name__)

_ACCEPTED_AT_ONCE: Final = 64
"""Connections accepted in one turn of the loop."""
_NO_HANDLES: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
_PAUSE_S: Final = 1.0
"""The pause after the system had no handle for another connection (asyncio's)."""


class TlsListener:
    """One bound socket, from `open` to `close`."""

    def __init__(
        self, server: ConnectionServer, bound: ListeningSocket, tls: ReloadingContext, *, timeout_s: float
    ) -> None:
        """`timeout_s` is for the whole of a handshake."""
        self._server = server
        self._socket: ListeningSocket | None = bound
        self._tls = tls
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._handshakes: set[asyncio.Task[None]] = set()
        self._pause: asyncio.TimerHandle | None = None

    @property
    def address(self) -> Address:
        """The address it is bound to."""
        assert self._socket is not None
        return address_of(self._socket)

    @property
    def certificate(self) -> ReloadingContext:
        """The certificate that it shows, with its files."""
        return self._tls

    def open(self) -> None:
        """Begin to listen.

        Raises:
            ConfigError: another program has begun to listen there meanwhile.
        """
        assert self._socket is not None
        open_port(self._socket, name=self._server.name)
        self._loop.add_reader(self._socket, self._accept_all)

    async def close(self) -> None:
        """Stop listening, and end handshakes that are not over. Idempotent."""
        bound, self._socket = self._socket, None
        if self._pause is not None:
            self._pause.cancel()
        if bound is not None:
            self._loop.remove_reader(bound)
            bound.close()
        handshakes = list(self._handshakes)
        for handshake in handshakes:
            handshake.cancel()
        await asyncio.gather(*handshakes, return_exceptions=True)

    # --- inside ---------------------------------------------------------------------------------------------

    def _accept_all(self) -> None:
        bound = self._socket
        for _ in range(_ACCEPTED_AT_ONCE):
            if bound is None:
                return
            try:
                handle, peer = bound.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _NO_HANDLES:
                    raise
                logger.warning("%s: no connection can be accepted for a moment: %s", self._server.name, error.strerror)
                self._loop.remove_reader(bound)
                self._pause = self._loop.call_later(_PAUSE_S, self._loop.add_reader, bound, self._accept_all)
                return
            handle.setblocking(False)
            watch_socket(handle, gone_after_s=VANISHED_PEER_S)
            self._accept(handle, str(peer[0]), int(peer[1]))

    def _accept(self, handle: socket.socket, host: str, port: int) -> None:
        connection = ServerConnection(self._server, is_tls=True)
        connection.peer, connection.host = f"{host}:{port}", Host(host)
        if not self._server.admit(connection):
            handle.close()
            return
        task = self._loop.create_task(self._shake_hands(connection, handle))
        connection.handshake = task
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)

    async def _shake_hands(self, connection: ServerConnection, handle: socket.socket) -> None:
        error: Exception | None = None
        ACCEPTED.set(handle)
        try:
            await self._loop.connect_accepted_socket(
                lambda: connection,
                handle,
                ssl=self._tls.context,
                ssl_handshake_timeout=self._timeout_s,
                ssl_shutdown_timeout=TLS_CLOSE_TIMEOUT_S,
            )
            connection.handshake = None
        except (OSError, ValueError) as failed:
            error = failed
        except asyncio.CancelledError:
            handle.close()
            self._end(connection, None)
            raise
        if error is not None:
            self._end(connection, error)

    def _end(self, connection: ServerConnection, error: Exception | None) -> None:
        """Free the place; a peer that just went away, as port scans do, is not worth a line."""
        connection.handshake = None
        if not connection.closed:
            if isinstance(error, ssl.SSLError | ConnectionAbortedError):
                self._server.stats.tls_failures += 1
            if isinstance(error, ssl.SSLError):
                connection.fault(f"TLS: {failure_reason(error)}")
            elif isinstance(error, ConnectionAbortedError):
                connection.fault(f"the TLS handshake was not over within {self._timeout_s:g} s")
        connection.abort()
        connection.connection_lost(error)
