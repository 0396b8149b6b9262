"""A listening socket for a server that brings its own protocol."""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING, TypeAlias

from pytubemq.errors import ConfigError

if TYPE_CHECKING:
    from pytubemq.model.ids import Address

BACKLOG = 128

ListeningSocket: TypeAlias = socket.socket


def bind(listen: Address, *, name: str, send_buffer_bytes: int | None = None) -> ListeningSocket:
    """A socket that listens on the address; port 0 picks a free one. `name` is who wants it, for the error.

    `send_buffer_bytes` is about what the operating system takes of an answer before its peer does; what it has not
    taken, the server can count. None leaves that to the system, which may take megabytes.

    Raises:
        ConfigError: the address is taken or not ours.
    """
    try:
        bound = socket.socket(socket.AF_INET6 if ":" in listen.host else socket.AF_INET, socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigError(f"{name} cannot listen on {listen}: {error.strerror or error}") from error
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if send_buffer_bytes is not None:  # accepted sockets inherit it, if it is set before they come
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
        bound.bind((listen.host, listen.port))
        bound.listen(BACKLOG)
        bound.setblocking(False)
    except OSError as error:
        bound.close()
        taken = error.errno == errno.EADDRINUSE
        raise ConfigError(
            f"{name} cannot listen on {listen}: {'the port is in use' if taken else error.strerror or error}",
            hint="stop what uses it, or choose another port" if taken else "give an address of this machine",
        ) from error
    return bound
