"""Consumers that divide partitions among themselves, on a real Master and real Brokers."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from pytubemq import Lost, Partition, Start, connect, sync
from pytubemq.errors import GroupMismatchError, StaleBatchError
from pytubemq.server.cluster import EmbeddedCluster, ThreadedCluster
from tests.support.waiting import until, until_answer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pytubemq import BalanceConsumer, Tube

pytestmark = [pytest.mark.scenario, pytest.mark.anyio]

MESSAGES = 400


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    """Two Brokers with the topic `demo`, three partitions on each."""
    async with EmbeddedCluster(brokers=2) as running:
        await running.create_topic("demo", partitions=3)
        yield running


async def produce(tube: Tube, count: int, *, first: int = 0) -> None:
    """Messages whose bodies are numbers."""
    async with tube.producer("demo") as producer:
        for number in range(first, first + count):
            producer.submit(b"%d" % number)
        await producer.flush()


async def read(consumer: BalanceConsumer, got: Counter[bytes], count: int) -> None:
    """Confirm batches until `got` has so many messages of anybody's."""
    async with asyncio.timeout(60):
        batches = consumer.batches(max_messages=20, idle_timeout_s=0.05, max_wait_s=0.05)
        while got.total() < count:
            async for batch in batches:
                got.update(message.body for message in batch)
                await batch.confirm()


async def ask(cluster: EmbeddedCluster, method: str, **params: str) -> dict[str, Any]:
    """A method of the admin interface."""
    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        response = await client.get(f"{cluster.http}/webapi.htm", params={"method": method, **params})
    found: dict[str, Any] = response.json()
    assert found["errCode"] == 0, found
    return found


async def test_nodes_divide_a_topic_and_read_every_message_once(cluster: EmbeddedCluster) -> None:
    async with connect(cluster.master) as tube, connect(cluster.master) as other:
        await produce(tube, MESSAGES)
        got: Counter[bytes] = Counter()
        async with (
            tube.balance_consumer("g", "demo", node_id=0, source_count=2, start=Start.EARLIEST) as zero,
            other.balance_consumer("g", "demo", node_id=1, source_count=2, start=Start.EARLIEST) as one,
        ):
            assert await zero.ready(30)
            assert await one.ready(30)
            assert not set(zero.registered) & set(one.registered)
            assert len(zero.registered) == len(one.registered) == 3
            assert all(await zero.partition_meta())
            await asyncio.gather(read(zero, got, MESSAGES), read(one, got, MESSAGES))
            for consumer in (zero, one):
                assert all(stand.position == stand.newest for stand in consumer.offsets().values())
        assert got == Counter({b"%d" % number: 1 for number in range(MESSAGES)})


async def test_the_master_shows_who_holds_what(cluster: EmbeddedCluster) -> None:
    async with (
        connect(cluster.master) as tube,
        tube.balance_consumer("g", "demo", node_id=0, source_count=1) as consumer,
        httpx.AsyncClient(trust_env=False, timeout=30) as client,
    ):
        assert await consumer.ready()
        await until_answer(
            lambda: client.get(f"{cluster.http}/api/v1/groups/g"),
            lambda shown: all(str(partition) in shown.text for partition in consumer.registered),
        )


async def test_a_broker_that_is_away_moves_nothing(cluster: EmbeddedCluster) -> None:
    async with (
        connect(cluster.master) as tube,
        connect(cluster.master) as other,
        tube.balance_consumer("g", "demo", node_id=0, source_count=2, start=Start.EARLIEST) as zero,
        other.balance_consumer("g", "demo", node_id=1, source_count=2, start=Start.EARLIEST) as one,
    ):
        assert await zero.ready(30)
        assert await one.ready(30)
        before = (zero.registered, one.registered)
        await cluster.stop_broker(2)
        lost = [Partition(2, "demo", number) for number in range(3)]
        await until(lambda: not {*zero.registered, *one.registered} & {*lost})
        assert (tuple(sorted(zero.share)), tuple(sorted(one.share))) == before
        await produce(tube, 50)
        got: Counter[bytes] = Counter()
        await asyncio.gather(read(zero, got, 50), read(one, got, 50))
        assert max(got.values()) == 1
        await cluster.restart_broker(2)
        await until(lambda: (zero.registered, one.registered) == before)


async def test_a_successor_takes_the_number_and_the_partitions_of_a_dead_process(cluster: EmbeddedCluster) -> None:
    dead = connect(cluster.master)
    await dead.__aenter__()
    consumer = dead.balance_consumer("g", "demo", node_id=0, source_count=1, start=Start.EARLIEST)
    await consumer.__aenter__()
    assert await consumer.ready(30)
    held = consumer.registered
    assert dead._cluster is not None
    await dead._cluster.pool.close()  # its connections break, as those of a killed process do
    await consumer._tasks.close()
    async with connect(cluster.master) as tube:
        await produce(tube, 30)
        async with tube.balance_consumer("g", "demo", node_id=0, source_count=1, start=Start.EARLIEST) as successor:
            assert await successor.ready(60)
            assert successor.registered == held
            got: Counter[bytes] = Counter()
            await read(successor, got, 30)
    await dead.close()


