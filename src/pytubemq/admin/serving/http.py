"""Serving HTTP inside the running event loop.

The invariants: the server is a guest: it takes no signals, installs no logging, and binds its socket itself, so that
a port in use is one clear error before anything runs; connections are bounded in number, in the time for their
requests and for reading, and in unsent bytes (see `connection`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from functools import partial
from typing import TYPE_CHECKING, cast

import uvicorn

from pytubemq.admin.serving.connection import HttpConnection
from pytubemq.model.limits import (
    HTTP_READ_PERIOD_S,
    HTTP_REQUEST_TIMEOUT_S,
    HTTP_SEND_BUFFER_BYTES,
    MAX_HTTP_CONNECTIONS,
    MAX_HTTP_UNSENT_BYTES,
)
from pytubemq.net.server.listening import ListeningSocket, address_of, bind, open_port
from pytubemq.net.tls.reload import following

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import ASGIApp

    from pytubemq.model.ids import Address
    from pytubemq.net.tls.reload import ReloadingContext

logger = logging.getLogger(__name__)

_NAME = "HTTP"
STOP_TIMEOUT_S = 1
IDLE_CONNECTION_S = 5


class _Guest(uvicorn.Server):
    """uvicorn without its signal handlers."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class HttpServer:
    """A server of one application on one address."""

    def __init__(
        self,
        app: ASGIApp,
        listen: Address,
        *,
        request_timeout_s: float = HTTP_REQUEST_TIMEOUT_S,
        read_period_s: float = HTTP_READ_PERIOD_S,
        max_connections: int = MAX_HTTP_CONNECTIONS,
        max_unsent_bytes: int = MAX_HTTP_UNSENT_BYTES,
        tls: ReloadingContext | None = None,
    ) -> None:
        """Serve `app`; over TLS if there is a context for it."""
        self._app = app
        self._tls = tls
        self._listen = listen
        self._protocol = partial(
            HttpConnection,
            request_timeout_s=request_timeout_s,
            read_period_s=read_period_s,
            max_connections=max_connections,
            max_unsent_bytes=max_unsent_bytes,
        )
        self._server: _Guest | None = None
        self._task: asyncio.Task[None] | None = None
        self._socket: ListeningSocket | None = None

    def bind(self) -> Address:
        """Reserve the port without opening it, so that `start` can come last; port 0 picks a free one.

        Returns:
            The address in use.

        Raises:
            ConfigError: the address is in use or not of this machine.
        """
        self._socket = bind(self._listen, name=_NAME, send_buffer_bytes=HTTP_SEND_BUFFER_BYTES, sends_at_once=True)
        return address_of(self._socket)

    async def start(self) -> Address:
        """Open the port, and bind it first if `bind` has not. Requests are served from now on.

        Returns:
            The address in use.

        Raises:
            ConfigError: the address is in use or not of this machine.
        """
        if self._socket is None:
            self.bind()
        assert self._socket is not None
        config = uvicorn.Config(
            self._app,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            date_header=False,
            proxy_headers=False,
            ws="none",
            http=cast("type[asyncio.Protocol]", self._protocol),
            timeout_keep_alive=IDLE_CONNECTION_S,
            timeout_graceful_shutdown=STOP_TIMEOUT_S,
        )
        config.load()  # so that what it lacks is an error here, and not in the task
        if self._tls is not None:
            config.ssl = following(self._tls)
        self._server = _Guest(config)
        # The kernel queues connections from here on, so a client that comes early only waits.
        open_port(self._socket, name=_NAME)
        self._task = asyncio.get_running_loop().create_task(self._server.serve(sockets=[self._socket]))
        address = address_of(self._socket)
        self._task.add_done_callback(partial(_report_end, address))
        return address

    async def close(self) -> None:
        """Stop: running requests get a second. Idempotent. Raises what the server had failed by, when all is closed."""
        server, self._server = self._server, None
        try:
            if server is not None and self._task is not None:
                server.should_exit = True
                await self._task
        finally:
            for listener in getattr(server, "servers", ()):  # open still, if it has failed
                listener.close()
            if self._socket is not None:
                self._socket.close()
                self._socket = None


def _report_end(address: Address, task: asyncio.Task[None]) -> None:
    """Log that a server has ended by an error: its port may still be open, but nobody responds there."""
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("HTTP at %s has failed and serves no more requests", address, exc_info=error)
