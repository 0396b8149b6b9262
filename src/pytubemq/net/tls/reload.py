"""Contexts that follow their files: a new certificate is used from the next handshake on.

The invariants: an open connection keeps the certificate that it began with; files that cannot be used leave the earlier
ones in force, and one line in the log says why.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from pytubemq.errors import ConfigError, one_line
from pytubemq.model.limits import CERTIFICATE_WARNING_S
from pytubemq.net.tls.contexts import certificate_expiry, client_context, client_paths, server_context, stamps_of

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from pytubemq.model.tls_options import TlsOptions
    from pytubemq.net.tls.contexts import ServerFiles

logger = logging.getLogger(__name__)

MAX_CLIENT_CONTEXTS: Final = 64
"""Contexts of clients that a process keeps, one for each set of options."""


class ReloadingContext:
    """A context and the files that it was made from."""

    def __init__(
        self,
        make: Callable[[], ssl.SSLContext],
        paths: tuple[str, ...],
        expiry: Callable[[], float | None] = lambda: None,
    ) -> None:
        """Make the context; `expiry` returns when its certificate expires, in seconds since 1970.

        Raises:
            ConfigError: a file cannot be used.
        """
        self._make = make
        self._paths = paths
        self._lock = threading.Lock()
        self._stamps = stamps_of(paths)
        self.reloads = 0
        """How often changed files have come into force."""
        self.problem: str | None = None
        """The reason why changed files cannot be used; None if they are in use."""
        self._context = make()
        self._expiry = expiry
        self.expires_s = expiry()
        """The expiry of the certificate in use, in seconds since 1970; None if it shows none, or that is unknown."""

    @property
    def context(self) -> ssl.SSLContext:
        """The context for the next connection."""
        return self._context

    def trouble(self, *, now_s: float) -> str | None:
        """Return the problem of the files that somebody has to solve; None if there is none.

        Changed ones cannot be used, or the certificate has expired or soon does.
        """
        if self.problem is not None:
            return f"changed TLS files cannot be used, the previous ones still are: {self.problem}"
        if self.expires_s is None or self.expires_s - now_s > CERTIFICATE_WARNING_S:
            return None
        days = (self.expires_s - now_s) / 86_400
        return f"the certificate {self._paths[0]} " + (f"expires in {days:.0f} days" if days > 0 else "has expired")

    def reload(self) -> bool:
        """Load files that have changed since; return True if that made a new context.

        Files are replaced one after the other, so what does not fit together now is tried again at the next change.
        """
        with self._lock:
            stamps = stamps_of(self._paths)
            if stamps == self._stamps:
                return False
            self._stamps = stamps
            try:
                context = self._make()
            except ConfigError as error:
                self.problem = one_line(error)
                logger.warning("changed TLS files cannot be used, the previous ones still are: %s", self.problem)
                return False
            self._context = context
            self.expires_s = self._expiry()
            self.reloads += 1
            self.problem = None
            logger.info("loaded the changed TLS files %s", ", ".join(self._paths))
            return True


def trouble_of(context: ReloadingContext | None) -> str | None:
    """Return what somebody has to do now about the files of a server's context; None without one, or if nothing."""
    return None if context is None else context.trouble(now_s=time.time())


def expiry_of(context: ReloadingContext | None) -> float | None:
    """Return when the certificate in force expires, in seconds since 1970; None without one."""
    return None if context is None else context.expires_s


def reloading_server(files: ServerFiles) -> ReloadingContext:
    """Return a server's context that follows its files.

    Raises:
        ConfigError: a file cannot be used.
    """
    return ReloadingContext(
        lambda: server_context(files), files.paths, lambda: certificate_expiry(files.cert, files.key)
    )


def following(source: ReloadingContext) -> ssl.SSLContext:
    """Return a context for a server that keeps one for ever: each handshake goes on with that of `source`."""
    fixed = source._make()

    def follow(connection: ssl.SSLObject, name: str | None, before: ssl.SSLContext) -> None:
        connection.context = source.context

    fixed.sni_callback = follow
    return fixed


_of_clients: dict[TlsOptions, ReloadingContext] = {}
_lock = threading.Lock()


def client_tls(options: TlsOptions) -> ssl.SSLContext:
    """Return the context for a client's next connection, from the files as they are now; shared in this process.

    Raises:
        ConfigError: a file cannot be used, and none could before.
    """
    with _lock:
        source = _of_clients.get(options)
        if source is None:
            source = ReloadingContext(lambda: client_context(options), client_paths(options))
            while len(_of_clients) >= MAX_CLIENT_CONTEXTS:
                del _of_clients[next(iter(_of_clients))]
            _of_clients[options] = source
            return source.context
    source.reload()
    return source.context
