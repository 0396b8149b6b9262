"""UDP sockets: for news that may be lost.

The invariant: a socket that is returned is the caller's to close; one that could not be made is closed here.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytubemq.model.ids import Address


def datagrams_to(there: Address) -> socket.socket:
    """Return a socket whose `send` goes to that address, and never waits.

    Raises:
        OSError: there is no way to it.
    """
    family, kind, protocol, _, address = socket.getaddrinfo(there.host, there.port, type=socket.SOCK_DGRAM)[0]
    made = socket.socket(family, kind, protocol)
    try:
        made.setblocking(False)
        made.connect(address)
    except BaseException:
        made.close()
        raise
    return made


def datagrams_beside(there: Address) -> socket.socket:
    """Return a socket on a free port of the address from which this machine reaches the other one.

    It is on loopback if the other address is this machine's.

    Raises:
        OSError: there is no way to it, or no port.
    """
    with datagrams_to(there) as towards:
        family, host = towards.family, towards.getsockname()[0]
    made = socket.socket(family, socket.SOCK_DGRAM)
    try:
        made.bind((host, 0))
    except BaseException:
        made.close()
        raise
    return made
