"""The identity of this process: a client made in a parent is refused in its forked child, and client ids are unique.

A fork copies the memory but not the I/O: a child that wrote to the parent's sockets would break both.
"""

from __future__ import annotations

import itertools
import os
import time

from pytubemq._version import __version__
from pytubemq.errors import ForkedError
from pytubemq.wire.text.client_id import ClientId, format_client_id


class ForkCount:
    """Counts the forks that led to this process; comparing two numbers is cheaper than asking for the pid."""

    number = 0

    @classmethod
    def forked(cls) -> None:
        cls.number += 1


os.register_at_fork(after_in_child=ForkCount.forked)

_counter = itertools.count(1)


def current_fork() -> int:
    """Return the number of this process, to be kept when a client is made."""
    return ForkCount.number


def check_fork(made_in: int) -> None:
    """Refuse use in a forked child.

    Raises:
        ForkedError: this process is not the one the client was made in.
    """
    if made_in != ForkCount.number:
        raise ForkedError(
            "this connection was made in the parent process and cannot be used in a forked child",
            hint="connect again in the child",
        )


def new_client_id(host: str, *, group: str | None = None, kind: str | None = None, name: str = "") -> str:
    """Return a client id that no other client in the world has."""
    version = f"py{__version__}" + (f".{name}" if name else "")
    return format_client_id(
        ClientId(
            ip=host.replace("_", "."),
            pid=os.getpid(),
            started_ms=time.time_ns() // 1_000_000,
            counter=next(_counter),
            version=version.replace("-", "."),
            group=group,
            kind=kind,
        )
    )
