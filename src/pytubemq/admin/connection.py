"""One HTTP connection, with a deadline for what it asks and a place only while there is room.

The invariant: a peer that connects and does not ask, or asks and does not finish asking, is closed within a bounded
time, and never keeps out one that does.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

    from uvicorn.config import Config
    from uvicorn.server import ServerState

logger = logging.getLogger(__name__)


class HttpConnection(H11Protocol):
    """uvicorn's connection with bounds of ours.

    `request_timeout_s` is for the head and the body of a request together; `max_connections` is of the whole server:
    beyond it the one that has been asking longest makes room, and if all are being answered, the new one goes.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        request_timeout_s: float,
        max_connections: int,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._request_timeout_s = request_timeout_s
        self._max_connections = max_connections
        self._deadline: asyncio.TimerHandle | None = None
        self._since_s = self.loop.time()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect()
        if len(self.connections) > self._max_connections:
            self._make_room()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._asking:
            self._forget()
        elif self._deadline is None:
            self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    @property
    def _asking(self) -> bool:
        """Whether a whole request has still to come."""
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
            self.transport.close()

    def _make_room(self) -> None:
        asking = [one for one in self.connections if isinstance(one, HttpConnection) and one._asking]
        victim = min(asking, key=lambda one: one._since_s, default=self)
        logger.warning("HTTP: %d connections are open, closing %s", len(self.connections) - 1, victim.client)
        self.connections.discard(victim)
        victim.transport.abort()
