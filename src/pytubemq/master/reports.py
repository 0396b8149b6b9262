"""The state of the cluster as views: what the JSON API and the command line show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq._version import __version__
from pytubemq.errors import Code, UnavailableError
from pytubemq.master import origins
from pytubemq.master.answers import SYSTEM_TOPIC
from pytubemq.master.closed import closed_topics
from pytubemq.master.inspect import Inspector, Offsets
from pytubemq.master.views import (
    BrokerView,
    ClusterView,
    DefaultsView,
    GroupDetail,
    GroupView,
    Health,
    LagView,
    MasterView,
    MemberView,
    PartitionView,
    Reason,
    TopicDetail,
    TopicPlace,
    TopicView,
    iso,
)
from pytubemq.model.ids import Address, Partition
from pytubemq.model.offset import messages_between
from pytubemq.model.policy import policy_of_retention
from pytubemq.model.records import ManageStatus

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytubemq.master.broker_run import BrokerRun
    from pytubemq.master.brokers import Brokers
    from pytubemq.master.catalogue import Catalogue
    from pytubemq.master.group import Group
    from pytubemq.master.groups import Groups
    from pytubemq.master.producers import Producers
    from pytubemq.model.records import BrokerRecord, TopicRecord
    from pytubemq.model.topic import TopicConfig


_OUT_OF_USE = (ManageStatus.DRAFT.text, ManageStatus.OFFLINE.text)
_MOST_SHOWN: Final = 8
"""Brokers in one error; the others are counted."""


class Reports:
    """Reads the other rooms; changes nothing."""

    def __init__(
        self,
        catalogue: Catalogue,
        brokers: Brokers,
        groups: Groups,
        producers: Producers,
        inspector: Inspector,
        *,
        started_ms: int,
    ) -> None:
        self.catalogue = catalogue
        self.rooms = brokers
        self.members = groups
        self.producers = producers
        self.inspector = inspector
        self.started_ms = started_ms
        self.fault: str | None = None
        """What went wrong inside this Master."""

    # --- topics -------------------------------------------------------------------------------------------------

    async def topics(self) -> list[TopicView]:
        """All topics with how many messages they hold."""
        offsets = await self.inspector.offsets(self._online()) if self.catalogue.topics else Offsets()
        return [self._topic(topic, offsets) for topic in self._topics()]

    async def topic(self, name: str) -> TopicDetail:
        """One topic; it must be there."""
        topic = self.catalogue.topics[name]
        wanted = self.partitions(name)
        offsets = await self.inspector.offsets(self._online(), partitions=wanted)
        view = self._topic(topic, offsets)
        fields = {field: getattr(view, field) for field in TopicView.__struct_fields__}
        return TopicDetail(**fields, partition_list=[_partition(p, offsets) for p in wanted])

    def _topic(self, topic: TopicRecord, offsets: Offsets) -> TopicView:
        configs = self._configs(topic.topic)
        partitions = self.partitions(topic.topic)
        known = [offsets.ends[partition] for partition in partitions if partition in offsets.ends]
        whole = len(known) == len(partitions)
        policies = sorted({config.delete_policy for config in configs.values()})
        places = [self.catalogue.deployed(topic.topic)[broker_id] for broker_id in configs]
        kept = origins.retention(self.catalogue, places)
        durable = origins.durability(self.catalogue, self.rooms, places)
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
            places=[
                TopicPlace(
                    broker=broker_id,
                    partitions=config.partitions * config.stores,
                    ready=self.rooms.carries(broker_id, config),
                )
                for broker_id, config in configs.items()
            ],
            unreachable=offsets.unreachable,
            cannot_tell=offsets.cannot_tell,
        )

    def defaults(self) -> DefaultsView:
        """What holds for topics that say nothing else."""
        kept = origins.default_retention(self.catalogue)
        durable = origins.default_durability(self.catalogue, self.rooms)
        return DefaultsView(
            retention=kept.value,
            retention_from=kept.origin,
            delete_policy=policy_of_retention(kept.value),
            durability=durable.value,
            durability_from=durable.origin,
            max_message_bytes=self.catalogue.cluster.max_message_bytes,
        )

    def _topics(self) -> list[TopicRecord]:
        """All topics of the cluster's users, by name."""
        return [topic for name, topic in sorted(self.catalogue.topics.items()) if name != SYSTEM_TOPIC]

    def _configs(self, topic: str) -> dict[int, TopicConfig]:
        """A topic on each of its Brokers, but where it is being removed."""
        places = sorted(self.catalogue.deployed(topic).items())
        return {broker: self.catalogue.config(place) for broker, place in places if not place.topic_status.removed}

    def partitions(self, topic: str) -> list[Partition]:
        """Those of a topic at each of its Brokers, but where it is being removed."""
        return [
            Partition(broker_id, topic, partition_id)
            for broker_id, config in self._configs(topic).items()
            for partition_id in config.partition_ids()
        ]

    # --- Brokers ------------------------------------------------------------------------------------------------

    def brokers(self) -> list[BrokerView]:
        """All Brokers, with what keeps them from serving."""
        return [self._broker(record) for _, record in sorted(self.catalogue.brokers.items())]

    def _broker(self, record: BrokerRecord) -> BrokerView:
        run = self.rooms.runs.get(record.broker_id)
        state, why = _state(run)
        return BrokerView(
            id=record.broker_id,
            address=str(record.address),
            state=state,
            why=why,
            manage_status=record.manage_status.text,
            version="" if run is None else run.version,
            in_sync=run is not None and run.in_sync,
            topics=0 if run is None else len(run.topics),
            since=None if run is None else iso(run.since_ms),
        )

    def addresses(self, broker_ids: Iterable[int] | None = None) -> dict[int, Address]:
        """Of these Brokers, whether they are online or not; of those that are, when none is named."""
        if broker_ids is None:
            return self._online()
        return {broker_id: self.catalogue.brokers[broker_id].address for broker_id in broker_ids}

    def _online(self) -> dict[int, Address]:
        return {broker_id: run.address for broker_id, run in self.rooms.runs.items() if run.online}

    def away(self) -> list[str]:
        """Brokers that there are and that cannot be asked now, as `unreachable` names them."""
        online = self._online()
        return [
            f"broker {broker_id} at {record.address}: it is away"
            for broker_id, record in sorted(self.catalogue.brokers.items())
            if broker_id not in online and record.manage_status.text not in _OUT_OF_USE
        ]

    # --- groups -------------------------------------------------------------------------------------------------

    async def groups(self) -> list[GroupView]:
        """All groups, also those without members that have confirmed something.

        Raises:
            UnavailableError: none is known, and a Broker that may know one cannot be asked.
        """
        offsets = await self.inspector.offsets(self._online(), all_groups=True)
        offsets.unreachable += self.away()
        names = sorted({*self.members.groups, *offsets.confirmed})
        if not names and offsets.unreachable:
            raise _untold("which groups there are", offsets)
        return [self._group(name, offsets) for name in names]

    async def group(self, name: str) -> GroupDetail | None:
        """One group; None if there is no such one.

        Raises:
            UnavailableError: a Broker that may know it cannot be asked, and nobody else knows it.
        """
        offsets = await self.inspector.offsets(self._online(), groups=[name])
        offsets.unreachable += self.away()
        group = self.members.groups.get(name)
        if group is None and not offsets.confirmed.get(name):
            if offsets.unreachable:
                raise _untold(f"whether there is a group {name}", offsets)
            return None
        view = self._group(name, offsets)
        fields = {field: getattr(view, field) for field in GroupView.__struct_fields__}
        return GroupDetail(
            **fields,
            closed=closed_topics(self.catalogue, self.rooms, name, view.topics),
            member_list=_members(group),
            lag=self._lag(name, offsets),
        )

    def _group(self, name: str, offsets: Offsets) -> GroupView:
        group = self.members.groups.get(name)
        lag = self._lag(name, offsets)
        known = [line.lag_messages for line in lag if line.lag_messages is not None]
        topics = group.terms.topics if group is not None else {line.topic for line in lag}
        state = "empty" if group is None else "stable" if group.view.balanced else "balancing"
        return GroupView(
            name=name,
            state=state,
            kind="" if group is None else group.kind.text,
            topics=sorted(topics),
            members=0 if group is None else len(group.members),
            lag_messages=sum(known) if len(known) == len(lag) else None,
            unreachable=offsets.unreachable,
            cannot_tell=offsets.cannot_tell,
        )

    def _lag(self, name: str, offsets: Offsets) -> list[LagView]:
        """Per partition: all of the group's topics, and wherever else it has confirmed something."""
        group = self.members.groups.get(name)
        confirmed = offsets.confirmed.get(name, {})
        partitions = set(confirmed)
        for topic in group.terms.topics if group is not None else ():
            partitions.update(self.partitions(topic))
        owners = group.view.owners if group is not None else {}
        lines = []
        for partition in sorted(partitions, key=lambda p: (p.topic, p.broker_id, p.partition_id)):
            ends = offsets.ends.get(partition)
            position = confirmed.get(partition)
            # Where nothing is confirmed yet, everything that is kept is still to be read.
            start = position if position is not None else (ends[0] if ends is not None else 0)
            lines.append(
                LagView(
                    partition=str(partition),
                    topic=partition.topic,
                    holder=owners.get(partition),
                    confirmed=position,
                    max_offset=None if ends is None else ends[1],
                    lag_messages=None if ends is None else messages_between(max(start, ends[0]), ends[1]),
                )
            )
        return lines

    # --- the whole ----------------------------------------------------------------------------------------------

    def health(self) -> Health:
        """Healthy, or what is not as it should be."""
        faults = [fault for fault in (self.fault, self.rooms.upkeep.problem) if fault]
        reasons = [
            *(Reason(thing="master", why=fault, hint="look at its log, restart it") for fault in faults),
            *self._broker_reasons(),
            *self._topic_reasons(),
            *self._group_reasons(),
        ]
        brokers = self.brokers()
        return Health(
            status="degraded" if reasons else "healthy",
            reasons=reasons,
            version=__version__,
            brokers=len(brokers),
            brokers_online=sum(broker.state == "online" for broker in brokers),
            topics=len(self._topics()),
            groups_with_members=len(self.members.groups),
            producers=len(self.producers.by_id),
            consumers=sum(len(group.members) for group in self.members.groups.values()),
        )

    def cluster(self, address: Address) -> ClusterView:
        """Who is in it."""
        waiting = (self.producers.waiting, self.members.waiting, self.rooms.waiting)
        return ClusterView(
            name=str(address),
            version=__version__,
            masters=[MasterView(address=str(address), version=__version__, leads=True, since=iso(self.started_ms))],
            brokers=self.brokers(),
            held_heartbeats=sum(map(len, waiting)),
            rebalances=self.members.rebalances,
        )

    def _broker_reasons(self) -> Iterable[Reason]:
        brokers = self.brokers()
        if not brokers:
            yield Reason(
                thing="brokers", why="no Broker has ever registered", hint="start one: pytubemq server run broker"
            )
        for broker in brokers:
            if broker.id in self.rooms.forbidding.forbidden:
                yield Reason(
                    thing=f"broker {broker.id}",
                    why=f"it reported faults of its storage and is {broker.manage_status} since",
                    hint="mend it, then admin_release_broker_autoforbidden_status and admin_online_broker_configure",
                )
            if broker.manage_status in _OUT_OF_USE:
                continue  # nobody waits for it
            if broker.state != "online" or broker.why:
                yield Reason(
                    thing=f"broker {broker.id}",
                    why=f"{broker.state}: {broker.why}",
                    hint=f"mend what it names; the log of the Broker at {broker.address} says more"
                    if broker.state == "online"
                    else f"look at the log of the Broker at {broker.address}, or start it",
                )

    def _topic_reasons(self) -> Iterable[Reason]:
        for topic in self._topics():
            late = [
                broker_id
                for broker_id, config in self._configs(topic.topic).items()
                if (run := self.rooms.runs.get(broker_id)) is not None
                and run.online
                and not self.rooms.carries(broker_id, config)
            ]
            if late:
                yield Reason(
                    thing=f"topic {topic.topic}",
                    why=f"not reported by broker {', '.join(map(str, late))}",
                    hint="it follows with the Broker's next heartbeat; if not, look at its log",
                )

    def _group_reasons(self) -> Iterable[Reason]:
        for name, group in sorted(self.members.groups.items()):
            if group.needs:
                yield Reason(
                    thing=f"group {name}",
                    why=f"{group.kind.text}, {len(group.members)} of {group.needs} consumers are there",
                    hint="start the others",
                )


