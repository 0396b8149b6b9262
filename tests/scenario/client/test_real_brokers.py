"""The client against a real Master and real Brokers: order through refusals, Brokers that move or are away."""

from __future__ import annotations

import asyncio
import errno
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

import pytubemq
from pytubemq.broker.members.consumer_registry import ConsumerRegistry, Registration, RegistryFullError
from pytubemq.errors import BadRequestError, NotFoundError, UnreachableError
from pytubemq.model.limits import MAX_BATCH_MESSAGES
from pytubemq.testing.disk import FaultyDisk, Operation
from tests.scenario.client.town import TOPIC, Town
from tests.support.waiting import until

if TYPE_CHECKING:
    from pytubemq import Partition, Receipt
    from pytubemq.broker.registration_key import RegistrationKey

pytestmark = [pytest.mark.scenario, pytest.mark.anyio]


async def test_a_key_keeps_its_order_through_a_disk_that_is_full_for_a_moment_again_and_again(town: Town) -> None:
    disk = FaultyDisk()
    await town.start(1, disk=disk)
    await town.master.create_topic(TOPIC, 3)
    bodies = [b"%06d" % number for number in range(20 * MAX_BATCH_MESSAGES)]
    async with pytubemq.connect(town.address) as tube, tube.producer(TOPIC) as producer:
        first = await producer.send(b"so that it is known what the Broker takes", key="one")
        for writes in (0, 3, 6):  # the first one fails at any rate: a slow Broker takes all batches in few writes
            disk.fail(Operation.WRITE, errno.ENOSPC, after_calls=writes, times=1, path_contains="journal")
        await asyncio.gather(*[producer.submit(body, key="one") for body in bodies])
        assert producer.stats.retried > 0
        async with tube.reader(first.partition, end=pytubemq.Start.LATEST) as reader:
            stored = [message.body async for batch in reader.batches() for message in batch]
    assert stored[1:] == bodies


@pytest.mark.parametrize("batching", [True, False])
async def test_each_message_is_where_its_receipt_says(town: Town, batching: bool) -> None:
    await town.start(1)
    await town.master.create_topic(TOPIC, 2)
    bodies = [b"%d" % number * (1 + number % 3) for number in range(6_000)]
    told: dict[Partition, dict[int | None, tuple[bytes, int, int | None]]] = defaultdict(dict)
    async with pytubemq.connect(town.address) as tube, tube.producer(TOPIC, batching=batching) as producer:
        await producer.send(b"so that it is known what the Broker takes")
        futures: list[asyncio.Future[Receipt]] = []
        for at in range(0, len(bodies), 300):  # several rounds, so that the partitions take turns
            futures += [producer.submit(body) for body in bodies[at : at + 300]]
            await asyncio.sleep(0)
        dropped = [number for number in range(150, len(bodies), 1_000) if futures[number].cancel()]
        for body, future in zip(bodies, futures, strict=True):
            if not future.cancelled():
                receipt = await future
                told[receipt.partition][receipt.offset] = body, receipt.message_id, receipt.appended_at_ms
        assert len(told) == 2
        assert sum(map(len, told.values())) == len(bodies) - len(dropped)
        for partition, expected in told.items():
            found: dict[int | None, tuple[bytes, int, int | None]] = {}
            async with tube.reader(partition, end=pytubemq.Start.LATEST) as reader:
                async for batch in reader.batches():
                    found |= {one.offset: (one.body, one.message_id, one.appended_at_ms) for one in batch}
            assert expected.items() <= found.items()


async def test_a_consumer_finds_its_broker_at_its_new_address(town: Town) -> None:
    before = (await town.start(1)).address
    await town.master.create_topic(TOPIC, 1)
    async with (
        pytubemq.connect(town.address) as tube,
        pytubemq.connect(town.address) as other,  # so that the producer does not learn the address for the consumer
        other.producer(TOPIC) as producer,
    ):
        await producer.send(b"a")
        async with tube.consumer("g", TOPIC, start=pytubemq.Start.EARLIEST) as consumer:
            batches = consumer.batches(max_wait_s=0.1)
            await (await anext(batches)).confirm()
            await town.stop(1)
            after = (await town.start(1)).address
            assert after != before
            await producer.send(b"b")
            async with asyncio.timeout(30):
                batch = await anext(batches)
            assert [message.body for message in batch] == [b"b"]
            await batch.confirm()


