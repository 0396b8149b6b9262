"""The hosts that the connections of a server come from, and what each of them uses.

The invariant: a host's sums are those of its connections. A host is known while it has one.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

from pytubemq.core.key_counts import KeyCounts
from pytubemq.model.limits import KIB

if TYPE_CHECKING:
    from collections.abc import Iterable

OPEN_CALL_BYTES: Final = 2 * KIB
"""The memory of a call that waits for its response, beside its body: its request, a task, a future."""
RUN_CALL_BYTES: Final = 64
"""The same for each call of a run."""
_LEAST_CALL_BYTES: Final = 8 * OPEN_CALL_BYTES
"""The calls that each connection may have open, whatever others have."""


class Member(Protocol):
    """The part of a connection that is needed here."""

    last_byte_s: float
    open_calls: int


class Host:
    """One host, its connections, and the bytes that they buffer together."""

    __slots__ = ("_idle", "buffered_bytes", "connections", "name", "unserved_bytes", "unused")

    def __init__(self, name: str) -> None:
        self.name = name
        self.connections: dict[Member, None] = {}
        self.unused: dict[Member, None] = {}
        """Those of which no request was served so far, the oldest first."""
        self.buffered_bytes = 0
        """The bytes of unserved and of unanswered requests."""
        self.unserved_bytes = 0
        """The part of these that is not served yet: incomplete frames, and requests that were put off."""
        self._idle: deque[tuple[float, Member]] = deque()
        """Connections with the times of their last bytes, the earliest first, as of the last search."""

    @property
    def call_bytes(self) -> int:
        """The bytes of unanswered calls."""
        return self.buffered_bytes - self.unserved_bytes

    def least_active(self) -> Member | None:
        """Return the connection that has been silent for longest, of those without an open call if there are any."""
        for _ in range(2):
            while self._idle:
                last_byte_s, member = self._idle.popleft()
                if member in self.connections and member.last_byte_s == last_byte_s:
                    return member
            by_time = sorted(self.connections, key=lambda member: (bool(member.open_calls), member.last_byte_s))
            self._idle = deque((member.last_byte_s, member) for member in by_time)
        return None


class Hosts:
    """The hosts of one server."""

    def __init__(self) -> None:
        self._by_name: dict[str, Host] = {}
        self._counts: KeyCounts[str] = KeyCounts()
        self._unused_counts: KeyCounts[str] = KeyCounts()
        self._call_share_bytes = 0

    def enter(self, name: str, member: Member) -> Host:
        """Add an unused connection of the host with this name; return the host."""
        host = self._by_name.get(name)
        if host is None:
            host = self._by_name[name] = Host(name)
        host.connections[member] = host.unused[member] = None
        self._counts.add(name)
        self._unused_counts.add(name)
        return host

    def mark_used(self, host: Host, member: Member) -> None:
        """Record that a request of this connection was served."""
        if member in host.unused:
            del host.unused[member]
            self._unused_counts.remove(host.name)

    def leave(self, host: Host, member: Member) -> None:
        """Remove a connection, which holds nothing any more."""
        self.mark_used(host, member)
        del host.connections[member]
        self._counts.remove(host.name)
        if not host.connections:
            del self._by_name[host.name]

    def crowding(self, name: str) -> Host | None:
        """Return the host with most connections, if it has at least twice as many as this one will have, else None."""
        largest = self._counts.largest()
        if largest is None or self._counts[largest] < 2 * (self._counts[name] + 1):
            return None
        return self._by_name[largest]

    def most_unused(self) -> Host | None:
        """Return the host with most unused connections; None if there are none."""
        name = self._unused_counts.largest()
        return None if name is None else self._by_name[name]

    def largest_buffer(self) -> Host | None:
        """Return the host that buffers most."""
        return max(self._by_name.values(), key=lambda host: host.buffered_bytes, default=None)

    # --- open calls ---------------------------------------------------------------------------------------------

    def share_calls(self, max_bytes: int) -> None:
        """Divide the bytes that open calls may take among the hosts: who needs less than an equal part keeps that."""
        self._call_share_bytes = _level((host.call_bytes for host in self._by_name.values()), max_bytes)

    def call_share_bytes(self, host: Host) -> int | None:
        """Return the bytes that the open calls of one connection may take; None while its host has its share or less.

        A connection may always have a few.
        """
        if host.call_bytes <= self._call_share_bytes:
            return None
        return max(_LEAST_CALL_BYTES, self._call_share_bytes // len(host.connections))


def _level(amounts: Iterable[int], total: int) -> int:
    """Return the level at which amounts have to be cut so that their sum is `total`."""
    ordered = sorted(amounts)
    left = total
    for at, amount in enumerate(ordered):
        level = left // (len(ordered) - at)
        if amount > level:
            return level
        left -= amount
    return total
