"""Topics as the API shows them: a deployment on a Broker, its state there, and sums over Brokers and topics."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytubemq.admin.webapi.envelope import base, props
from pytubemq.admin.webapi.long_responses import Turns
from pytubemq.admin.webapi.params import PROP_FIELDS, has_stamp
from pytubemq.model.ids import UNDEFINED

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterable, Iterator

    from pytubemq.admin.webapi.params import Args
    from pytubemq.master.service import MasterService
    from pytubemq.model.records import DeployRecord, TopicProps

NOTHING = "-"


def topics_of(master: MasterService, args: Args) -> list[str]:
    """Return the topics that a query names, else all that have a record or a deployment; by name."""
    named = args.get("topicName", ())
    if named:
        return sorted(named)
    return sorted({*master.catalogue.topics, *(topic for topic, _ in master.catalogue.deploys)})


def has_props(found: TopicProps, args: Args) -> bool:
    """True if properties are those that a query names."""
    return all(args.get(name) is None or args[name] == getattr(found, field) for name, field in PROP_FIELDS.items())


def places(master: MasterService, args: Args, topic: str) -> Iterator[DeployRecord]:
    """Yield the deployments of a topic that a query names, by Broker."""
    catalogue = master.catalogue
    brokers: Collection[int] = args.get("brokerId", ())
    for broker_id, deploy in sorted(catalogue.deployed(topic).items()):
        if (
            (not brokers or broker_id in brokers)
            and args.get("brokerPort") in (None, catalogue.brokers[broker_id].address.port)
            and args.get("topicStatusId", UNDEFINED) in (UNDEFINED, deploy.topic_status)
            and has_stamp(deploy.stamp, args)
            and has_props(catalogue.props(topic, broker_id), args)
        ):
            yield deploy


def place(master: MasterService, deploy: DeployRecord) -> dict[str, Any]:
    """Return a topic on a Broker."""
    catalogue = master.catalogue
    broker = catalogue.brokers[deploy.broker_id]
    return {
        "topicName": deploy.topic,
        "brokerId": deploy.broker_id,
        "topicNameId": UNDEFINED,  # whatever the topic's own record says, as in the original
        "brokerIp": broker.address.host,
        "brokerPort": broker.address.port,
        "topicStatusId": int(deploy.topic_status),
        **props(catalogue.props(deploy.topic, deploy.broker_id)),
        **base(deploy.stamp),
    }


def running_place(master: MasterService, deploy: DeployRecord) -> dict[str, Any]:
    """Return a topic on a Broker, with the state that the Broker has reported."""
    served = master.broker_room.topics.serving(deploy.topic, deploy.broker_id)
    if served is None:
        names = ("acceptPublish", "acceptSubscribe", "numPartitions", "brokerManageStatus")
        run: dict[str, Any] = dict.fromkeys(names, NOTHING)
    else:
        run = {
            "acceptPublish": served.publish,
            "acceptSubscribe": served.subscribe,
            "numPartitions": served.config.partitions,
            "numTopicStores": served.config.stores,
            "brokerManageStatus": master.catalogue.brokers[deploy.broker_id].manage_status.text,
        }
    return {**place(master, deploy), "runInfo": run}


def running_places(master: MasterService, deploys: Iterable[DeployRecord], name: str) -> dict[str, Any]:
    """Return the deployments of one topic, under `name`, with their sums."""
    listed = list(deploys)
    totals = Totals.of(master, listed)
    return {
        name: [running_place(master, deploy) for deploy in listed],
        "infoCount": len(listed),
        "totalCfgNumPart": totals.partitions,
        "isSrvAcceptPublish": totals.publish.places > 0,
        "isSrvAcceptSubscribe": totals.subscribe.places > 0,
        "totalRunNumPartCount": totals.run_partitions,
    }


@dataclass(slots=True)
class Share:
    """The deployments, stores and partitions that may be used in one way."""

    places: int = 0
    stores: int = 0
    partitions: int = 0


@dataclass(slots=True)
class Totals:
    """Sums over deployments: as configured, as running, as producers and consumers may use them."""

    places: int = 0
    stores: int = 0
    partitions: int = 0
    run_places: int = 0
    run_stores: int = 0
    run_partitions: int = 0
    publish: Share = field(default_factory=Share)
    subscribe: Share = field(default_factory=Share)

    @classmethod
    def of(cls, master: MasterService, deploys: Iterable[DeployRecord]) -> Totals:
        """Return the sums over some deployments."""
        totals = cls()
        for deploy in deploys:
            totals.add(master, deploy)
        return totals

    def add(self, master: MasterService, deploy: DeployRecord) -> None:
        """Count a deployment."""
        config = master.catalogue.config(deploy)
        self.places += 1
        self.stores += config.stores
        self.partitions += config.partitions * config.stores
        served = master.broker_room.topics.serving(deploy.topic, deploy.broker_id)
        if served is None:
            return
        stores, partitions = served.config.stores, served.config.partitions * served.config.stores
        self.run_places += 1
        self.run_stores += stores
        self.run_partitions += partitions
        for usable, share in ((served.publish, self.publish), (served.subscribe, self.subscribe)):
            if usable:
                share.places += 1
                share.stores += stores
                share.partitions += partitions


async def topic_totals(master: MasterService, args: Args) -> AsyncIterator[tuple[str, Totals]]:
    """Yield each topic that a query names and that is deployed, with its sums; other tasks run in between."""
    turns = Turns()
    for topic in topics_of(master, args):
        totals = Totals.of(master, places(master, args, topic))
        if totals.places:
            yield topic, totals
        await turns.took(1 + totals.places)
