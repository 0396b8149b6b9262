"""Places that hosts and their connections share: who makes room for a newcomer when all are taken.

The invariant: nobody makes room for an origin that has as much as its own share, so no peer can keep all others out,
and where all have a fair share none goes. Each step takes constant time.
"""

from __future__ import annotations

from typing import Generic, TypeVar, cast

from pytubemq.core.key_counts import KeyCounts

K = TypeVar("K")
C = TypeVar("C")


class FairPlaces(Generic[K, C]):
    """The holders of places by host and connection (`C`): the origin that each entered with."""

    def __init__(self) -> None:
        self._hosts: KeyCounts[str] = KeyCounts()
        self._connections: dict[str, KeyCounts[C]] = {}
        """Number of places by connection, by host."""
        self._all: dict[tuple[str, C], dict[K, None]] = {}
        """Keys by origin, in the order in which they entered."""
        self._idle: dict[tuple[str, C], dict[K, None]] = {}
        """Those of them that were never used."""

    def enter(self, key: K, origin: tuple[str, C], *, is_idle: bool) -> None:
        """Give a key a place; it has none yet."""
        host, connection = origin
        self._hosts.add(host)
        self._connections.setdefault(host, KeyCounts()).add(connection)
        self._all.setdefault(origin, {})[key] = None
        if is_idle:
            self._idle.setdefault(origin, {})[key] = None

    def leave(self, key: K, origin: tuple[str, C]) -> None:
        """Take the place of a key that entered with this origin."""
        host, connection = origin
        self._hosts.remove(host)
        connections = self._connections[host]
        connections.remove(connection)
        if not connections:
            del self._connections[host]
        _discard(self._all, origin, key)
        _discard(self._idle, origin, key)

    def record_use(self, key: K, origin: tuple[str, C]) -> None:
        """Record that a key is used, so that idle ones go before it."""
        _discard(self._idle, origin, key)

    def largest_host(self) -> tuple[str, int]:
        """Return the host with most places, and how many these are; blank and 0 if there is none."""
        host = self._hosts.largest()
        return ("", 0) if host is None else (host, self._hosts[host])

    def displaced_by(self, origin: tuple[str, C]) -> K | None:
        """Return the key that makes room for one of `origin`; None if no origin has clearly more than this one."""
        host, connection = origin
        crowd = self._hosts.largest()
        if crowd is None:
            return None
        connections = self._connections[crowd]
        carrier = cast("C", connections.largest())  # there is one, and it may be None for a connection that is lost
        most, own = self._hosts[crowd], self._hosts[host]
        # Within one host the connections share, so that one of them cannot push out all others.
        if crowd == host:
            most, own = connections[carrier], connections[connection]
        # With less of a difference two peers at the bound would replace each other's for ever.
        if most <= own + 1:
            return None
        largest = (crowd, carrier)
        # The newest that was never used, since it has the least to lose; else the newest of all.
        return next(reversed(self._idle.get(largest) or self._all[largest]))


def _discard(by_origin: dict[tuple[str, C], dict[K, None]], origin: tuple[str, C], key: K) -> None:
    keys = by_origin.get(origin)
    if keys is not None:
        keys.pop(key, None)
        if not keys:
            del by_origin[origin]
