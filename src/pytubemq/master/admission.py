"""Limits on the number of registered clients and on the bytes they report, and the choice of who makes room for others.

The invariants: the bytes that registered producers and consumers report (topics, filters, partitions) are bounded.
Places are shared by address, then by connection: when all are taken, a new client replaces one from the origin with the
most clients, if that origin has clearly more than the new client's own, so nobody can keep all others out. Clients
that never sent a heartbeat go first; when bytes run out instead of places, only these go. When every origin has a fair
share, a new client is refused, and registered ones stay: neither a heartbeat nor another registration of theirs is
refused for its size, because a refusal would end them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytubemq.errors import Code
from pytubemq.master.answers import RefusalError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

Origin = tuple[str, int]
"""A client's host and connection."""
NOWHERE: Origin = ("", 0)


@dataclass(slots=True)
class _Place:
    """One registered client."""

    origin: Origin
    registered_bytes: int
    size_bytes: int
    has_sent_heartbeat: bool = False
    """True once it has sent a heartbeat."""


class Admission:
    """All registered clients with the bytes of what they said: of the registration, or of a longer last heartbeat."""

    def __init__(self, *, max_clients: int, max_bytes: int) -> None:
        self._max_clients = max_clients
        self._max_bytes = max_bytes
        self._places: dict[Hashable, _Place] = {}
        self._origins: dict[str, dict[int, dict[Hashable, None]]] = {}
        """Clients by host and connection, in the order in which they registered."""
        self._hosts: dict[str, int] = {}
        """Number of clients by host."""
        self.total_bytes = 0
        self.made_room = 0
        """Clients that had to make room for others."""
        self.on_dropped: Callable[[Hashable], None] = self.leave
        """Callback that ends the registration of a client that has to make room; it calls `leave`."""

    def __len__(self) -> int:
        return len(self._places)

    @property
    def problem(self) -> str | None:
        """The reason why there is no room for clients; None if there is."""
        if len(self._places) >= self._max_clients:
            return f"all {self._max_clients} places for producers and consumers are taken"
        if self.total_bytes >= self._max_bytes:
            return f"producers and consumers have reported {self.total_bytes} bytes, {self._max_bytes} are allowed"
        return None

    def check(self, key: Hashable, size_bytes: int, origin: Origin = NOWHERE) -> None:
        """Make room for a client that reports `size_bytes`, or refuse it; a registered client is never refused.

        Raises:
            RefusalError: there are too many clients, or they report too much, and none has to make room.
        """
        if key in self._places:
            return
        while len(self._places) >= self._max_clients:
            if not self._make_room(origin):
                raise RefusalError(
                    Code.BAD_REQUEST, f"this Master has {len(self._places)} clients, {self._max_clients} are allowed"
                )
        while self.total_bytes + size_bytes > self._max_bytes:
            if not self._drop(self._largest_idle()):
                raise RefusalError(
                    Code.BAD_REQUEST,
                    f"the clients of this Master have reported {self.total_bytes} bytes of topics, filters and "
                    f"partitions, and this one {size_bytes} more; {self._max_bytes} are allowed",
                )

    def enter(self, key: Hashable, size_bytes: int, origin: Origin = NOWHERE) -> None:
        """It was taken in with so much."""
        known = self._places.get(key)
        self.leave(key)
        self._places[key] = _Place(origin, size_bytes, 0, known is not None and known.has_sent_heartbeat)
        host, connection = origin
        self._origins.setdefault(host, {}).setdefault(connection, {})[key] = None
        self._hosts[host] = self._hosts.get(host, 0) + 1
        self._resize(key, size_bytes)

    def heard(self, key: Hashable, size_bytes: int = 0) -> None:
        """A client that is in says so much in a heartbeat, in place of what its last one said; never refused.

        It counts no less than its registration, whose filters are remembered and are in no heartbeat.
        """
        place = self._places.get(key)
        if place is not None:
            place.has_sent_heartbeat = True
            self._resize(key, max(size_bytes, place.registered_bytes))

    def beat(self, key: Hashable) -> None:
        """Record a registered client's heartbeat that reports nothing about itself."""
        place = self._places.get(key)
        if place is not None:
            place.has_sent_heartbeat = True

    def leave(self, key: Hashable) -> None:
        """It is gone."""
        place = self._places.get(key)
        if place is None:
            return
        self._resize(key, 0)
        del self._places[key]
        host, connection = place.origin
        connections = self._origins[host]
        del connections[connection][key]
        if not connections[connection]:
            del connections[connection]
        self._hosts[host] -= 1
        if not connections:
            del self._origins[host], self._hosts[host]

    # --- room ---------------------------------------------------------------------------------------------------

    def _make_room(self, origin: Origin) -> bool:
        """Drop a client of the largest origin; return False if that is not clearly larger than the new client's."""
        host, connection = origin
        crowd = max(self._hosts, key=self._hosts.__getitem__, default=host)
        carried = max(self._origins.get(crowd, {}).values(), key=len, default={})
        most, own = self._hosts.get(crowd, 0), self._hosts.get(host, 0)
        if crowd == host:  # then its connections share
            most, own = len(carried), len(self._origins.get(host, {}).get(connection, ()))
        if most <= own + 1:
            return False
        newest = next(reversed(carried))
        return self._drop(next((key for key in reversed(carried) if not self._places[key].has_sent_heartbeat), newest))

    def _largest_idle(self) -> Hashable | None:
        """Return the client that reports most, of those that never sent a heartbeat."""
        idle = (key for key, place in self._places.items() if not place.has_sent_heartbeat)
        return max(idle, key=lambda key: self._places[key].size_bytes, default=None)

    def _drop(self, key: Hashable | None) -> bool:
        if key is None:
            return False
        self.made_room += 1
        self.on_dropped(key)
        self.leave(key)
        return True

    def _resize(self, key: Hashable, size_bytes: int) -> None:
        place = self._places[key]
        more = size_bytes - place.size_bytes
        place.size_bytes = size_bytes
        self.total_bytes += more
