"""The state that the senders of one producer share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytubemq.client.producer.buffer import Buffer
    from pytubemq.client.producer.sequence_numbers import ProducerIds
    from pytubemq.client.session.cluster_connection import Cluster
    from pytubemq.client.session.tasks import Tasks


@dataclass(slots=True)
class SenderContext:
    """The parts of a producer that its senders use."""

    topic: str
    cluster: Cluster
    tasks: Tasks
    buffer: Buffer
    producer_ids: ProducerIds
    request_timeout_s: float
    batching: bool
    client_id: str = ""
    """Set when the producer is entered."""
