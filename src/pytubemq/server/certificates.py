"""The certificates of one server process, and other files of keys, followed while it runs.

The invariants: a file that cannot be used ends the start with an error that names it; later a changed one that cannot
be used is reported in the log, and the one before stays in force.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pytubemq.model.limits import TLS_RELOAD_PERIOD_S
from pytubemq.net.tls.contexts import ServerFiles, client_context
from pytubemq.net.tls.reload import ReloadingContext, reloading_server

if TYPE_CHECKING:
    from pytubemq.server.settings import Settings

logger = logging.getLogger(__name__)


class Reloadable(Protocol):
    """An object that is made from files that may change."""

    def reload(self) -> bool:
        """Load the files if they have changed; return True if that came into force. Called off the loop."""
        ...


class Certificates:
    """The contexts of the protocol's TLS ports and of HTTPS; None where there is none."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.rpc: ReloadingContext | None = None
        self.http: ReloadingContext | None = None
        self._sources: list[Reloadable] = []
        self._task: asyncio.Task[None] | None = None

    def load(self) -> None:
        """Load all files.

        Raises:
            ConfigError: one cannot be used.
        """
        tls, http = self._settings.tls, self._settings.http
        if tls.cert:
            files = ServerFiles(_path(tls.cert), _path(tls.key or tls.cert), _path(tls.client_ca) or None)
            self.rpc = reloading_server(files)
        if http.tls_cert:
            self.http = reloading_server(ServerFiles(_path(http.tls_cert), _path(http.tls_key or http.tls_cert)))
        if (options := tls.to_servers()) is not None:
            client_context(options)  # so that a wrong file is reported now, and not at the first connection

    def follow(self) -> None:
        """Load files again when they change, from now on until `close`."""
        for source in (self.rpc, self.http):
            if source is not None:
                self.add(source)

    def add(self, source: Reloadable) -> None:
        """Load another source's files again when they change, until `close`."""
        self._sources.append(source)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(_follow(self._sources), name="look at changed files")

    async def close(self) -> None:
        """Stop looking. Idempotent."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def _follow(sources: list[Reloadable]) -> None:
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(TLS_RELOAD_PERIOD_S)
        for source in tuple(sources):
            try:
                await loop.run_in_executor(None, source.reload)
            except Exception:
                # It must not end here, or the certificates would expire though there are new ones.
                logger.exception("changed files of certificates or keys are not used, those from before are")


def _path(text: str) -> str:
    """Return a path with the home directory in the place of `~`."""
    return str(Path(text).expanduser()) if text else ""
