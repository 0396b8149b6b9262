"""The interface between a partition's consumer and the consumer that owns it.

The invariant: a partition's consumer does not decide which partitions are consumed; it reports, and its owner decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pytubemq.client.session import requests

if TYPE_CHECKING:
    from pytubemq.client.consumer.fetch_throttle import RateLimits
    from pytubemq.client.options import FetchOptions
    from pytubemq.client.received.batch import Batch
    from pytubemq.client.session.events import Event
    from pytubemq.errors import TubeError
    from pytubemq.model.ids import Address, Partition


class OwnedPartition(Protocol):
    """The part of a reporting partition that a consumer needs."""

    partition: Partition

    @property
    def address(self) -> Address:
        """The last known address of its Broker."""
        ...

    def hand_out(self, batch: Batch) -> bool:
        """Hand the batch to the user; False if it is no longer valid."""
        ...


class PartitionOwner(requests.Requester, Protocol):
    """The part of its owner that a partition's consumer needs."""

    fetch_options: FetchOptions | None
    rates: RateLimits
    registered_before: set[Partition]
    """Partitions that a Broker has registered for this client before."""
    occupied_for_s: float
    """Seconds to wait while another member has the partition."""

    def emit(self, event: Event) -> None:
        """Emit an event to the user."""

    @property
    def has_ready(self) -> bool:
        """True if batches are ready for the user."""
        ...

    def add_ready(self, partition: OwnedPartition, batch: Batch) -> None:
        """Add a batch that is ready for the user."""

    def count(self, *, fetched: int = 0, confirmed: int = 0, skipped: int = 0, repeated: int = 0) -> None:
        """Count messages."""

    def give_up(self, partition: OwnedPartition, error: TubeError) -> None:
        """Give up a partition that the Broker refuses."""

    async def report_unreachable(self, partition: OwnedPartition, error: TubeError, *, again: bool) -> None:
        """Report that the Broker cannot be reached; `again`: repeatedly, so it may have moved."""

    def report_reached(self, partition: OwnedPartition) -> None:
        """Report that the Broker has accepted the registration."""
