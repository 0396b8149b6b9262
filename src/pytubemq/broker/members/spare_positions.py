"""Positions of groups that no consumer has used since this Broker started, which make room for others.

The invariants: first go positions that peers created by resets, those of the host, then the connection, with the most
of them first, then those of groups that registered and neither fetched nor confirmed; of each the oldest first. A group
that holds a partition loses none. Peers' resets have no more than `most_by_reset` such positions together, so they
cannot take the room of consumers.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, TypeAlias

from pytubemq.core.key_counts import KeyCounts
from pytubemq.model.limits import MAX_RESET_POSITIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytubemq.broker.registration_key import RegistrationKey

_LOOKED_AT: Final = 1_000
"""Positions that are checked for one to remove: those of groups that read are skipped and checked last."""
_Keys: TypeAlias = "OrderedDict[RegistrationKey, None]"


class SparePositions:
    """The positions that may be removed, and their order."""

    def __init__(self, *, most_by_reset: int = MAX_RESET_POSITIONS) -> None:
        self.most_by_reset = most_by_reset
        self.is_reading: Callable[[str], bool] = lambda group: False
        """Returns True if a group has a registration for a partition."""
        self._peer_of: dict[RegistrationKey, str] = {}
        """The peer that created a position by a reset, by position."""
        self._of_peer: dict[str, _Keys] = {}
        self._hosts: KeyCounts[str] = KeyCounts()
        self._peers: dict[str, KeyCounts[str]] = {}
        """Number of positions by peer, by host."""
        self._begun: _Keys = OrderedDict()

    @property
    def by_reset(self) -> int:
        """The number of positions created by resets."""
        return len(self._peer_of)

    @property
    def problem(self) -> str | None:
        """A text while resets have created as many positions as they may; None otherwise."""
        host = self._hosts.largest()
        if host is None or self.by_reset < self.most_by_reset:
            return None
        return (
            f"resets have created {self.by_reset} group positions that no consumer has used, {self._hosts[host]} of "
            f"them from {host or 'nowhere'}: each new one replaces the oldest of the host that has most"
        )

    def record_reset(self, key: RegistrationKey, peer: str) -> None:
        """Record a position that a reset of `peer`, an address with a port, creates."""
        self.record_use(key)
        host = _host(peer)
        self._peer_of[key] = peer
        self._of_peer.setdefault(peer, OrderedDict())[key] = None
        self._hosts.add(host)
        self._peers.setdefault(host, KeyCounts()).add(peer)

    def record_registration(self, key: RegistrationKey) -> None:
        """Record a position that a registration creates."""
        # At the end: the oldest goes first.
        self._begun[key] = None

    def record_use(self, key: RegistrationKey) -> None:
        """Record that a consumer fetches or confirms there, or that the position is gone."""
        # From both lists, since a reset may have created a position before a consumer registered.
        self._begun.pop(key, None)
        peer = self._peer_of.pop(key, None)
        if peer is None:
            return
        _discard(self._of_peer, peer, key)
        host = _host(peer)
        self._hosts.remove(host)
        self._peers[host].remove(peer)
        if not self._peers[host]:
            del self._peers[host]

    def next_by_reset(self) -> RegistrationKey | None:
        """Remove and return the next position that a reset created; None if none may go."""
        host = self._hosts.largest()
        peer = None if host is None else self._peers[host].largest()
        return None if peer is None else self._take(self._of_peer[peer])

    def next(self) -> RegistrationKey | None:
        """Remove and return the next position that may go; None if none may."""
        return self.next_by_reset() or self._take(self._begun)

    def _take(self, keys: _Keys) -> RegistrationKey | None:
        # Bounded, as this runs on the event loop and every group may be reading.
        for _ in range(min(len(keys), _LOOKED_AT)):
            key = next(iter(keys))
            if not self.is_reading(key.group):
                self.record_use(key)
                return key
            # So the next search does not look at the same ones.
            keys.move_to_end(key)
        return None


def _host(peer: str) -> str:
    return peer.rpartition(":")[0]


def _discard(by_peer: dict[str, _Keys], peer: str, key: RegistrationKey) -> None:
    keys = by_peer[peer]
    del keys[key]
    if not keys:
        del by_peer[peer]
