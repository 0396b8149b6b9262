"""The layout of the cluster: topics on Brokers and Brokers' addresses, from the records and the running Brokers.

The invariant: a topic is never shown where it is being removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.model.ids import make_partitions
from pytubemq.model.records import ManageStatus
from pytubemq.model.topic import HISTORY_TOPIC
from pytubemq.wire.protocol.messages.extension import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pytubemq.master.brokers.brokers import Brokers
    from pytubemq.master.catalogue.catalogue import Catalogue
    from pytubemq.model.ids import Address, Partition
    from pytubemq.model.records import TopicRecord
    from pytubemq.model.topic import TopicConfig

OUT_OF_USE = (ManageStatus.DRAFT.text, ManageStatus.OFFLINE.text)
"""The states of a Broker that nobody waits for."""


class Layout:
    """The layout, from the catalogue and the Brokers; changes nothing."""

    def __init__(self, catalogue: Catalogue, brokers: Brokers) -> None:
        self.catalogue = catalogue
        self.brokers = brokers

    def topics(self) -> list[TopicRecord]:
        """Return all topics of the cluster's users, by name."""
        return [topic for name, topic in sorted(self.catalogue.topics.items()) if name != HISTORY_TOPIC]

    def configs(self, topic: str) -> dict[int, TopicConfig]:
        """Return a topic's configuration on each of its Brokers, but where it is being removed."""
        places = sorted(self.catalogue.deployed(topic).items())
        return {broker: self.catalogue.config(place) for broker, place in places if not place.topic_status.removed}

    def partitions(self, topic: str) -> list[Partition]:
        """Return the partitions of a topic at each of its Brokers, but where it is being removed."""
        return partitions_of(topic, self.configs(topic))

    def partitions_on(self, broker_id: int) -> Iterator[TopicPartition]:
        """Yield the partitions that a Broker had when asked, but of topics that are being removed there."""
        for place in self.catalogue.deployed_on(broker_id):
            if not place.topic_status.removed:
                for partition_id in self.catalogue.config(place).partition_ids():
                    yield TopicPartition(topic_name=place.topic, partition_id=partition_id)

    def addresses(self, broker_ids: Iterable[int]) -> dict[int, Address]:
        """Return the addresses of these Brokers, online or not."""
        return {broker_id: self.catalogue.brokers[broker_id].address for broker_id in broker_ids}

    def online(self) -> dict[int, Address]:
        """Return the addresses of the Brokers that can be queried now."""
        return {broker_id: run.address for broker_id, run in self.brokers.runs.items() if run.online}

    def away(self) -> list[str]:
        """Return the Brokers that cannot be queried now, as `unreachable` names them."""
        return list(self.away_by_id().values())

    def away_by_id(self) -> dict[int, str]:
        """Return the Brokers of `away` by id."""
        online = self.online()
        return {
            broker_id: f"broker {broker_id} at {record.address}: it is away"
            for broker_id, record in sorted(self.catalogue.brokers.items())
            if broker_id not in online and record.manage_status.text not in OUT_OF_USE
        }


def partitions_of(topic: str, configs: Mapping[int, TopicConfig]) -> list[Partition]:
    """Return the partitions of a topic that has these configurations on its Brokers, by Broker id."""
    return [
        partition
        for broker_id, config in configs.items()
        for partition in make_partitions(broker_id, topic, config.partition_ids())
    ]
