"""Checks for free TCP ports.

The invariant: no port is reserved; a port that is free now may be in use a moment later, so the server still
handles a refusal.
"""

from __future__ import annotations

import socket

from pytubemq.errors import ConfigError
from pytubemq.model.ids import Address

MAX_TRIES = 100


def is_free(address: Address) -> bool:
    """True if a server could listen there now. Port 0 always can."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address.host, address.port))
            # Linux lets two sockets with SO_REUSEADDR bind while neither listens; listening shows it.
            probe.listen(1)
        except OSError:
            return False
    return True


def next_free(address: Address) -> Address:
    """Return the address itself, or the same host with the first free port above it.

    Raises:
        ConfigError: a hundred ports in a row are in use.
    """
    for port in range(address.port, min(address.port + MAX_TRIES, 65_536)):
        candidate = Address(address.host, port)
        if is_free(candidate):
            return candidate
    raise ConfigError(
        f"no port from {address.port} on is free at {address.host}",
        hint="name a free one in the settings",
    )
