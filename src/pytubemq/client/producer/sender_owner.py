"""The interface between a Broker's sender and its producer.

The invariant: a sender does not decide how a message ends or where else it goes; it reports, and its producer decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pytubemq.client.producer.messages.send_unit import SendUnit
    from pytubemq.client.producer.sequence_numbers import ProducerIds
    from pytubemq.client.session.cluster import Cluster
    from pytubemq.client.session.tasks import Tasks
    from pytubemq.errors import TubeError


class SenderOwner(Protocol):
    """What a sender needs of its producer."""

    cluster: Cluster
    client_id: str
    topic: str
    request_timeout_s: float
    linger_s: float
    batching: bool
    tasks: Tasks
    producer_ids: ProducerIds

    def record_settled(self, messages: int, size_bytes: int, *, delivered: bool = False) -> None:
        """Free the buffer of messages that have their result."""

    def decide_retry(self, unit: SendUnit, error: TubeError) -> bool:
        """Return True if this unit is to be sent again; otherwise its futures have failed."""
        ...

    def queue_gathered(self) -> None:
        """Queue the plain messages that were gathered."""

    def end_gathering(self) -> None:
        """Choose another partition for what comes next, because the queue is empty."""

    def record_broker_failure(self, broker_id: int, error: TubeError) -> None:
        """Leave out a Broker that cannot be reached or does not serve."""

    def record_broker_response(self, broker_id: int) -> None:
        """Use a Broker again that serves."""
