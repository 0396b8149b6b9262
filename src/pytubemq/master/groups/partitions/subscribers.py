"""The groups by topic, so that a change reaches the groups that it affects and costs nothing for the others.

The invariant: a group is in here under each of its topics, from its first member to its last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.model.records import (
    BrokerRecord,
    ClusterRecord,
    ConsumeRecord,
    DeployRecord,
    GroupRecord,
    TopicRecord,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from pytubemq.model.records import Record


class Subscribers:
    """The names of groups, by the topics that their members subscribe to."""

    def __init__(self) -> None:
        self._by_topic: dict[str, dict[str, None]] = {}

    def add(self, group: str, topics: Iterable[str]) -> None:
        """Add a group."""
        for topic in topics:
            self._by_topic.setdefault(topic, {})[group] = None

    def remove(self, group: str, topics: Iterable[str]) -> None:
        """Forget a group."""
        for topic in topics:
            groups = self._by_topic.get(topic, {})
            groups.pop(group, None)
            if not groups:
                self._by_topic.pop(topic, None)

    def of(self, topics: Iterable[str]) -> list[str]:
        """Return the groups of some topics, each once, in the order in which they began."""
        found: dict[str, None] = {}
        for topic in topics:
            found.update(self._by_topic.get(topic, {}))
        return list(found)

    def affected_by(
        self, records: Iterable[Record], topics_on: Callable[[int], Collection[str]]
    ) -> Collection[str] | None:
        """Return the groups whose partitions may differ after a change of records; None if all may.

        `topics_on` returns the topics of a Broker, which a change of its record affects.
        """
        topics: set[str] = set()
        named: dict[str, None] = {}
        for record in records:
            match record:
                case ClusterRecord():
                    return None
                case BrokerRecord(broker_id=broker_id):
                    topics.update(topics_on(broker_id))
                case DeployRecord(topic=topic) | TopicRecord(topic=topic):
                    topics.add(topic)
                case ConsumeRecord(group=group) | GroupRecord(group=group):
                    named[group] = None
                case _:  # users and what they may do change no partitions
                    pass
        return list(named | dict.fromkeys(self.of(sorted(topics))))
