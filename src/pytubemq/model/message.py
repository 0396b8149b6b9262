"""A message as a user sees it, and the receipt for one that was sent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytubemq.model.ids import Partition


@dataclass(frozen=True, slots=True)
class Message:
    """A message read from a partition.

    `offset` and `appended_at_ms` are None where the Broker does not tell them (Java Brokers).
    """

    partition: Partition
    body: bytes
    attributes: Mapping[str, str] = field(default_factory=dict)
    offset: int | None = None
    appended_at_ms: int | None = None
    message_id: int = 0
    msg_type: str | None = None
    msg_time: str | None = None


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a Broker answered for an accepted message."""

    partition: Partition
    message_id: int
    offset: int | None
    appended_at_ms: int | None
