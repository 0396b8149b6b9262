"""Limits on the number of registered clients and on the bytes they report, and the choice of who makes room for others.

The invariants: the bytes that registered producers and consumers report (topics, filters, partitions) are bounded,
also those that a registered client adds later.
Places and bytes are shared by address, then by connection: when all are taken, a new client replaces one from the
origin that has most, if that origin has clearly more than the new client's own, so nobody can keep all others out.
Clients that never sent a heartbeat go first. When every origin has a fair share, a new client is refused, and
registered ones stay: who may not report more keeps what it has reported before. Making room takes time in proportion to
the clients that go, at most `MAX_DROPPED_FOR_ONE`, however many are registered.
"""

from __future__ import annotations

import heapq
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn

from pytubemq.core.fair_places import FairPlaces
from pytubemq.core.key_counts import KeyCounts
from pytubemq.core.key_sizes import KeySizes
from pytubemq.core.refusal import Refused
from pytubemq.errors import Code
from pytubemq.model.limits import MAX_DROPPED_FOR_ONE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Sequence

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


REFUSALS_SHOWN_S: Final = 60.0
"""Seconds for which the health shows that clients were refused for want of room."""
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

    def __init__(self, *, max_clients: int, max_bytes: int, now_s: Callable[[], float] = time.monotonic) -> None:
        self._max_clients = max_clients
        self._max_bytes = max_bytes
        self._now_s = now_s
        self._refused: tuple[float, str] | None = None
        """When a client was last refused for want of room, and why."""
        self._places: dict[Hashable, _Place] = {}
        self._shares: FairPlaces[Hashable, int] = FairPlaces()
        """The clients by origin; one that never sent a heartbeat is idle."""
        self._idle = IdleClients()
        self._host_bytes: KeySizes[str] = KeySizes()
        self._connection_bytes: dict[str, KeySizes[int]] = {}
        """Bytes by connection, by host."""
        self._client_bytes: dict[Origin, KeySizes[Hashable]] = {}
        self.total_bytes = 0
        self.made_room = 0
        """Clients that had to make room for others."""
        self.on_dropped: Callable[[Hashable], None] = self.leave
        """Callback that ends the registration of a client that has to make room; it calls `leave`."""
        self.on_left: Callable[[Hashable], None] = lambda key: None
        """Callback for each client that is gone, with its last registration; it may have one in each of many groups."""
        self._clients: KeyCounts[Hashable] = KeyCounts()
        """Number of registrations by client."""

    def __len__(self) -> int:
        return len(self._places)

    @property
    def problem(self) -> str | None:
        """The reason why there is no room for clients; None if there is."""
        if len(self._places) >= self._max_clients:
            return f"all {self._max_clients} places for producers and consumers are taken"
        if self.total_bytes >= self._max_bytes:
            return f"producers and consumers have reported {self.total_bytes} bytes, {self._max_bytes} are allowed"
        if self._refused is not None and self._now_s() < self._refused[0] + REFUSALS_SHOWN_S:
            return f"clients were refused within the last {REFUSALS_SHOWN_S:.0f} s: {self._refused[1]}"
        return None

    def check(self, key: Hashable, size_bytes: int, origin: Origin = NOWHERE) -> None:
        """Make room for a client that registers with `size_bytes`, or for what it has more than before, or refuse it.

        Raises:
            Refused: there are too many clients, or they report too much, and none has to make room.
        """
        known = self._places.get(key)
        if known is None:
            self._make_room(key, size_bytes, origin, self._for_place(origin))
        else:
            self._make_room(key, size_bytes - known.size_bytes, origin, [])

    def _make_room(self, key: Hashable, more_bytes: int, origin: Origin, dropped: list[Hashable]) -> None:
        """Drop clients so that this one has room for `more_bytes`; `dropped` are those that give it a place."""
        if more_bytes > 0:
            short_bytes = self.total_bytes - sum(self._places[one].size_bytes for one in dropped) + more_bytes
            dropped += self._for_bytes(short_bytes - self._max_bytes, more_bytes, origin, (key, *dropped))
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
        self._clients.add(client_of(key))
        self._shares.enter(key, origin, is_idle=not place.has_sent_heartbeat)
        if not place.has_sent_heartbeat:
            self._idle.add(key, size_bytes)
        self._resize(key, size_bytes)

    def record_report(self, key: Hashable, size_bytes: int = 0) -> None:
        """Record the size of what a client reports in a heartbeat, replacing the last one.

        It counts no less than its registration, whose filters are remembered and are in no heartbeat.

        Raises:
            Refused: 400, there is no room for what it reports more than before; that is not to be remembered.
        """
        self.record_heartbeat(key)
        place = self._places.get(key)
        if place is not None:
            size_bytes = max(size_bytes, place.registered_bytes)
            self._make_room(key, size_bytes - place.size_bytes, place.origin, [])
            self._resize(key, size_bytes)

    def record_heartbeat(self, key: Hashable) -> None:
        """Record a registered client's heartbeat that reports nothing about itself."""
        place = self._places.get(key)
        if place is not None and not place.has_sent_heartbeat:
            place.has_sent_heartbeat = True
            self._idle.remove(key)
            self._shares.record_use(key, place.origin)

    def leave(self, key: Hashable) -> None:
        """Forget a client that is gone."""
        self._leave(key)
        if not self._clients[client_of(key)]:
            self.on_left(key)

    def _leave(self, key: Hashable) -> None:
        place = self._places.get(key)
        if place is None:
            return
        self._resize(key, 0)
        del self._places[key]
        self._idle.remove(key)
        self._clients.remove(client_of(key))
        self._shares.leave(key, place.origin)

    # --- room ---------------------------------------------------------------------------------------------------

    def _for_place(self, origin: Origin) -> list[Hashable]:
        """Return who makes room when all places are taken: a client of the largest origin.

        Raises:
            Refused: no origin is clearly larger than the new client's.
        """
        if len(self._places) < self._max_clients:
            return []
        found = self._shares.displaced_by(origin)
        if found is None:
            self._refuse(f"this Master has {len(self._places)} clients, {self._max_clients} are allowed")
        return [found]

    def _for_bytes(self, short_bytes: int, more_bytes: int, origin: Origin, but: Sequence[Hashable]) -> list[Hashable]:
        """Return who makes room when `short_bytes` more are reported than are allowed: the largest that are idle.

        Where they report too little, the largest of the origin with most bytes, as long as it has clearly more than the
        origin that wants `more_bytes`. `but` is the client that wants them, and those that go anyway.

        Raises:
            Refused: there is none; then nobody goes.
        """
        if short_bytes <= 0:
            return []
        found = self._idle.largest(short_bytes, most=MAX_DROPPED_FOR_ONE, but=but)
        if found is None:
            found = self._from_largest_origins(short_bytes, more_bytes, origin, but)
        if found is None:
            self._refuse(
                f"the clients of this Master have reported {self.total_bytes} bytes of topics, filters and "
                f"partitions, and this one {more_bytes} more; {self._max_bytes} are allowed"
            )
        return found

    def _from_largest_origins(
        self, short_bytes: int, more_bytes: int, origin: Origin, but: Sequence[Hashable]
    ) -> list[Hashable] | None:
        """Return clients of the largest origins that reported `short_bytes` together; None if these are not enough."""
        sizes = {key: self._places[key].size_bytes for key in but if key in self._places}
        own_bytes = sizes.get(but[0], 0)
        for key in sizes:
            self._count(key, -sizes[key])
        found: list[Hashable] = []
        while short_bytes > 0 and len(found) < MAX_DROPPED_FOR_ONE:
            one = self._largest_beyond(origin, own_bytes + more_bytes)
            if one is None:
                break
            found.append(one)
            sizes[one] = self._places[one].size_bytes
            self._count(one, -sizes[one])
            short_bytes -= sizes[one]
        for key, size_bytes in sizes.items():
            self._count(key, size_bytes)
        return None if short_bytes > 0 else found

    def _largest_beyond(self, origin: Origin, more_bytes: int) -> Hashable | None:
        """Return the largest client of the origin that has more bytes than `origin` would have with so many more."""
        host, connection = origin
        crowd = self._host_bytes.largest()
        if crowd is None:
            return None
        connections = self._connection_bytes[crowd]
        carrier = connections.largest()
        if carrier is None:
            return None
        most, own = self._host_bytes[crowd], self._host_bytes[host]
        if crowd == host:  # then its connections share
            most, own = connections[carrier], connections[connection]
        return self._client_bytes[crowd, carrier].largest() if most > own + more_bytes else None

    def _refuse(self, text: str) -> NoReturn:
        self._refused = (self._now_s(), text)
        raise Refused(Code.BAD_REQUEST, text)

    def _resize(self, key: Hashable, size_bytes: int) -> None:
        place = self._places[key]
        more = size_bytes - place.size_bytes
        if more:
            self._count(key, more)
            place.size_bytes = size_bytes
            self.total_bytes += more

    def _count(self, key: Hashable, more_bytes: int) -> None:
        """Count more bytes of a client with its origin, or fewer."""
        origin = self._places[key].origin
        host, connection = origin
        self._host_bytes.add(host, more_bytes)
        connections = self._connection_bytes.setdefault(host, KeySizes())
        connections.add(connection, more_bytes)
        clients = self._client_bytes.setdefault(origin, KeySizes())
        clients.add(key, more_bytes)
        if not clients:
            del self._client_bytes[origin]
        if not connections:
            del self._connection_bytes[host]


def client_of(key: Hashable) -> Hashable:
    """Return the client of a registration: its kind and its id, without its group."""
    return (key[0], key[-1]) if isinstance(key, tuple) else key
