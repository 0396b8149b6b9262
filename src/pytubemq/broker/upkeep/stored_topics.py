"""Topics in a Broker's store, compared with the topics of its configuration.

The invariant: messages on disk that no configuration names are reported, never ignored silently.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.errors import NotFoundError
from pytubemq.model.ids import STORE_BASE
from pytubemq.wire.text.configuration import BrokerTopicConf, format_broker_topic_conf

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from pytubemq.model.topic import TopicConfig
    from pytubemq.storage.store.store import BrokerStore

MOST_NAMED: Final = 8
"""Topics or partitions named in one text; the others are counted."""


class StoredTopics:
    """The partitions that a store held when it was opened, by topic."""

    def __init__(self, partitions: Iterable[tuple[str, int]] = ()) -> None:
        """Group the partitions by topic."""
        self._partition_ids: dict[str, set[int]] = {}
        for topic, partition_id in partitions:
            self._partition_ids.setdefault(topic, set()).add(partition_id)

    def widen(self, positions: Iterable[tuple[str, str, int]]) -> None:
        """Add partitions of these topics that hold no message yet, but the position of a group."""
        for _, topic, partition_id in positions:
            if topic in self._partition_ids:
                self._partition_ids[topic].add(partition_id)

    def names(self) -> list[str]:
        """Return the topics in order."""
        return sorted(self._partition_ids)

    def confs(self) -> tuple[str, ...]:
        """Return the topics in the form of topics' settings: only the numbers of partitions and stores are known."""
        return tuple(
            format_broker_topic_conf(
                BrokerTopicConf(
                    topic=topic,
                    partitions=max(number % STORE_BASE for number in ids) + 1,
                    stores=max(ids) // STORE_BASE + 1,
                )
            )
            for topic, ids in sorted(self._partition_ids.items())
        )

    def beyond(self, topic: TopicConfig) -> list[int]:
        """Return the partitions of a topic that its configuration does not name."""
        stored = self._partition_ids.get(topic.name)
        return sorted(stored.difference(topic.partition_ids())) if stored else []


def unserved(store: BrokerStore, beyond: dict[str, list[int]]) -> str | None:
    """Return what is wrong if partitions beyond the configuration hold messages; None if none does."""
    found = [
        (topic, partition_id)
        for topic, ids in sorted(beyond.items())
        for partition_id in ids
        if has_messages(store, topic, partition_id)
    ]
    if not found:
        return None
    names = named([f"{topic}:{partition_id}" for topic, partition_id in found])
    return (
        f"topics: the store has messages in partitions beyond those of the Master's configuration ({names}), and "
        "they are not served; give the topics their partitions back: pytubemq topic alter TOPIC --partitions N"
    )


def passed_over_text(topics: Collection[str]) -> str | None:
    """Return what is wrong if a Master does not know these topics of the store; None if there is none."""
    if not topics:
        return None
    return (
        f"topics: the store has {named(topics)}, which the Master does not know; they are not served, and their "
        "files are kept; create them with their numbers of partitions to serve them again"
    )


def has_messages(store: BrokerStore, topic: str, partition_id: int) -> bool:
    """Return True if a partition is known and holds messages."""
    try:
        first, end = store.ends(topic, partition_id)
    except NotFoundError:
        return False
    return first < end


def named(names: Collection[str]) -> str:
    """Return the first names, and the number of the others."""
    shown = ", ".join(list(names)[:MOST_NAMED])
    return shown if len(names) <= MOST_NAMED else f"{shown} and {len(names) - MOST_NAMED} more"
