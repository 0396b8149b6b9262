"""A topic's settings, as the Master keeps them and the Brokers obey them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytubemq.model.ids import STORE_BASE
from pytubemq.model.limits import DEFAULT_MAX_MESSAGE_BYTES, MAX_PARTITIONS_PER_TOPIC
from pytubemq.model.policy import DEFAULT_RETENTION, RetentionPolicy

if TYPE_CHECKING:
    from pytubemq.model.durability import Durability

HISTORY_TOPIC: Final = "__offset_history__"
"""The original's own topic: Java Brokers keep records about groups there, and nobody else produces to it."""


def is_layout(partitions: int, stores: int) -> bool:
    """True if a Broker can have a topic with this many partitions in each of this many stores."""
    return 0 < partitions <= MAX_PARTITIONS_PER_TOPIC and 0 < stores <= MAX_PARTITIONS_PER_TOPIC // partitions


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """A topic on one Broker.

    `delete_policy` is a policy's text and `retention` what it says; `durability` None: the Broker's own setting.
    `status` is the original's: 0 normal, 1 soft deleted (readable, not writable), 2 soft removed, 3 removed.
    """

    name: str
    partitions: int
    stores: int = 1
    accept_publish: bool = True
    accept_subscribe: bool = True
    delete_policy: str = "delete,168h"
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    status: int = 0
    durability: Durability | None = None
    retention: RetentionPolicy = DEFAULT_RETENTION

    def partition_ids(self) -> list[int]:
        """All partition ids: `store * 10000 + n`."""
        return [store * STORE_BASE + n for store in range(self.stores) for n in range(self.partitions)]
