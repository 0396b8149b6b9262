"""The records in memory: layers, serial ids, the list of Brokers, and who hears of a change."""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import BadRequestError, NotFoundError
from pytubemq.master.catalogue.catalogue import SERIAL_STEP, Catalogue
from pytubemq.model.ids import Address
from pytubemq.model.records import (
    BUILT_IN_PROPS,
    BrokerRecord,
    ClusterRecord,
    ConsumeRecord,
    DeployRecord,
    TopicProps,
    TopicRecord,
    TopicStatus,
)
from pytubemq.storage.metastore.memory import MemoryMetaStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from pytubemq.model.records import Record

pytestmark = pytest.mark.anyio

ONE = BrokerRecord(1, Address("127.0.0.1", 8123))
TWO = BrokerRecord(2, Address("127.0.0.1", 8223))
DEMO = TopicRecord("demo")


class StoppedClock:
    def now_s(self) -> float:
        return 0.0

    def wall_ms(self) -> int:
        return 1_000


@asynccontextmanager
async def catalogue(store: MemoryMetaStore | None = None) -> AsyncIterator[Catalogue]:
    made = Catalogue(StoppedClock())
    await made.open(lambda: store or MemoryMetaStore())
    yield made
    await made.close()


async def test_a_property_is_looked_up_layer_by_layer() -> None:
    async with catalogue() as c:
        await c.apply([ONE, DEMO, DeployRecord("demo", 1)])
        assert c.props("demo", 1) == BUILT_IN_PROPS
        await c.apply([ClusterRecord(props=TopicProps(num_partitions=2, num_topic_stores=2))])
        assert (c.props("demo", 1).num_partitions, c.props("demo", 1).num_topic_stores) == (2, 2)
        await c.apply([replace(ONE, props=TopicProps(num_partitions=3, accept_publish=False))])
        assert (c.props("demo", 1).num_partitions, c.props("demo", 1).accept_publish) == (3, False)
        await c.apply([DeployRecord("demo", 1, props=TopicProps(num_partitions=4, accept_publish=True))])
        config = c.config(c.deploys["demo", 1])
        assert (config.partitions, config.stores, config.accept_publish) == (4, 2, True)
        assert c.props("demo", 9).num_partitions == 2, "of a Broker that is not known"


async def test_a_serial_id_grows_though_the_clock_stands() -> None:
    store = MemoryMetaStore()
    async with catalogue(store) as c:
        await c.apply([ONE])
        await c.apply([DEMO])
        assert (c.brokers[1].stamp.serial_id, c.topics["demo"].stamp.serial_id) == (1_000, 1_000 + SERIAL_STEP)
        await c.apply(deletes=[c.topics["demo"]])
    async with catalogue(store) as c:
        await c.apply([ONE])
        assert c.brokers[1].stamp.serial_id > 1_000 + SERIAL_STEP


async def test_the_list_of_brokers_is_new_when_one_is_elsewhere() -> None:
    async with catalogue() as c:
        sums = [c.broker_checksum]
        for record in (ONE, replace(ONE, web_port=9), replace(ONE, address=Address("127.0.0.2", 1))):
            await c.apply([record])
            sums.append(c.broker_checksum)
        await c.apply(deletes=[ONE])
        sums.append(c.broker_checksum)
        assert sums == [1_000, 1_010, 1_010, 1_020, 1_030]


async def test_what_is_deployed_is_found_from_both_sides() -> None:
    async with catalogue() as c:
        two = BrokerRecord(2, Address("127.0.0.2", 8123))
        await c.apply([ONE, two, DEMO, DeployRecord("demo", 2), DeployRecord("demo", 1)])
        assert sorted(c.deployed("demo")) == [1, 2]
        assert [deploy.topic for deploy in c.deployed_on(2)] == ["demo"]
        await c.apply(deletes=[two, c.deploys["demo", 2]])
        assert (sorted(c.deployed("demo")), c.deployed_on(2)) == ([1], [])


async def test_topics_that_a_group_may_not_consume() -> None:
    async with catalogue() as c:
        await c.apply([ConsumeRecord("g", "a", consume_enable=False), ConsumeRecord("g", "b")])
        assert c.disabled_topics("g") == {"a"}
        await c.apply([ConsumeRecord("g", "b", consume_enable=False)])
        assert c.disabled_topics("g") == {"a", "b"}
        await c.apply([ConsumeRecord("g", "a")], [c.consumes["g", "b"]])
        assert c.disabled_topics("g") == frozenset()


async def test_who_has_a_record_about_a_topic_is_found_without_a_search() -> None:
    async with catalogue() as c:
        await c.apply([ConsumeRecord("g", "a"), ConsumeRecord("h", "a"), ConsumeRecord("g", "b")])
        assert list(c.consumers("a")) == ["g", "h"]
        await c.apply([ConsumeRecord("g", "a", filter_enable=True)], [c.consumes["h", "a"], c.consumes["g", "b"]])
        assert c.consumers("a") == {"g": c.consumes["g", "a"]}
        assert c.consumers("b") == {}


async def test_a_change_that_the_store_refuses_is_none() -> None:
    heard = []
    async with catalogue() as c:
        c.on_change = lambda records: heard.append(sorted(c.brokers))
        await c.apply([ONE])
        with pytest.raises(NotFoundError):
            await c.apply([replace(ONE, web_port=9), DeployRecord("nosuch", 1)])
        await c.apply()
        assert heard == [[1]]
        assert c.brokers[1].web_port == ONE.web_port


