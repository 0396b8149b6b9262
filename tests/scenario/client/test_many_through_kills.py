"""Messages that are sent together, while their Broker is killed again and again: each stands once, in order."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

import pytubemq
from pytubemq.server.cluster import EmbeddedCluster
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.scenario, pytest.mark.anyio, pytest.mark.timeout(240)]

TOPIC = "demo"
PARTITIONS = 2
KILLS = 5
LOT = 700


async def test_many_sent_together_stand_once_and_in_order_through_kills_of_the_broker(tmp_path: Path) -> None:
    sent: dict[int, list[bytes]] = {partition_id: [] for partition_id in range(PARTITIONS)}
    async with EmbeddedCluster(data_dir=tmp_path, broker_in_child=True) as cluster:
        await cluster.create_topic(TOPIC, partitions=PARTITIONS)
        async with pytubemq.connect(cluster.master) as tube:
            stopping = asyncio.Event()
            acknowledged = asyncio.Event()
            async with tube.producer(TOPIC) as producer:

                async def run(partition_id: int) -> None:
                    mine = sent[partition_id]
                    while not stopping.is_set():
                        bodies = [b"%08d" % number for number in range(len(mine), len(mine) + LOT)]
                        lots = [bodies[start : start + 100] for start in range(0, LOT, 100)]
                        futures = [producer.submit_many(lot, partition=partition_id) for lot in lots]
                        for lot, receipts in zip(lots, await asyncio.gather(*futures), strict=True):
                            assert [one.offset for one in receipts] == [28 * int(body) for body in lot]
                        mine.extend(bodies)
                        acknowledged.set()

                running = [asyncio.ensure_future(run(partition_id)) for partition_id in sent]
                for _ in range(KILLS):
                    acknowledged.clear()
                    await asyncio.wait(
                        {asyncio.ensure_future(acknowledged.wait()), *running}, return_when="FIRST_COMPLETED"
                    )
                    await cluster.kill_broker()
                    await cluster.restart_broker()
                stopping.set()
                await asyncio.gather(*running)
                assert producer.stats.failed == 0
            for partition in await tube.partitions(TOPIC):
                async with tube.reader(partition, end=pytubemq.Start.LATEST) as reader:
                    found = [message.body async for batch in reader.batches() for message in batch]
                assert found == sent[partition.partition_id]


async def test_a_part_of_a_pack_that_was_ready_and_not_taken_comes_after_a_restart_too(tmp_path: Path) -> None:
    async with (
        EmbeddedCluster(data_dir=tmp_path, broker_in_child=True) as cluster,
        pytubemq.connect(cluster.master) as tube,
    ):
        await cluster.create_topic("demo", partitions=1)
        async with tube.producer("demo") as producer:
            await producer.send(b"first")
            await producer.send_many([b"%d" % n for n in range(8)])
        async with tube.consumer("g", "demo", start=pytubemq.Start.EARLIEST) as consumer:

            async def fetched_more_than(count: int) -> None:
                await until(lambda: consumer.stats.fetched > count, timeout_s=60)

            got: list[bytes] = []
            killed = False
            batches = consumer.batches(max_messages=2)
            while len(got) < 9:
                batch = await anext(batches)
                got += [message.body for message in batch]
                await batch.confirm()
                if len(got) > 2 and not killed:
                    killed = True
                    await fetched_more_than(len(got))  # the next two are ready, and others wait behind them
                    ready = consumer.stats.fetched
                    await cluster.kill_broker()
                    await cluster.restart_broker()
                    await fetched_more_than(ready)
        assert got == [b"first", *(b"%d" % n for n in range(8))]
