"""Metadata of the partitions of client-balanced groups: which there are, and which can be read now.

The invariants: all partitions of a topic are sent, whether their Broker runs or not, so that every consumer of a group
divides the same set; the id changes with every change of the content, and only then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytubemq.wire.text.topic_strings import TopicMetaBroker, TopicMetaInfo, format_topic_meta_info

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytubemq.master.brokers.brokers import Brokers

_STEP_MS = 10
"""The step to a new id when it falls into the same millisecond as the last one, as in the original."""


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """The topics of a group in the form of the response (`topicMetaInfoList`), known by an id."""

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
    """Return the current metadata of a group; `before` itself when nothing has changed.

    Args:
            topics: the group's subscription.
            disabled: topics the group may not consume at the moment: included, but as not readable.
            before: the metadata that it was sent last.
            now_ms: the wall clock, from which new ids come.
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
    """Return the Brokers where a topic can be read now; after a start also those on their way back to this Master."""
    found = {
        place.broker_id
        for place in brokers.topics.deployed(topic)
        if (served := brokers.topics.serving(topic, place.broker_id)) is not None and served.subscribe
    }
    if brokers.topics.awaited(topic):
        found.update(partition.broker_id for partition in brokers.topics.consumable((topic,))[1])
    return frozenset(found)


def _info(brokers: Brokers, topic: str, *, disabled: bool) -> TopicMetaInfo:
    readable = frozenset() if disabled else _readable(brokers, topic)
    return TopicMetaInfo(
        topic,
        tuple(
            TopicMetaBroker(place.broker_id, place.stores, place.partitions, place.broker_id in readable)
            for place in brokers.topics.deployed(topic)
        ),
    )
