"""Topics as the Brokers carry them: where each can be written and read now, and who is expected back with it.

The invariant: a partition counts only while its Broker is online and has reported it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytubemq.master.brokers.absent_brokers import is_unused
from pytubemq.master.brokers.broker_run import Serving
from pytubemq.master.brokers.reported_topics import reported_surplus, within_record
from pytubemq.model.ids import make_partitions
from pytubemq.model.records import DeployRecord, ManageStatus, TopicStatus
from pytubemq.wire.text.topic_strings import TopicBroker

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytubemq.master.brokers.broker_run import BrokerRun
    from pytubemq.master.catalogue.catalogue import Catalogue
    from pytubemq.model.ids import Partition
    from pytubemq.model.records import Record
    from pytubemq.model.topic import TopicConfig


@dataclass(frozen=True, slots=True, eq=False)
class Presence:
    """Which Brokers are here, and which are expected."""

    runs: dict[int, BrokerRun] = field(default_factory=dict)
    """Those that are registered now."""
    expected_until: dict[int, float] = field(default_factory=dict)
    """Those that may come back, and the time until which their partitions count as absent."""
    unheard: set[int] = field(default_factory=set)
    """Those that this Master has not heard of since it started."""
    synced: set[int] = field(default_factory=set)
    """Those that have taken a configuration since this Master started."""


class BrokerTopics:
    """The topics of all Brokers."""

    def __init__(self, catalogue: Catalogue, presence: Presence) -> None:
        self._catalogue = catalogue
        self._presence = presence
        self._runs = presence.runs
        self._partitions: dict[tuple[str, int], tuple[tuple[int, int], frozenset[Partition]]] = {}
        """Layout and partitions of topics that consumers asked for: each registration would make 100,000 anew."""

    def forget(self, records: Iterable[Record]) -> None:
        """Forget what is remembered of deployments that were changed or deleted."""
        for record in records:
            if isinstance(record, DeployRecord):
                self._partitions.pop((record.topic, record.broker_id), None)

    def publishing(self, topic: str) -> tuple[TopicBroker, ...]:
        """Return where a topic can be written to now: the record allows it, and the Broker has reported it."""
        found = []
        for broker_id in sorted(self._catalogue.deployed(topic)):
            served = self.serving(topic, broker_id)
            if served is not None and served.publish:
                found.append(TopicBroker(broker_id, served.config.partitions, served.config.stores))
        return tuple(found)

    def deployed(self, topic: str) -> tuple[TopicBroker, ...]:
        """Return the Brokers that have a topic by the records, whether they run or not."""
        found = []
        for broker_id, deploy in sorted(self._catalogue.deployed(topic).items()):
            if not deploy.topic_status.removed:
                config = self._catalogue.config(deploy)
                found.append(TopicBroker(broker_id, config.partitions, config.stores))
        return tuple(found)

    def consumable(self, topics: Iterable[str]) -> tuple[frozenset[Partition], frozenset[Partition]]:
        """Return the partitions of some topics that can be read now, and those whose Broker may come back."""
        available, absent = self.consumable_by_topic(topics)
        return frozenset().union(*available), frozenset().union(*absent)

    def consumable_by_topic(
        self, topics: Iterable[str]
    ) -> tuple[list[frozenset[Partition]], list[frozenset[Partition]]]:
        """Return what `consumable` does, as a set for each topic on a Broker: the same object until it changes."""
        available: list[frozenset[Partition]] = []
        absent: list[frozenset[Partition]] = []
        for topic in topics:
            for broker_id, deploy in self._catalogue.deployed(topic).items():
                run = self._runs.get(broker_id)
                if run is not None and run.online:
                    served = self.serving(topic, broker_id)
                    if served is not None and served.subscribe:
                        available.append(self._partitions_of(broker_id, served.config))
                elif broker_id in self._presence.expected_until and self._readable(deploy):
                    absent.append(self._partitions_of(broker_id, self._catalogue.config(deploy)))
        return available, absent

    def away(self, topics: Iterable[str]) -> list[int]:
        """Return the Brokers that are not online and have partitions of these topics that could be read, by id.

        Unlike those in `consumable`, they stay in this list however long they are away.
        """
        found = set()
        for topic in topics:
            for broker_id, deploy in self._catalogue.deployed(topic).items():
                run = self._runs.get(broker_id)
                if (run is None or not run.online) and self._readable(deploy):
                    found.add(broker_id)
        return sorted(found)

    def awaited(self, topic: str) -> bool:
        """True if this Master has only just started, and a Broker of the topic has not come back to it yet."""
        return not self._presence.unheard.isdisjoint(self._catalogue.deployed(topic))

    def carries(self, broker_id: int, config: TopicConfig) -> bool:
        """Return True if a Broker has reported a topic with all partitions of its record, or with more."""
        run = self._runs.get(broker_id)
        reported = run.topics.get(config.name) if run is not None and run.online else None
        return reported is not None and within_record(config, reported) == config

    def beyond_record(self, broker_id: int, config: TopicConfig) -> int:
        """Return how many partitions of a topic a Broker has reported beyond those of the record."""
        run = self._runs.get(broker_id)
        reported = None if run is None else run.topics.get(config.name)
        return 0 if reported is None else reported_surplus([reported], lambda _: config)

    def can_take_topics(self, broker_id: int) -> bool:
        """True if new topics are placed on a Broker.

        An operator entered it, it holds topics, or it has taken a configuration and is connected. One that holds none
        and reports a fault gets none.
        """
        record = self._catalogue.brokers.get(broker_id)
        if record is None:
            return False
        run = self._runs.get(broker_id)
        faulty = run is not None and (run.read_status != 0 or run.write_status != 0)
        if faulty and not self._catalogue.topics_on(broker_id):
            return False
        if not is_unused(self._catalogue, record):
            return True
        return broker_id in self._presence.synced and run is not None and run.online and not run.lost

    def serving(self, topic: str, broker_id: int) -> Serving | None:
        """Return a topic as an online Broker has reported it, with what may be done with it; None if it is not there.

        Partitions beyond the record are left out, however many the Broker reports, because clients learn of all.
        """
        deploy = self._catalogue.deployed(topic).get(broker_id)
        run = self._runs.get(broker_id)
        if deploy is None or run is None or not run.online or (config := run.topics.get(topic)) is None:
            return None
        wanted = self._catalogue.config(deploy)
        sound = run.read_status == 0
        return Serving(
            within_record(config, wanted),
            publish=sound
            and run.write_status == 0
            and deploy.topic_status is TopicStatus.NORMAL
            and wanted.accept_publish
            and config.accept_publish
            and self.status(broker_id).publishes,
            subscribe=sound and config.accept_subscribe and self._readable(deploy),
        )

    def _readable(self, deploy: DeployRecord) -> bool:
        """True if the records allow a topic to be read on a Broker."""
        return (
            not deploy.topic_status.removed
            and self._catalogue.config(deploy).accept_subscribe
            and self.status(deploy.broker_id).subscribes
        )

    def status(self, broker_id: int) -> ManageStatus:
        """Return what the record of a Broker allows it; without a record, nothing."""
        record = self._catalogue.brokers.get(broker_id)
        return ManageStatus.OFFLINE if record is None else record.manage_status

    def _partitions_of(self, broker_id: int, config: TopicConfig) -> frozenset[Partition]:
        """Return all partitions of a topic on a Broker."""
        key, layout = (config.name, broker_id), (config.partitions, config.stores)
        known = self._partitions.get(key)
        if known is not None and known[0] == layout:
            return known[1]
        found = frozenset(make_partitions(broker_id, config.name, config.partition_ids()))
        self._partitions[key] = (layout, found)
        return found