async def test_a_number_is_given_once_and_a_group_is_of_one_kind(cluster: EmbeddedCluster) -> None:
    async with connect(cluster.master) as tube:
        async with tube.balance_consumer("g", "demo", node_id=0, source_count=2):
            with pytest.raises(GroupMismatchError, match="give each its own node_id"):
                await tube.balance_consumer("g", "demo", node_id=0, source_count=2, node_wait_s=0).__aenter__()
            with pytest.raises(GroupMismatchError, match="same source_count"):
                await tube.balance_consumer("g", "demo", node_id=1, source_count=3).__aenter__()
            with pytest.raises(GroupMismatchError):
                await tube.consumer("g", "demo").__aenter__()
        async with tube.consumer("by_master", "demo"):
            with pytest.raises(GroupMismatchError, match="another group name"):
                await tube.balance_consumer("by_master", "demo", node_id=0, source_count=1).__aenter__()


async def test_by_hand_from_an_offset(cluster: EmbeddedCluster) -> None:
    async with connect(cluster.master) as tube:
        async with tube.producer("demo") as producer:
            for number in range(10):
                await producer.send(b"%d" % number, partition=Partition(1, "demo", 2))
        async with tube.balance_consumer("g", "demo", manual=True) as consumer:
            assert set((await consumer.partition_meta()).values()) == {True}
            await consumer.connect("1:demo:2", offset=28 * 7)
            batch = await consumer.next_batch(timeout_s=30)
            assert batch is not None
            assert [message.body for message in batch] == [b"7", b"8", b"9"]
            await batch.confirm()
            assert consumer.offsets()[Partition(1, "demo", 2)].position == 280
            await consumer.disconnect("1:demo:2")
            await consumer.connect("1:demo:2")
            assert await consumer.next_batch(timeout_s=0.2) is None


async def test_an_operator_sends_the_group_to_the_newest_messages(cluster: EmbeddedCluster) -> None:
    async with connect(cluster.master) as tube:
        await produce(tube, 60)
        async with tube.balance_consumer("g", "demo", node_id=0, source_count=1, start=Start.EARLIEST) as consumer:
            batches = consumer.batches(max_messages=1, max_wait_s=0.05)
            batch = await anext(batches)
            await ask(cluster, "admin_set_client_balance_group_consume_from_max", groupName="g", modifyUser="me")
            await until(lambda: all(lag == 0 for lag in consumer.lag().values()))
            with pytest.raises(StaleBatchError, match="newest"):
                await batch.confirm()
            await produce(tube, 6, first=1000)
            got: Counter[bytes] = Counter()
            await read(consumer, got, 6)
            assert min(int(body) for body in got) == 1000


async def test_a_broker_that_dies_with_a_batch_in_work_is_waited_for() -> None:
    async with EmbeddedCluster(broker_in_child=True) as cluster, connect(cluster.master) as tube:
        await cluster.create_topic("demo", partitions=2)
        await produce(tube, 20)
        async with tube.balance_consumer("g", "demo", node_id=0, source_count=1, start=Start.EARLIEST) as consumer:
            batches = consumer.batches(max_messages=5)
            batch = await anext(batches)
            await cluster.kill_broker()
            async for event in tube.events():
                if isinstance(event, Lost):
                    break
            await cluster.restart_broker()
            await batch.confirm()
            got = Counter(message.body for message in batch)
            await read(consumer, got, 20)
            assert got == Counter({b"%d" % number: 1 for number in range(20)})


def test_the_same_without_await() -> None:
    with ThreadedCluster() as cluster:
        cluster.create_topic("demo", partitions=2)
        with sync.connect(cluster.master) as tube:
            with tube.producer("demo") as producer:
                futures = [producer.submit(b"%d" % number) for number in range(20)]
                producer.flush()
                assert all(future.done() for future in futures)
            with tube.balance_consumer("g", "demo", node_id=0, source_count=1, start=Start.EARLIEST) as consumer:
                assert consumer.ready(30)
                assert consumer.registered == tuple(sorted(consumer.share))
                assert not consumer.closed
                got = 0
                for batch in consumer.batches():
                    got += len(batch)
                    batch.confirm()
                    if got == 20:
                        break
                assert {stand.position for stand in consumer.offsets().values()} != {0}
                consumer.disconnect(consumer.registered[0])
