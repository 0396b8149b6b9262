"""One HTTP connection, with deadlines for the request and for reading the response.

The invariants: a peer that connects and does not send a request, or does not finish one, or does not read its response,
is closed within a bounded time, and never keeps out another; the memory for slow readers is bounded.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from pytubemq.model.limits import HTTP_READ_LEAST_BYTES
from pytubemq.net.sockets import close_once

if TYPE_CHECKING:
    import asyncio

    from uvicorn.config import Config
    from uvicorn.server import ServerState

logger = logging.getLogger(__name__)


class HttpConnection(H11Protocol):
    """uvicorn's connection with bounds of ours.

    `request_timeout_s` is for the head and the body of a request together; in each `read_period_s` a peer must read a
    part of its response. `max_connections` and `max_unsent_bytes` are of the whole server: beyond the first, the
    connection closes that has been sending a request longest, else the one that has been reading longest, and if the
    server has yet to respond to all of them, the new one; beyond the second, those that have been reading longest.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        request_timeout_s: float,
        read_period_s: float,
        max_connections: int,
        max_unsent_bytes: int,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._request_timeout_s = request_timeout_s
        self._read_period_s = read_period_s
        self._max_connections = max_connections
        self._max_unsent_bytes = max_unsent_bytes
        self._deadline: asyncio.TimerHandle | None = None
        self._since_s = self.loop.time()
        self._reading: asyncio.TimerHandle | None = None
        """Set while the peer has bytes to read."""
        self._reading_since_s = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # So that `pause_writing` is called for every unsent byte. Over TLS, 0 would mean "even if none is unsent".
        is_tls = transport.get_extra_info("ssl_object") is not None
        transport.set_write_buffer_limits(high=int(is_tls), low=0)
        self._expect()
        if len(self.connections) > self._max_connections:
            self._make_room()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._asking:
            self._forget()
        elif self._deadline is None:
            self._expect()

    def on_response_complete(self) -> None:
        """Continue with the bytes after the finished request: they may be a part of the next."""
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY and self._deadline is None and not self.transport.is_closing():
            self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        self._taken()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._reading_since_s = self.loop.time()
        self._expect_reading()
        self._bound_unsent()

    def resume_writing(self) -> None:
        self._taken()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Refuse malformed bytes; what is being served for the same request ends without a response of its own."""
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:  # a response has begun: another cannot follow
            close_once(self.transport)

    @property
    def _asking(self) -> bool:
        """True if a whole request has still to come."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    def _expect(self) -> None:
        self._since_s = self.loop.time()
        self._deadline = self.loop.call_later(self._request_timeout_s, self._too_late)

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_late(self) -> None:
        self._deadline = None
        if self._asking:
            logger.info("HTTP: closing %s: no whole request within %g s", self.client, self._request_timeout_s)
            close_once(self.transport)

    # --- the response -------------------------------------------------------------------------------------------

    def _expect_reading(self) -> None:
        left = self.transport.get_write_buffer_size()
        self._reading = self.loop.call_later(self._read_period_s, self._check_reading, left)

    def _check_reading(self, before: int) -> None:
        if before - self.transport.get_write_buffer_size() >= HTTP_READ_LEAST_BYTES:
            self._expect_reading()
            return
        logger.info("HTTP: closing %s: it does not read its response", self.client)
        self._drop()

    def _taken(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    # --- room ---------------------------------------------------------------------------------------------------

    def _others(self) -> list[HttpConnection]:
        return [one for one in self.connections if isinstance(one, HttpConnection) and one is not self]

    def _make_room(self) -> None:
        readers = [one for one in self._others() if one._reading is not None]
        asking = [one for one in self._others() if one._reading is None and one._asking]
        if asking:
            victim = min(asking, key=lambda one: one._since_s)
        else:
            victim = min(readers, key=lambda one: one._reading_since_s, default=self)
        logger.warning("HTTP: %d connections are open, closing %s", len(self.connections) - 1, victim.client)
        victim._drop()

    def _bound_unsent(self) -> None:
        readers = sorted(
            (one for one in self._others() if one._reading is not None), key=lambda one: one._reading_since_s
        )
        unsent = sum(one.transport.get_write_buffer_size() for one in readers)
        for one in readers:
            if unsent <= self._max_unsent_bytes:
                return
            unsent -= one.transport.get_write_buffer_size()
            logger.warning("HTTP: too much waits to be read, closing %s", one.client)
            one._drop()

    def _drop(self) -> None:
        self._taken()
        self.connections.discard(self)
        self.transport.abort()
