"""A Master's rooms with the records and Brokers of a large cluster, without sockets."""

from __future__ import annotations

import math
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytubemq.master.access.broker_access import NoChecks
from pytubemq.master.access.tokens import OpenTokens
from pytubemq.master.brokers.broker_run import BrokerRun
from pytubemq.master.brokers.brokers import Brokers
from pytubemq.master.brokers.configuration import broker_conf
from pytubemq.master.catalogue.catalogue import Catalogue
from pytubemq.master.client_admission import ClientAdmission
from pytubemq.master.groups.groups import Groups
from pytubemq.master.settings import MasterSettings
from pytubemq.model.ids import Address
from pytubemq.model.records import BrokerRecord, DeployRecord, TopicProps, TopicRecord
from pytubemq.storage.metastore.memory import MemoryMetaStore

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from pytubemq.core.balance.facts import Fact, SendEvent
    from pytubemq.master.groups.group import Group
    from pytubemq.model.records import Record
    from pytubemq.wire.text.partition_strings import SubscribeInfo


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of a cluster; each topic is on `spread` of the Brokers, with `partitions` on each."""

    consumers: int = 100_000
    groups: int = 10_000
    topics: int = 1_000
    partitions: int = 10
    brokers: int = 100
    spread: int = 10

    def topic_of(self, group: int) -> str:
        """Return the topic that a group consumes; each topic has the same number of groups."""
        return f"topic{group % self.topics}"

    def brokers_of(self, topic: int) -> Iterable[int]:
        """Return the ids of the Brokers that have a topic."""
        return ((topic * self.spread + number) % self.brokers + 1 for number in range(self.spread))


class SteppedClock:
    """A clock that is put forward, and runs by itself only during a turn of the loop, in processor time."""

    def __init__(self) -> None:
        self.time_s = 1_000.0
        self._turn_began_s: float | None = None

    def now_s(self) -> float:
        """Return the time in seconds."""
        return self.time_s + (0.0 if self._turn_began_s is None else time.thread_time() - self._turn_began_s)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let the time of one turn pass, by which the Master cuts its slices."""
        self._turn_began_s = time.thread_time()
        try:
            yield
        finally:
            self._turn_began_s = None

    def wall_ms(self) -> int:
        """Return the time in milliseconds."""
        return int(self.now_s() * 1_000)


class Timings:
    """The processor times that decisions took, in seconds: what else the machine does is not in them."""

    def __init__(self) -> None:
        self.taken_s: list[float] = []

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Measure the block inside `with`."""
        began_s = time.thread_time()
        yield
        self.taken_s.append(time.thread_time() - began_s)

    def summary(self) -> dict[str, float]:
        """Return how many there were, and p50, p99 and the longest, in milliseconds."""
        found = sorted(self.taken_s)
        at = {"p50_ms": len(found) // 2, "p99_ms": len(found) * 99 // 100, "max_ms": -1}
        return {"count": len(found), **{name: round(found[where] * 1e3, 3) for name, where in at.items() if found}}


class CountedGroups(Groups):
    """The groups of a Master, which count the facts that are applied and the groups that they touch."""

    facts = 0
    touched: set[str]

    def apply(self, group: Group, fact: Fact) -> tuple[SendEvent, ...]:
        """Apply a fact to a group."""
        self.facts += 1
        self.touched.add(group.name)
        return super().apply(group, fact)

    def reset_counts(self) -> None:
        """Begin to count anew."""
        self.facts, self.touched = 0, set()


class Cluster:
    """The rooms of one Master; a second one over the same records is that Master after a restart."""

    def __init__(self, shape: Shape, catalogue: Catalogue, clock: SteppedClock) -> None:
        self.shape, self.catalogue, self.clock = shape, catalogue, clock
        most = 2 * shape.consumers
        self.settings = MasterSettings(max_held_heartbeats=most)
        self.turns = Timings()
        """The turns of the loop that changes of the cluster took."""
        self.brokers = Brokers(catalogue, self.settings, clock, OpenTokens(1), NoChecks(), self._topics_changed)
        admission = ClientAdmission(max_clients=most, max_bytes=1 << 40, now_s=clock.now_s)
        self.groups = CountedGroups(catalogue, self.brokers, self.settings, clock, lambda: None, admission)
        self.groups.reset_counts()
        catalogue.on_change = self._records_changed

    @classmethod
    async def make(cls, shape: Shape) -> Cluster:
        """Make a cluster with all its records, without Brokers."""
        clock = SteppedClock()
        catalogue = Catalogue(clock)
        await catalogue.open(MemoryMetaStore)
        topics, brokers = range(shape.topics), range(1, shape.brokers + 1)
        await catalogue.apply(BrokerRecord(one, Address("127.0.0.1", 10_000 + one)) for one in brokers)
        await catalogue.apply(TopicRecord(f"topic{topic}") for topic in topics)
        await catalogue.apply(deploy(shape, topic, one) for topic in topics for one in shape.brokers_of(topic))
        return cls(shape, catalogue, clock)

    def restarted(self) -> Cluster:
        """Return a new Master over the same records, which expects the Brokers."""
        made = Cluster(self.shape, self.catalogue, self.clock)
        made.brokers.expect_all()
        return made

    def register(self, broker_id: int, readers: Collection[SubscribeInfo] = ()) -> None:
        """Let a Broker be online with all topics of its records, as after its registration and first heartbeat."""
        now_s = self.clock.now_s()
        if readers:
            self.brokers.leases.record(readers, until_s=now_s + self.settings.restart_grace_s)
        deploys = self.catalogue.deployed_on(broker_id)
        self.brokers.runs[broker_id] = BrokerRun(
            broker_id=broker_id,
            address=self.catalogue.brokers[broker_id].address,
            version="",
            deadline_s=math.inf,
            heard_s=now_s,
            conf=broker_conf(self.catalogue, broker_id, None, first_id=1),
            online=True,
            topics={deployed.topic: self.catalogue.config(deployed) for deployed in deploys},
        )
        self._topics_changed(self.catalogue.topics_on(broker_id))
        self.groups.broker_registered(broker_id, readers)

    def lose(self, broker_id: int) -> None:
        """Let a Broker go; it is expected back."""
        self.brokers.runs[broker_id].deadline_s = self.clock.now_s()
        self.brokers.tick(self.clock.now_s())
        self.rest()

    def rest(self) -> None:
        """Take turns until no group has anything due now."""
        while (due_s := self.groups.due_s()) is not None and due_s <= self.clock.now_s():
            with self.clock.running(), self.turns.timed():
                self.groups.tick(self.clock.now_s())

    async def create_topic(self, topic: int) -> None:
        """Create a topic that no group consumes yet."""
        brokers = self.shape.brokers_of(topic)
        await self.catalogue.apply([TopicRecord(f"topic{topic}"), *(deploy(self.shape, topic, one) for one in brokers)])

    def _topics_changed(self, topics: Collection[str]) -> None:
        with self.clock.running(), self.turns.timed():
            self.groups.topics_changed(topics)
        self.rest()

    def _records_changed(self, records: Collection[Record]) -> None:
        self.brokers.topics.forget(records)
        with self.clock.running(), self.turns.timed():
            self.groups.records_changed(records)
        self.rest()


def deploy(shape: Shape, topic: int, broker_id: int) -> DeployRecord:
    """Return the record of a topic on a Broker."""
    return DeployRecord(f"topic{topic}", broker_id, props=TopicProps(num_partitions=shape.partitions))
