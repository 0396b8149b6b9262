"""Sockets: the operating system's options for connections, and UDP sockets for news that may be lost.

The invariants: a peer that vanished without notice (a cut cable, a host that is gone, a firewall that forgot us) ends
the connection within a bounded time, whichever side sends next; a UDP socket that is returned is the caller's to close,
and one that could not be opened is closed here.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator

    from pytubemq.model.ids import Address

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


def datagrams_to(there: Address) -> socket.socket:
    """Return a socket whose `send` goes to that address, and never waits.

    Raises:
        OSError: there is no way to it.
    """
    family, kind, protocol, _, address = socket.getaddrinfo(there.host, there.port, type=socket.SOCK_DGRAM)[0]
    datagrams = socket.socket(family, kind, protocol)
    try:
        datagrams.setblocking(False)
        datagrams.connect(address)
    except BaseException:
        datagrams.close()
        raise
    return datagrams


def datagrams_beside(there: Address) -> socket.socket:
    """Return a socket on a free port of the address from which this machine reaches the other one.

    It is on loopback if the other address is this machine's.

    Raises:
        OSError: there is no way to it, or no port.
    """
    with datagrams_to(there) as towards:
        family, host = towards.family, towards.getsockname()[0]
    datagrams = socket.socket(family, socket.SOCK_DGRAM)
    try:
        datagrams.bind((host, 0))
    except BaseException:
        datagrams.close()
        raise
    return datagrams


@contextlib.contextmanager
def deadline(sock: socket.socket, timeout_s: float, over: threading.Event) -> Iterator[None]:
    """End a request that takes longer in all, and set `over`: the socket's own timeout begins anew with every byte."""

    def end() -> None:
        over.set()
        with contextlib.suppress(OSError):
            # Not that of TLS, which would take its state away from the thread that reads.
            socket.socket.shutdown(sock, socket.SHUT_RDWR)

    timer = threading.Timer(timeout_s, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def close_once(transport: asyncio.BaseTransport) -> None:
    """Close a transport unless it is closing: closed twice, asyncio's TLS transport forgets its protocol, and then
    `abort` does nothing, or fails (Python 3.11.2).
    """
    if not transport.is_closing():
        transport.close()
