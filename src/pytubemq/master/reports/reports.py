"""Topics, Brokers and the whole cluster as views: what the JSON API and the command line show.

The invariant: values that cannot be known, since a Broker does not respond, are left out and the Broker is named.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final

from pytubemq._version import __version__
from pytubemq.master.reports import origins
from pytubemq.master.reports.layout import OUT_OF_USE, partitions_of
from pytubemq.master.reports.shared_build import SharedBuild
from pytubemq.master.views import (
    BrokerView,
    ClusterView,
    DefaultsView,
    MasterView,
    PartitionView,
    TopicDetail,
    TopicPlace,
    TopicView,
    iso,
)
from pytubemq.model.offset import messages_between
from pytubemq.model.policy import policy_of_retention
from pytubemq.model.records import ManageStatus, TopicStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pytubemq.master.broker_inspector import BrokerInspector, InspectedOffsets
    from pytubemq.master.brokers.broker_run import BrokerRun
    from pytubemq.master.groups.groups import Groups
    from pytubemq.master.producers import Producers
    from pytubemq.master.reports.layout import Layout
    from pytubemq.model.ids import Address, Partition
    from pytubemq.model.records import BrokerRecord, TopicRecord
    from pytubemq.model.topic import TopicConfig


TOPIC_COST: Final = 20
"""The cost of a topic's view beside its partitions, in partitions."""
TURN_COST: Final = 5_000
"""Partitions that are looked up in one turn of the loop, in about 10 ms."""


class Reports:
    """The views of topics and Brokers, from the state of the other rooms; changes nothing."""

    def __init__(
        self, layout: Layout, groups: Groups, producers: Producers, inspector: BrokerInspector, *, started_ms: int
    ) -> None:
        self.layout = layout
        self._catalogue = layout.catalogue
        self._brokers = layout.brokers
        self._groups = groups
        self._producers = producers
        self._inspector = inspector
        self._started_ms = started_ms
        self._all_topics = SharedBuild(self._list_topics)

    # --- topics -------------------------------------------------------------------------------------------------

    async def topics(self) -> list[TopicView]:
        """Return all topics with the number of messages in each; who asks at the same time gets the same list."""
        return await self._all_topics.get()

    async def _list_topics(self) -> list[TopicView]:
        """Return all topics, and let the loop run after each `TURN_COST`."""
        if not self._catalogue.topics:
            return []
        offsets = await self._inspector.offsets(self.layout.online())
        away, found, cost = self.layout.away_by_id(), list[TopicView](), 0
        for topic in self.layout.topics():
            if topic.topic not in self._catalogue.topics:
                continue  # its record went while the loop ran
            found.append(self._topic(self._catalogue.topics[topic.topic], offsets, away))
            cost += TOPIC_COST + found[-1].partitions
            if cost >= TURN_COST:
                cost = 0
                await asyncio.sleep(0)
        return found

    async def topic(self, name: str) -> TopicDetail:
        """Return one topic; it must exist."""
        topic = self._catalogue.topics[name]
        wanted = self.layout.partitions(name)
        offsets = await self._inspector.offsets(self.layout.online(), partitions=wanted)
        view = self._topic(topic, offsets, self.layout.away_by_id())
        fields = {field: getattr(view, field) for field in TopicView.__struct_fields__}
        runs = [(broker_id, self._brokers.runs.get(broker_id)) for broker_id in view.brokers]
        return TopicDetail(
            **fields,
            problems=[
                f"broker {broker_id}: {problem}"
                for broker_id, run in runs
                if run is not None and run.online
                for problem in run.problems
                if _names_topic(problem, name)
            ],
            partition_list=[_partition(p, offsets) for p in wanted],
        )

    def _topic(self, topic: TopicRecord, offsets: InspectedOffsets, away: Mapping[int, str]) -> TopicView:
        configs = self.layout.configs(topic.topic)
        partitions = partitions_of(topic.topic, configs)
        # One look-up each: a cluster has tens of thousands, and hashing one takes longer than all else here.
        known = [ends for ends in map(offsets.ends.get, partitions) if ends is not None]
        whole = len(known) == len(partitions)
        policies = sorted({config.delete_policy for config in configs.values()})
        places = [self._catalogue.deployed(topic.topic)[broker_id] for broker_id in configs]
        kept = origins.retention(self._catalogue, places)
        durable = origins.durability(self._catalogue, self._brokers, places)
        return TopicView(
            name=topic.topic,
            partitions=len(partitions),
            brokers=list(configs),
            messages=sum(messages_between(*ends) for ends in known) if whole else None,
            max_message_bytes=topic.max_message_bytes,
            delete_policy=" / ".join(policies),
            retention=kept.value,
            retention_from=kept.origin,
            durability=durable.value,
            durability_from=durable.origin,
            created=iso(topic.stamp.create_ms),
            places=[self._place(topic.topic, broker_id, config) for broker_id, config in configs.items()],
            state=self._topic_state(topic.topic, configs),
            why="; ".join(self._not_online(configs)),
            unreachable=[*offsets.unreachable, *(away[broker_id] for broker_id in configs if broker_id in away)],
            unsupported=offsets.unsupported,
        )

    def _topic_state(self, topic: str, configs: Mapping[int, TopicConfig]) -> str:
        if configs:
            return "deployed"
        return "removing" if self._catalogue.deployed(topic) else "undeployed"

    def _not_online(self, broker_ids: Iterable[int]) -> Iterator[str]:
        """Yield the states of those of these Brokers that are not online."""
        for broker_id in broker_ids:
            state, _ = state_of(self._catalogue.brokers.get(broker_id), self._brokers.runs.get(broker_id))
            if state != "online":
                yield f"broker {broker_id} is {state}"

    def _place(self, topic: str, broker_id: int, config: TopicConfig) -> TopicPlace:
        served = self._brokers.topics.serving(topic, broker_id)
        publish, subscribe = served is not None and served.publish, served is not None and served.subscribe
        ready, beyond = (
            self._brokers.topics.carries(broker_id, config),
            self._brokers.topics.beyond_record(broker_id, config),
        )
        return TopicPlace(
            broker=broker_id,
            partitions=config.partitions * config.stores,
            ready=ready,
            publish=publish,
            subscribe=subscribe,
            why="" if publish and subscribe and ready and not beyond else "; ".join(self._why_shut(topic, broker_id)),
        )

    def _why_shut(self, topic: str, broker_id: int) -> Iterator[str]:
        """Yield what keeps producers or consumers off a topic on a Broker."""
        state, whys = state_of(self._catalogue.brokers.get(broker_id), self._brokers.runs.get(broker_id))
        if state != "online":
            yield f"broker {broker_id} is {state}: {'; '.join(whys)}"
            return
        yield from whys
        record, place = self._catalogue.brokers.get(broker_id), self._catalogue.deployed(topic).get(broker_id)
        if record is not None and record.manage_status is not ManageStatus.ONLINE:
            yield f"an operator has set broker {broker_id} {record.manage_status.text}"
        if place is None:
            return
        if place.topic_status is not TopicStatus.NORMAL:
            yield "it is marked as deleted there"
        config = self._catalogue.config(place)
        if not config.accept_publish:
            yield "its acceptPublish is false there"
        if not config.accept_subscribe:
            yield "its acceptSubscribe is false there"
        if not self._brokers.topics.carries(broker_id, config):
            yield f"broker {broker_id} has not reported it yet"
        if beyond := self._brokers.topics.beyond_record(broker_id, config):
            yield (
                f"broker {broker_id} has {beyond} partitions more than the record: they are not written or read until "
                "the record has them"
            )

    def defaults(self) -> DefaultsView:
        """Return the cluster's defaults for topics."""
        kept = origins.default_retention(self._catalogue)
        durable = origins.default_durability(self._catalogue, self._brokers)
        return DefaultsView(
            retention=kept.value,
            retention_from=kept.origin,
            delete_policy=policy_of_retention(kept.value),
            durability=durable.value,
            durability_from=durable.origin,
            max_message_bytes=self._catalogue.cluster.max_message_bytes,
        )

    # --- Brokers ------------------------------------------------------------------------------------------------

    def brokers(self) -> list[BrokerView]:
        """Return all Brokers, each with the reasons why it does not serve."""
        return [self._broker(record) for _, record in sorted(self._catalogue.brokers.items())]

    def _broker(self, record: BrokerRecord) -> BrokerView:
        run = self._brokers.runs.get(record.broker_id)
        state, whys = state_of(record, run)
        return BrokerView(
            id=record.broker_id,
            address=str(record.address),
            state=state,
            why="; ".join(whys),
            manage_status=record.manage_status.text,
            version="" if run is None else run.version,
            in_sync=run is not None and run.in_sync,
            topics=0 if run is None else len(run.topics),
            since=None if run is None else iso(run.since_ms),
        )

    # --- the whole ----------------------------------------------------------------------------------------------

    def cluster(self, address: Address) -> ClusterView:
        """Return the view of the cluster."""
        waiting = (self._producers.held, self._groups.held, self._brokers.held)
        return ClusterView(
            name=str(address),
            version=__version__,
            masters=[MasterView(address=str(address), version=__version__, leads=True, since=iso(self._started_ms))],
            brokers=self.brokers(),
            held_heartbeats=sum(map(len, waiting)),
            rebalances=self._groups.rebalances,
        )


