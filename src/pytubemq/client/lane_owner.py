"""What the way to a Broker and its producer have to say to each other.

The invariant: a lane decides nothing about a message's end or another way for it; it tells, and its producer decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pytubemq.client.cluster import Cluster
    from pytubemq.client.flight import Numbers
    from pytubemq.client.lane import Lane
    from pytubemq.client.pending import Unit
    from pytubemq.client.tasks import Tasks
    from pytubemq.errors import TubeError


class LaneOwner(Protocol):
    """What a lane needs of its producer."""

    cluster: Cluster
    client_id: str
    topic: str
    request_timeout_s: float
    linger_s: float
    batching: bool
    tasks: Tasks
    numbers: Numbers

    def settled(self, messages: int, size_bytes: int, *, delivered: bool = False) -> None:
        """So much has its result."""

    def refused(self, unit: Unit, error: TubeError) -> bool:
        """Whether this is to be sent again; if not, its future has failed."""
        ...

    def hand_over(self) -> None:
        """Queue what was gathered of the messages that come one behind the other."""

    def drained(self) -> None:
        """Everything that was queued for a Broker that takes packs has left."""

    def broker_failed(self, lane: Lane, error: TubeError) -> None:
        """The lane's Broker cannot be reached or does not serve."""

    def broker_answered(self, lane: Lane) -> None:
        """The lane's Broker serves."""
