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

import heapq
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytubemq.core.key_counts import KeyCounts
from pytubemq.core.refusal import Refused
from pytubemq.errors import Code
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


_SPARE_ENTRIES: Final = 64
"""Outdated entries that a heap may always have; beyond them it has no more than current ones."""


class IdleClients:
    """Clients that never sent a heartbeat, by the bytes that they reported."""

    def __init__(self) -> None:
        self._entries: dict[Hashable, tuple[int, int, Hashable]] = {}
        self._heap: list[tuple[int, int, Hashable]] = []
        self._next = 0

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, key: Hashable, size_bytes: int) -> None:
        """Add a client that is not in."""
        self._next += 1  # no two entries compare beyond it
        entry = self._entries[key] = (-size_bytes, self._next, key)
        heapq.heappush(self._heap, entry)

    def remove(self, key: Hashable) -> None:
        """Forget a client, if it is in."""
        if self._entries.pop(key, None) is None:
            return
        if len(self._heap) > 2 * len(self._entries) + _SPARE_ENTRIES:
            self._heap = list(self._entries.values())
            heapq.heapify(self._heap)

    def largest(self, size_bytes: int, *, most: int, but: Collection[Hashable] = ()) -> list[Hashable] | None:
        """Return the largest clients that reported at least `size_bytes` together; None if `most` did not."""
        found: list[tuple[int, int, Hashable]] = []
        passed: list[tuple[int, int, Hashable]] = []
        while self._heap and size_bytes > 0 and len(found) < most:
            entry = heapq.heappop(self._heap)
            if self._entries.get(entry[2]) is not entry:
                continue
            if entry[2] in but:
                passed.append(entry)
                continue
            found.append(entry)
            size_bytes += entry[0]
        for entry in (*found, *passed):
            heapq.heappush(self._heap, entry)
        return None if size_bytes > 0 else [key for _, _, key in found]


class ClientAdmission:
    """All registered clients with the bytes of what they said: of the registration, or of a longer last heartbeat."""

    def __init__(self, *, max_clients: int, max_bytes: int) -> None:
        self._max_clients = max_clients
        self._max_bytes = max_bytes
        self._places: dict[Hashable, _Place] = {}
        self._hosts: KeyCounts[str] = KeyCounts()
        """Number of clients by host."""
        self._connections: dict[str, KeyCounts[int]] = {}
        """Number of clients by connection, by host."""
        self._carried: dict[Origin, dict[Hashable, None]] = {}
        """Clients by origin, in the order in which they registered."""
        self._idle_carried: dict[Origin, dict[Hashable, None]] = {}
        """Those of them that never sent a heartbeat."""
        self._idle = IdleClients()
        self.total_bytes = 0
        self.made_room = 0
        """Clients that had to make room for others."""
        self.on_dropped: Callable[[Hashable], None] = self.leave
        """Callback that ends the registration of a client that has to make room; it calls `leave`."""
        self.on_left: Callable[[Hashable], None] = lambda key: None
        """Callback for each client that is gone."""

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
            Refused: there are too many clients, or they report too much, and none has to make room.
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
                "removed %d clients to make room for %s from %s; the first is %s",
                len(dropped),
                key,
                origin[0],
                dropped[0],
            )

    def enter(self, key: Hashable, size_bytes: int, origin: Origin = NOWHERE) -> None:
        """Enter a client whose registration has this size."""
        known = self._places.get(key)
        self._leave(key)
        place = self._places[key] = _Place(origin, size_bytes, 0, known is not None and known.has_sent_heartbeat)
        host, connection = origin
        self._hosts.add(host)
        self._connections.setdefault(host, KeyCounts()).add(connection)
        self._carried.setdefault(origin, {})[key] = None
        if not place.has_sent_heartbeat:
            self._idle_carried.setdefault(origin, {})[key] = None
            self._idle.add(key, size_bytes)
        self._resize(key, size_bytes)

    def record_report(self, key: Hashable, size_bytes: int = 0) -> None:
        """Record the size of what a client reports in a heartbeat, replacing the last one; never refused.

        It counts no less than its registration, whose filters are remembered and are in no heartbeat.
        """
        self.record_heartbeat(key)
        place = self._places.get(key)
        if place is not None:
            self._resize(key, max(size_bytes, place.registered_bytes))

    def record_heartbeat(self, key: Hashable) -> None:
        """Record a registered client's heartbeat that reports nothing about itself."""
        place = self._places.get(key)
        if place is not None and not place.has_sent_heartbeat:
            place.has_sent_heartbeat = True
            self._no_longer_idle(key, place)

    def leave(self, key: Hashable) -> None:
        """Forget a client that is gone."""
        self._leave(key)
        self.on_left(key)

    def _leave(self, key: Hashable) -> None:
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
            Refused: no origin is clearly larger than the new client's.
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
            Refused: they report too little; then nobody goes.
        """
        found = self._idle.largest(short_bytes, most=MAX_DROPPED_FOR_ONE, but=dropped) if short_bytes > 0 else []
        if found is None:
            raise Refused(
                Code.BAD_REQUEST,
                f"the clients of this Master have reported {self.total_bytes} bytes of topics, filters and "
                f"partitions, and this one {size_bytes} more; {self._max_bytes} are allowed",
            )
        return found

    def _no_place(self) -> Refused:
        return Refused(
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