async def test_who_holds_the_lock_reads_what_it_writes() -> None:
    async def grow(c: Catalogue) -> None:
        async with c.lock:
            topic = c.topics["demo"]
            await c.apply([replace(topic, topic_name_id=topic.topic_name_id + 1)])

    async with catalogue() as c:
        await c.apply([DEMO])
        await asyncio.gather(*(grow(c) for _ in range(20)))
        assert c.topics["demo"].topic_name_id == 20


async def test_what_holds_for_a_topic_follows_every_record_that_it_is_made_of() -> None:
    async with catalogue() as c:
        other = DeployRecord("other", 1)
        await c.apply([ONE, DEMO, TopicRecord("other"), DeployRecord("demo", 1), other])
        changes: list[Record] = [
            ClusterRecord(props=TopicProps(num_partitions=2)),
            replace(ONE, props=TopicProps(num_partitions=3)),
            replace(DEMO, max_message_bytes=3 << 20),
            DeployRecord("demo", 1, props=TopicProps(num_partitions=5)),
        ]
        for change in changes:
            for deploy in c.deploys.values():
                c.config(deploy)
            await c.apply([change])
            found = [c.config(deploy) for deploy in c.deploys.values()]
            c._configs.clear()
            assert found == [c.config(deploy) for deploy in c.deploys.values()]
        assert c.config(c.deploys["demo", 1]).partitions == 5
        kept = c.config(c.deploys["other", 1])
        await c.apply([DeployRecord("demo", 1, props=TopicProps(num_partitions=6))])
        assert c.config(c.deploys["other", 1]) is kept, "one topic's change makes no other anew"


def place(topic: str, partitions: int | None, broker_id: int = 1) -> DeployRecord:
    return DeployRecord(topic, broker_id, props=TopicProps(num_partitions=partitions))


async def test_a_brokers_topics_have_no_more_partitions_together_than_it_takes() -> None:
    names = [f"t{number}" for number in range(11)]
    async with catalogue() as c:
        await c.apply([ONE, *map(TopicRecord, names)])
        with pytest.raises(
            BadRequestError, match="broker 1 have 0 partitions, and would have 110,000; 100,000 are allowed"
        ):
            await c.apply([place(name, 10_000) for name in names])
        assert not c.deploys
        await c.apply([place(name, 10_000) for name in names[:10]])
        assert c.partitions_on(1) == 100_000
        with pytest.raises(BadRequestError, match="have 100,000 partitions, and would have 100,001"):
            await c.apply([place("t10", 1)])
        await c.apply([place("t0", 9_999), place("t10", None)])
        with pytest.raises(BadRequestError, match="broker 1"):
            await c.apply([replace(ONE, props=TopicProps(num_partitions=2))])
        with pytest.raises(BadRequestError, match="broker 1"):
            await c.apply([ClusterRecord(props=TopicProps(num_partitions=2))])
        await c.apply(deletes=[c.deploys["t1", 1]])
        assert c.partitions_on(1) == 90_000
        await c.apply([ClusterRecord(props=TopicProps(num_partitions=2))])
        assert c.partitions_on(1) == 90_001
        await c.apply([replace(place("t0", 9_999), topic_status=TopicStatus.SOFT_REMOVED)])
        assert c.partitions_on(1) == 80_002, "what is to be removed is in no configuration any more"


async def test_a_broker_that_has_too_many_partitions_may_have_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    async with catalogue() as c:
        await c.apply([ONE, DEMO, TopicRecord("other"), place("demo", 60), place("other", 60)])
        monkeypatch.setattr("pytubemq.master.catalogue.partition_totals.MAX_PARTITIONS_PER_BROKER", 100)
        await c.apply([place("demo", 50)])
        await c.apply([replace(ONE, region_id=7)])
        with pytest.raises(BadRequestError):
            await c.apply([place("demo", 51)])


async def test_totals_follow_the_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytubemq.master.catalogue.partition_totals.MAX_PARTITIONS_PER_BROKER", 10**9)
    draw = Random(7)
    names = [f"t{number}" for number in range(6)]
    async with catalogue() as c:
        await c.apply([ONE, TWO, *map(TopicRecord, names)])
        for _ in range(300):
            broker, size = draw.choice((ONE, TWO)), draw.choice((None, 2, 3))
            changes: list[Record] = [
                place(draw.choice(names), size, broker.broker_id),
                replace(place(draw.choice(names), size, broker.broker_id), topic_status=draw.choice(list(TopicStatus))),
                replace(broker, props=TopicProps(num_partitions=size)),
                ClusterRecord(props=TopicProps(num_topic_stores=size)),
            ]
            gone = [draw.choice(list(c.deploys.values()))] if c.deploys and draw.random() < 0.2 else []
            await c.apply([] if gone else [draw.choice(changes)], gone)
            for broker_id in (1, 2):
                live = [one for one in c.deployed_on(broker_id) if not one.topic_status.removed]
                assert c.partitions_on(broker_id) == sum(
                    c.config(one).partitions * c.config(one).stores for one in live
                )


class SlowStore(MemoryMetaStore):
    """A store whose writes end when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go_on = threading.Event(), threading.Event()

    def apply(self, puts: Sequence[Record], deletes: Sequence[Record]) -> None:
        """Wait, then store."""
        self.begun.set()
        assert self.go_on.wait(30)
        super().apply(puts, deletes)


async def test_whoever_is_cancelled_during_a_change_is_so_when_it_is_in_memory_as_well() -> None:
    store = SlowStore()
    async with catalogue(store) as c:
        change = asyncio.create_task(c.apply([DEMO]))
        assert await asyncio.to_thread(store.begun.wait, 30)
        change.cancel()
        assert not (await asyncio.wait({change}, timeout=0.02))[0], "its lock is still held"
        store.go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await change
        assert "demo" in c.topics
        assert "demo" in {topic.topic for topic in store.load().topics}
