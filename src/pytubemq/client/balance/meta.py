"""What the Master has told about the partitions of a group's topics.

The invariant: it only changes as a whole, with the number that the Master gave that state.
"""

from __future__ import annotations

from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from pytubemq.client.entries import ENTRIES, PartitionBudget
from pytubemq.model.ids import UNDEFINED, BrokerInfo, Partition
from pytubemq.wire.strings import parse_broker_info, parse_topic_meta_info

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class PartitionMeta:
    """The partitions with whether they can be consumed now, and the numbers of what was told."""

    def __init__(self) -> None:
        self.brokers_id = UNDEFINED
        """`brokerConfigId` of the Brokers' addresses that we have."""
        self.topics_id = UNDEFINED
        """`topicMetaInfoId` of `partitions`."""
        self.told_ms: int | None = None
        """When `partitions` were told, milliseconds since 1970."""
        self.partitions: Mapping[Partition, bool] = MappingProxyType({})
        self.closed_since_s: Mapping[Partition, float] = MappingProxyType({})
        """Which of them cannot be consumed, and since when we know that."""

    def take_brokers(self, config_id: int | None, texts: Sequence[str]) -> list[BrokerInfo]:
        """Take the Brokers' addresses, if there are any in the answer; returns those that can be read."""
        if not texts:
            return []
        brokers = ENTRIES.read(texts, parse_broker_info, "the Master's list of Brokers")
        self.brokers_id = UNDEFINED if config_id is None else config_id
        return brokers

    def take_topics(self, meta_id: int | None, texts: Sequence[str], *, now_ms: int, now_s: float) -> bool:
        """Take the partitions, if the answer has other ones; whether it did. Time is told by the wall and by the loop.

        A number that is not set, the number we have, and an empty list say nothing (the original's rule).
        """
        if meta_id is None or meta_id < 0 or meta_id == self.topics_id or not texts:
            return False
        self.partitions = MappingProxyType(_partitions(texts))
        self.closed_since_s = MappingProxyType(
            {one: self.closed_since_s.get(one, now_s) for one, can_be in self.partitions.items() if not can_be}
        )
        self.topics_id = meta_id
        self.told_ms = now_ms
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