async def test_a_topic_is_all_of_its_partitions_while_a_broker_is_away(town: Town) -> None:
    await town.start(1)
    await town.start(2)
    await town.master.create_topic(TOPIC, 2)
    async with pytubemq.connect(town.address, request_timeout_s=1.0) as tube:
        everything = await tube.partitions(TOPIC)
        assert {partition.broker_id for partition in everything} == {1, 2}
        assert len(await tube.offsets(everything)) == 4
        await town.stop(2)
        await town.until(2, online=False)
        assert await tube.partitions(TOPIC) == everything
        with pytest.raises(UnreachableError, match="Broker 2"):
            await tube.offsets(everything)
        await town.start(2)
        assert len(await tube.offsets(everything)) == 4


async def test_a_producer_lets_go_of_a_topic_that_is_removed_and_takes_it_up_when_it_is_made_again(town: Town) -> None:
    await town.start(1)
    await town.master.create_topic(TOPIC, 2)
    async with pytubemq.connect(town.address) as tube, tube.producer(TOPIC) as producer:
        await producer.send(b"a")
        await town.master.delete_topic(TOPIC)
        await until(lambda: not producer.partitions)
        for where in ({}, {"key": "k"}, {"partition": 0}):
            with pytest.raises(NotFoundError, match="no partition now"):
                await producer.send(b"b", **where)
        await town.master.create_topic(TOPIC, 2)
        await until(lambda: len(producer.partitions) == 2)
        assert (await producer.send(b"c")).offset == 0


async def test_a_consumer_waits_for_a_place_among_the_registrations(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = await town.start(1)
    await town.master.create_topic(TOPIC, 1)
    registry = broker._running_state().registry
    registry.max_registrations = 1
    refusals: list[RegistrationKey] = []
    put = registry.put

    def counted(key: RegistrationKey, *args: Any, **options: Any) -> Registration:
        try:
            return put(key, *args, **options)
        except RegistryFullError:
            refusals.append(key)
            raise

    monkeypatch.setattr(ConsumerRegistry, "put", staticmethod(counted))
    async with pytubemq.connect(town.address) as tube, tube.producer(TOPIC) as producer, asyncio.timeout(30):
        await producer.send(b"a")
        first = tube.consumer("first", TOPIC, start=pytubemq.Start.EARLIEST)
        async with first:
            assert await first.next_batch() is not None
            async with tube.consumer("second", TOPIC, start=pytubemq.Start.EARLIEST) as second:
                waiting = asyncio.create_task(second.next_batch())
                await until(lambda: len(refusals) > 1)
                assert not waiting.done()
                assert any("registrations are full" in problem for problem in broker.health()["problems"])
                await first.close()
                batch = await waiting
                assert batch is not None
                assert [message.body for message in batch] == [b"a"]


async def test_a_group_too_many_is_told_so_and_does_not_wait(town: Town) -> None:
    broker = await town.start(1, max_positions=1)
    await town.master.create_topic(TOPIC, 1)
    async with pytubemq.connect(town.address) as tube, tube.producer(TOPIC) as producer:
        await producer.send(b"a")
        assert broker.health()["status"] == "ok"
        async with asyncio.timeout(30):
            async with tube.consumer("known", TOPIC, start=pytubemq.Start.EARLIEST) as consumer:
                batch = await consumer.next_batch()
                assert batch is not None
                await batch.confirm()
            async with tube.consumer("one-too-many", TOPIC) as refused:
                with pytest.raises(BadRequestError, match="group positions are full: this Broker keeps 1 of them"):
                    await refused.next_batch()
            assert any("group positions are full" in problem for problem in broker.health()["problems"])
            await producer.send(b"b")
            async with tube.consumer("known", TOPIC) as consumer:
                batch = await consumer.next_batch()
                assert batch is not None
                assert [message.body for message in batch] == [b"b"]
