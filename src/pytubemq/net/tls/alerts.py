"""Server contexts that report to a peer why its handshake was refused.

Event loops drop what TLS has written when a handshake fails, and with it the alert that says why: a client whose
certificate was refused would see nothing but the end of the connection. The invariant: an alert is sent if the socket
takes it at once, and never waited for.
"""

from __future__ import annotations

import contextlib
import ssl
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import socket

ACCEPTED: ContextVar[socket.socket | None] = ContextVar("ACCEPTED", default=None)
"""The socket of the handshake that is about to begin in this context."""


class _Handshake(ssl.SSLObject):
    """One side of a connection; on failure the alert goes straight to the socket."""

    alerts: ssl.MemoryBIO | None = None
    accepted: socket.socket | None = None

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError:
            if self.alerts is not None and self.accepted is not None:
                with contextlib.suppress(OSError):
                    self.accepted.send(self.alerts.read())
            raise


class AlertingContext(ssl.SSLContext):
    """A server's context whose handshakes send their alerts to the socket in `ACCEPTED`."""

    sslobject_class = _Handshake

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        handshake = super().wrap_bio(incoming, outgoing, *args, **kwargs)
        if isinstance(handshake, _Handshake):
            handshake.alerts, handshake.accepted = outgoing, ACCEPTED.get()
        return handshake
