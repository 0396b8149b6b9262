"""What client-balanced consumers are told of their partitions: which there are, and which can be read now.

The invariants: all partitions of a topic are told, whether their Broker runs or not, so that every consumer of a group
divides the same set; the id changes with every change of the content, and only then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytubemq.wire.text.strings import TopicMetaBroker, TopicMetaInfo, format_topic_meta_info

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytubemq.master.brokers.brokers import Brokers

_STEP_MS = 10
"""What a new id is higher than the last one when both fall into the same moment, as in the original."""


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """The topics of a group as they are told (`topicMetaInfoList`), known by an id."""

    meta_id: int
    infos: tuple[str, ...]


def part_meta(
    brokers: Brokers,
    topics: Iterable[str],
    *,
    disabled: frozenset[str],
    before: PartitionMetadata | None,
    now_ms: int,
) -> PartitionMetadata:
    """What a group should be told now; `before` when nothing has changed.

    Args:
        topics: what the group subscribes to.
        disabled: topics the group may not consume at the moment: told, but as not readable.
        before: what it was told so far.
        now_ms: the wall clock, which new ids come from.
    """
    infos = tuple(
        format_topic_meta_info(info)
        for topic in sorted(topics)
        if (info := _info(brokers, topic, disabled=topic in disabled)).brokers
    )
    if before is None:
        return PartitionMetadata(now_ms, infos)
    return before if before.infos == infos else PartitionMetadata(max(now_ms, before.meta_id + _STEP_MS), infos)


def _readable(brokers: Brokers, topic: str) -> frozenset[int]:
    """Where a topic can be read now; after a start also where a Broker is only on its way back to this Master."""
    found = {
        place.broker_id
        for place in brokers.deployed(topic)
        if (served := brokers.serving(topic, place.broker_id)) is not None and served.subscribe
    }
    if brokers.awaited(topic):
        found.update(partition.broker_id for partition in brokers.consumable((topic,))[1])
    return frozenset(found)


def _info(brokers: Brokers, topic: str, *, disabled: bool) -> TopicMetaInfo:
    readable = frozenset() if disabled else _readable(brokers, topic)
    return TopicMetaInfo(
        topic,
        tuple(
            TopicMetaBroker(place.broker_id, place.stores, place.partitions, place.broker_id in readable)
            for place in brokers.deployed(topic)
        ),
    )