def _partition(partition: Partition, offsets: InspectedOffsets) -> PartitionView:
    ends = offsets.ends.get(partition)
    if ends is None:
        return PartitionView(broker=partition.broker_id, partition=partition.partition_id)
    return PartitionView(
        broker=partition.broker_id,
        partition=partition.partition_id,
        min_offset=ends[0],
        max_offset=ends[1],
        messages=messages_between(*ends),
    )


def state_of(record: BrokerRecord | None, run: BrokerRun | None) -> tuple[str, list[str]]:
    """Return a Broker's state in a word, and its problems, one text each."""
    if record is not None and record.manage_status.text in OUT_OF_USE:
        runs = "it runs" if run is not None and run.online and not run.lost else "it does not run"
        return record.manage_status.text, [f"an operator has set it so, and no client uses it; {runs}"]
    if run is None:
        return "away", ["not registered"]
    if run.lost:
        return "away", ["its connection broke"]
    if not run.online:
        return "starting", ["registered, not yet serving"]
    refuses = "takes no messages: " if run.write_status else ""
    if run.problems:
        first, *others = run.problems
        return "online", [refuses + first, *others]
    if run.read_status or run.write_status:
        return "online", [f"reports trouble with its disk (read {run.read_status}, write {run.write_status})"]
    return "online", []


def _names_topic(problem: str, topic: str) -> bool:
    """True if a Broker's problem text is about a partition of this topic.

    The texts are those of `broker.upkeep.health` and `broker.consume.log_reads`.
    """
    return re.match(rf"partition ({re.escape(topic)}:\d+|\d+ of {re.escape(topic)})[: ]", problem) is not None
