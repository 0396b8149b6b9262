"""The Master's metadata of the partitions of a group's topics.

The invariant: it only changes as a whole, with the number that the Master gave that state.
"""

from __future__ import annotations

from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from pytubemq.client.session.entry_reader import ENTRIES, PartitionBudget
from pytubemq.model.ids import UNDEFINED, BrokerInfo, Partition
from pytubemq.wire.text.broker_strings import parse_broker_info
from pytubemq.wire.text.topic_strings import parse_topic_meta_info

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class PartitionMeta:
    """The partitions, each with True if it can be consumed now, and the ids of the Master's state."""

    def __init__(self, parse_broker: Callable[[str], BrokerInfo] = parse_broker_info) -> None:
        self._parse_broker = parse_broker
        self.brokers_id = UNDEFINED
        """`brokerConfigId` of the Brokers' addresses that we have."""
        self.topics_id = UNDEFINED
        """`topicMetaInfoId` of `partitions`."""
        self.changed_ms: int | None = None
        """When `partitions` last changed, milliseconds since 1970."""
        self.partitions: Mapping[Partition, bool] = MappingProxyType({})
        self.closed_since_s: Mapping[Partition, float] = MappingProxyType({})
        """The partitions that cannot be consumed, and since when this is known."""

    def update_brokers(self, config_id: int | None, texts: Sequence[str]) -> list[BrokerInfo]:
        """Store the id of the Brokers' addresses, if the response has any; return those that can be read."""
        if not texts:
            return []
        brokers = ENTRIES.read(texts, self._parse_broker, "the Master's list of Brokers")
        self.brokers_id = UNDEFINED if config_id is None else config_id
        return brokers

    def update_topics(self, meta_id: int | None, texts: Sequence[str], *, now_ms: int, now_s: float) -> bool:
        """Store the partitions if the response has other ones; return True if it has. The time is that of the wall and
        the loop.

        A number that is not set, the number we have, and an empty list say nothing (the original's rule).
        """
        if meta_id is None or meta_id < 0 or meta_id == self.topics_id or not texts:
            return False
        self.partitions = MappingProxyType(_partitions(texts))
        self.closed_since_s = MappingProxyType(
            {one: self.closed_since_s.get(one, now_s) for one, can_be in self.partitions.items() if not can_be}
        )
        self.topics_id = meta_id
        self.changed_ms = now_ms
        return True


def _partitions(texts: Sequence[str]) -> dict[Partition, bool]:
    found: dict[Partition, bool] = {}
    what = "the Master's list of a group's topics"
    budget = PartitionBudget(what)
    skip = partial(ENTRIES.skip, what)
    for info in ENTRIES.read(texts, partial(parse_topic_meta_info, skip=skip), what):
        for index, partition in budget.partitions(info.topic, info.brokers):
            found[partition] = info.brokers[index].subscribable
    return dict(sorted(found.items()))
