"""Clients by the connection that they use, so that a broken connection is noticed for every client that it carried.

The invariant: only the connection that a client used last counts; an older one that breaks is ignored. One of our
clients comes back at once when its connection breaks; another (Java, C++, Go) does not notice before its next
heartbeat, so callers decide what a break means for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pytubemq.core.refusal import Refused
from pytubemq.errors import Code
from pytubemq.wire.protocol.extensions import Capability

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable


class Connection(Protocol):
    """The part of a connection that this room uses."""

    @property
    def capabilities(self) -> Capability:
        """The extensions that the peer supports."""
        ...


def origin_of(peer: str, connection: object) -> tuple[str, int]:
    """Return a client's origin: the host in its connection's `host:port`, and the connection."""
    return peer.rpartition(":")[0], id(connection)


class ClientConnections:
    """Clients by key, each with its latest connection; `on_foreign_lost` is called for those that are not ours."""

    def __init__(
        self, on_lost: Callable[[Hashable], None], *, on_foreign_lost: Callable[[Hashable], None] | None = None
    ) -> None:
        self._on_lost = on_lost
        self._on_foreign_lost = on_foreign_lost
        self._connection: dict[Hashable, Connection] = {}
        self._carried: dict[int, set[Hashable]] = {}

    def check_room(self, key: Hashable, connection: Connection, *, most: int) -> None:
        """Check that this connection may carry one more client.

        Raises:
            Refused: it carries `most` others.
        """
        carried = self._carried.get(id(connection), ())
        if key not in carried and len(carried) >= most:
            raise Refused(
                Code.BAD_REQUEST, f"this connection has {len(carried)} clients of this kind, {most} are allowed"
            )

    def record_use(self, key: Hashable, connection: Connection) -> bool:
        """Record that a client used a connection; return True if it used another one before, or none."""
        before = self._connection.get(key)
        if before is connection:
            return False
        if before is not None:
            self._carried.get(id(before), set()).discard(key)
        self._connection[key] = connection
        self._carried.setdefault(id(connection), set()).add(key)
        return True

    def carries(self, key: Hashable, connection: Connection) -> bool:
        """True if a client last used this connection, and it is not broken."""
        return self._connection.get(key) is connection

    def is_ours(self, key: Hashable) -> bool:
        """True if a connected client is one of ours."""
        connection = self._connection.get(key)
        return connection is not None and Capability.HEARTBEAT_WAIT in connection.capabilities

    def forget(self, key: Hashable) -> None:
        """Forget a client that is gone."""
        connection = self._connection.pop(key, None)
        if connection is not None:
            self._carried.get(id(connection), set()).discard(key)

    def close(self, connection: Connection) -> None:
        """Call back for every client of a closed connection."""
        for key in self._carried.pop(id(connection), set()):
            del self._connection[key]
            if Capability.HEARTBEAT_WAIT in connection.capabilities:
                self._on_lost(key)
            elif self._on_foreign_lost is not None:
                self._on_foreign_lost(key)
