"""The contract of a metadata store.

The invariants: a write is whole or not at all, and durable when the call returns; every change gives its record a
new serial id, larger than any before it (the protocol's `max(now in ms, last + 1)`).

Calls block and may be made from one thread at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from pytubemq.model.ids import UNDEFINED, Address
from pytubemq.model.limits import DEFAULT_MAX_MESSAGE_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.model.topic import TopicConfig


@dataclass(frozen=True, slots=True)
class BrokerRecord:
    """A Broker of the cluster, whether it runs or not. `manage_status` is the protocol's (5 = online)."""

    broker_id: int
    address: Address
    tls_port: int = 8124
    manage_status: int = 5
    created_ms: int = 0
    serial_id: int = UNDEFINED


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A topic; `deploys` has its configuration on each Broker that carries it."""

    name: str
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    created_ms: int = 0
    serial_id: int = UNDEFINED
    deploys: dict[int, TopicConfig] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """What holds for the whole cluster; `serial_id` stays -2 until something was set, as clients expect."""

    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    qry_priority_id: int = 301
    serial_id: int = UNDEFINED


class MetaStore(Protocol):
    """Blocking storage of metadata."""

    def brokers(self) -> list[BrokerRecord]:
        """All Brokers, by id."""
        ...

    def put_broker(self, broker: BrokerRecord, *, now_ms: int) -> BrokerRecord:
        """Add a Broker or replace its record; the answer has the new serial id."""
        ...

    def topics(self) -> list[TopicRecord]:
        """All topics with their deployment, by name."""
        ...

    def create_topic(self, topic: TopicRecord, *, now_ms: int) -> TopicRecord:
        """Add a topic and its deployment.

        Raises:
            RefusedError: there is a topic of this name (code 400).
            NotFoundError: it is deployed on a Broker that is not known.
        """
        ...

    def deploy_topic(self, name: str, deploys: Sequence[tuple[int, TopicConfig]], *, now_ms: int) -> TopicRecord:
        """Add or replace a topic's configuration on some Brokers.

        Raises:
            NotFoundError: no such topic or Broker.
        """
        ...

    def settings(self) -> ClusterSettings:
        """The cluster's settings."""
        ...

    def put_settings(self, settings: ClusterSettings, *, now_ms: int) -> ClusterSettings:
        """Replace them; the answer has the new serial id."""
        ...

    def close(self) -> None:
        """Release the store; idempotent."""
        ...