def _partition(partition: Partition, offsets: Offsets) -> PartitionView:
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


def _state(run: BrokerRun | None) -> tuple[str, str]:
    if run is None:
        return "away", "not registered"
    if run.lost:
        return "away", "its connection broke"
    if not run.online:
        return "starting", "registered, not yet serving"
    refuses = "takes no messages: " if run.write_status else ""
    if run.problems:
        return "online", refuses + "; ".join(run.problems)
    if run.read_status or run.write_status:
        return "online", f"reports trouble with its disk (read {run.read_status}, write {run.write_status})"
    return "online", ""


def _members(group: Group | None) -> list[MemberView]:
    if group is None:
        return []
    found = []
    for name, info in group.members.items():
        member = group.view.members[name]
        found.append(
            MemberView(
                id=name,
                host=info.host,
                peer=info.peer,
                joined=iso(info.joined_ms),
                partitions=[str(partition) for partition in sorted(member.holds)],
                pending=None if member.event is None else member.event.op.name,
            )
        )
    return found


def _untold(what: str, offsets: Offsets) -> UnavailableError:
    """Who cannot be asked may know better."""
    shown = "; ".join(offsets.unreachable[:_MOST_SHOWN])
    more = len(offsets.unreachable) - _MOST_SHOWN
    return UnavailableError(
        f"{what} cannot be told: {shown}" + (f"; and {more} more" if more > 0 else ""),
        hint="Brokers keep what groups have confirmed: start them, or wait until they have registered",
        code=Code.SERVICE_UNAVAILABLE,
    )
