"""Limits on the number of registered clients and on the bytes they report, and the choice of who makes room for others.

The invariants: the bytes that registered producers and consumers report (topics, filters, partitions) are bounded.
Places are shared by address, then by connection: when all are taken, a new client replaces one from the origin with the
most clients, if that origin has clearly more than the new client's own, so nobody can keep all others out. Clients
that never sent a heartbeat go first; when bytes run out instead of places, only these go. When every origin has a fair
share, a new client is refused, and registered ones stay: neither a heartbeat nor another registration of theirs is
refused for its size, because a refusal would end them. Making room takes time in proportion to the clients that go, at
most `MAX_DROPPED_FOR_ONE`, however many are registered.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytubemq.errors import Code
from pytubemq.master.answers import RefusalError
from pytubemq.master.crowds import Crowd, Idle
from pytubemq.model.limits import MAX_DROPPED_FOR_ONE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable

logger = logging.getLogger(__name__)

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
        self._hosts: Crowd[str] = Crowd()
        """Number of clients by host."""
        self._connections: dict[str, Crowd[int]] = {}
        """Number of clients by connection, by host."""
        self._carried: dict[Origin, dict[Hashable, None]] = {}
        """Clients by origin, in the order in which they registered."""
        self._idle_carried: dict[Origin, dict[Hashable, None]] = {}
        """Those of them that never sent a heartbeat."""
        self._idle = Idle()
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
        dropped = self._for_place(origin)
        short_bytes = self.total_bytes - sum(self._places[one].size_bytes for one in dropped) + size_bytes
        dropped += self._for_bytes(short_bytes - self._max_bytes, size_bytes, dropped)
        for one in dropped:
            self.made_room += 1
            self.on_dropped(one)
            self.leave(one)
        if dropped:
            logger.info(
                "%d clients make room for %s from %s, the first is %s", len(dropped), key, origin[0], dropped[0]
            )

    def enter(self, key: Hashable, size_bytes: int, origin: Origin = NOWHERE) -> None:
        """It was taken in with so much."""
        known = self._places.get(key)
        self.leave(key)
        place = self._places[key] = _Place(origin, size_bytes, 0, known is not None and known.has_sent_heartbeat)
        host, connection = origin
        self._hosts.add(host)
        self._connections.setdefault(host, Crowd()).add(connection)
        self._carried.setdefault(origin, {})[key] = None
        if not place.has_sent_heartbeat:
            self._idle_carried.setdefault(origin, {})[key] = None
            self._idle.add(key, size_bytes)
        self._resize(key, size_bytes)

    def heard(self, key: Hashable, size_bytes: int = 0) -> None:
        """A client that is in says so much in a heartbeat, in place of what its last one said; never refused.

        It counts no less than its registration, whose filters are remembered and are in no heartbeat.
        """
        self.beat(key)
        place = self._places.get(key)
        if place is not None:
            self._resize(key, max(size_bytes, place.registered_bytes))

    def beat(self, key: Hashable) -> None:
        """Record a registered client's heartbeat that reports nothing about itself."""
        place = self._places.get(key)
        if place is not None and not place.has_sent_heartbeat:
            place.has_sent_heartbeat = True
            self._no_longer_idle(key, place)

    def leave(self, key: Hashable) -> None:
        """It is gone."""
        place = self._places.get(key)
        if place is None:
            return
        self._resize(key, 0)
        del self._places[key]
        self._no_longer_idle(key, place)
        host, connection = place.origin
        self._hosts.remove(host)
        self._connections[host].remove(connection)
        if not self._connections[host]:
            del self._connections[host]
        _discard(self._carried, place.origin, key)

    def _no_longer_idle(self, key: Hashable, place: _Place) -> None:
        self._idle.remove(key)
        _discard(self._idle_carried, place.origin, key)

    # --- room ---------------------------------------------------------------------------------------------------

    def _for_place(self, origin: Origin) -> list[Hashable]:
        """Return who makes room when all places are taken: a client of the largest origin.

        Raises:
            RefusalError: no origin is clearly larger than the new client's.
        """
        if len(self._places) < self._max_clients:
            return []
        host, connection = origin
        crowd = self._hosts.largest()
        connections = self._connections.get(crowd) if crowd is not None else None
        carrier = connections.largest() if connections is not None else None
        if crowd is None or connections is None or carrier is None:
            raise self._no_place()
        most, own = self._hosts[crowd], self._hosts[host]
        if crowd == host:  # then its connections share
            most, own = connections[carrier], connections[connection]
        if most <= own + 1:
            raise self._no_place()
        idle = self._idle_carried.get((crowd, carrier))
        return [next(reversed(idle or self._carried[crowd, carrier]))]

    def _for_bytes(self, short_bytes: int, size_bytes: int, dropped: Collection[Hashable]) -> list[Hashable]:
        """Return who makes room when `short_bytes` more are reported than are allowed: the largest that are idle.

        Raises:
            RefusalError: they report too little; then nobody goes.
        """
        found = self._idle.largest(short_bytes, most=MAX_DROPPED_FOR_ONE, but=dropped) if short_bytes > 0 else []
        if found is None:
            raise RefusalError(
                Code.BAD_REQUEST,
                f"the clients of this Master have reported {self.total_bytes} bytes of topics, filters and "
                f"partitions, and this one {size_bytes} more; {self._max_bytes} are allowed",
            )
        return found

    def _no_place(self) -> RefusalError:
        return RefusalError(
            Code.BAD_REQUEST, f"this Master has {len(self._places)} clients, {self._max_clients} are allowed"
        )

    def _resize(self, key: Hashable, size_bytes: int) -> None:
        place = self._places[key]
        more = size_bytes - place.size_bytes
        place.size_bytes = size_bytes
        self.total_bytes += more


def _discard(by_origin: dict[Origin, dict[Hashable, None]], origin: Origin, key: Hashable) -> None:
    keys = by_origin.get(origin)
    if keys is not None:
        keys.pop(key, None)
        if not keys:
            del by_origin[origin]
