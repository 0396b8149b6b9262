"""Sockets for servers: first bound, which reserves the port, then listening, which opens it.

The invariant: a bound socket that does not listen yet refuses connections, so a server that must be ready before its
first client can reserve its port and open it last.
"""

from __future__ import annotations

import errno
import random
import socket
from typing import Final, TypeAlias

from pytubemq.errors import ConfigError
from pytubemq.model.ids import Address

BACKLOG = 1024
"""Connections that the operating system keeps until they are accepted."""

ANY_PORTS: Final = range(20_000, 32_768)
"""Where a server that may take any port takes one: below the ports that operating systems give to callers (from 32768
on Linux, from 49152 elsewhere), so that no caller gets the port of a server that is about to restart.
"""

_TRIES: Final = 64

ListeningSocket: TypeAlias = socket.socket


def bind(
    listen: Address, *, name: str, send_buffer_bytes: int | None = None, sends_at_once: bool = False
) -> ListeningSocket:
    """Return a socket bound to the address, which does not listen yet; port 0 picks a free one of ANY_PORTS.

    `name` is the server's name, for the error. `send_buffer_bytes` is about how much of a response the operating system
    buffers; the server can count only the rest. None leaves that to the system, which may buffer megabytes. A server
    that writes a response in several pieces `sends_at_once`: else the system keeps the second one until the peer has
    acknowledged the first, which it may put off for 40 ms.

    Raises:
        ConfigError: the address is in use or not of this machine.
    """
    try:
        bound = socket.socket(socket.AF_INET6 if ":" in listen.host else socket.AF_INET, socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigError(f"{name} cannot listen on {listen}: {error.strerror or error}") from error
    try:
        if listen.port == 0:
            _bind_anywhere(bound, listen.host)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if send_buffer_bytes is not None:  # accepted sockets inherit it, if it is set before they come
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
        if sends_at_once:  # inherited, too
            bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if listen.port != 0:
            bound.bind((listen.host, listen.port))
        bound.setblocking(False)
    except OSError as error:
        bound.close()
        raise _refusal(name, listen, error) from error
    return bound


def _bind_anywhere(unbound: socket.socket, host: str) -> None:
    """Bind to a port of ANY_PORTS that nobody has, or to what the operating system gives when it finds none.

    It must not have SO_REUSEADDR yet: two servers that both have it may bind to one port before either listens.
    """
    dice = random.SystemRandom()
    for port in (dice.choice(ANY_PORTS) for _ in range(_TRIES)):
        try:
            unbound.bind((host, port))
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
        else:
            return
    unbound.bind((host, 0))


def open_port(bound: ListeningSocket, *, name: str) -> None:
    """Listen on a bound socket: from now on the operating system accepts connections, and keeps them until the server
    does.

    Raises:
        ConfigError: another program has begun to listen there meanwhile.
    """
    try:
        bound.listen(BACKLOG)
    except OSError as error:
        raise _refusal(name, address_of(bound), error) from error


def address_of(bound: ListeningSocket) -> Address:
    """Return the address that a socket is bound to."""
    host, port = bound.getsockname()[:2]
    return Address(str(host), int(port))


def _refusal(name: str, listen: Address, error: OSError) -> ConfigError:
    if error.errno == errno.EADDRINUSE:
        return ConfigError(
            f"{name} cannot listen on {listen}: the port is in use", hint="stop what uses it, or choose another port"
        )
    reason = "the host name is unknown" if isinstance(error, socket.gaierror) else (error.strerror or str(error))
    return ConfigError(
        f"{name} cannot listen on {listen}: {reason}", hint="give an address of this machine as `listen`"
    )
