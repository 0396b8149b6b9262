"""Options of connections for the operating system, where it has these options.

The invariant: a peer that vanished without notice (a cut cable, a host that is gone, a firewall that forgot us) ends
the connection within a bounded time, whichever side sends next.
"""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio

_PROBES: Final = 3


def watch_peer(transport: asyncio.BaseTransport, *, gone_after_s: float) -> None:
    """Let the operating system end this connection when its peer has not acknowledged anything for `gone_after_s`.

    It probes an idle connection, and gives up one whose bytes nobody acknowledges. Platforms without an option keep
    their own, longer times.
    """
    handle = transport.get_extra_info("socket")
    if handle is not None:
        watch_socket(handle, gone_after_s=gone_after_s)


def watch_socket(handle: socket.socket, *, gone_after_s: float) -> None:
    """Watch a socket as `watch_peer` does a transport."""
    probe_s = max(1, int(gone_after_s / (_PROBES + 1)))
    options = (
        (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
        (socket.IPPROTO_TCP, "TCP_KEEPIDLE", probe_s),
        (socket.IPPROTO_TCP, "TCP_KEEPINTVL", probe_s),
        (socket.IPPROTO_TCP, "TCP_KEEPCNT", _PROBES),
        (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", int(gone_after_s * 1000)),
    )
    for level, name, value in options:
        option = getattr(socket, name, getattr(socket, "TCP_KEEPALIVE", None) if name == "TCP_KEEPIDLE" else None)
        if option is not None:
            with contextlib.suppress(OSError):
                handle.setsockopt(level, option, value)
