"""Topics change while a producer and a consumer are at work on them, and nothing that was acknowledged is lost."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import httpx
import pytest

from pytubemq import Start, connect
from pytubemq.errors import TubeError
from pytubemq.server.cluster import EmbeddedCluster
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pytubemq import Tube

pytestmark = [pytest.mark.anyio, pytest.mark.scenario]
PATIENCE_S = 60


class Operator:
    """Calls the Master's administration."""

    def __init__(self, http: httpx.AsyncClient, cluster: EmbeddedCluster) -> None:
        self._http = http
        self._url = f"{cluster.http}/webapi.htm"

    async def change(self, method: str, **params: object) -> None:
        data = {"method": method, "brokerId": 1, "topicName": "orders", "createUser": "me", "modifyUser": "me"}
        found = (await self._http.post(self._url, data={**data, **params})).json()
        assert found["result"] is True, found
        assert all(row.get("success", True) for row in found["data"]), found

    async def modify(self, **params: object) -> None:
        await self.change("admin_modify_topic_info", **params)


class Traffic:
    """A producer that sends number after number, and a consumer of the group that reads them."""

    def __init__(self, tube: Tube) -> None:
        self._tube = tube
        self.acknowledged: set[bytes] = set()
        self.read: set[bytes] = set()
        self.written_to: set[int] = set()
        self.refused = 0

    async def produce(self) -> None:
        number = 0
        async with self._tube.producer("orders") as producer:
            while True:
                body = b"%d" % number
                number += 1
                try:
                    receipt = await producer.send(body)
                except TubeError:
                    self.refused += 1
                    await asyncio.sleep(0.02)  # a refusal comes at once
                else:
                    self.acknowledged.add(body)
                    self.written_to.add(receipt.partition.partition_id)
                await asyncio.sleep(0.001)  # the load's pace

    async def consume(self) -> None:
        async with self._tube.consumer("g", "orders", start=Start.EARLIEST) as consumer:
            async for batch in consumer.batches():
                self.read.update(message.body for message in batch)
                await batch.confirm()

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(self.produce()), asyncio.create_task(self.consume())]
        try:
            yield
            for task in tasks:
                assert not task.done(), task
        finally:
            for task in tasks:
                task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(*tasks, return_exceptions=True)

    async def goes_on(self) -> None:
        """Wait until something newly sent has been read."""
        before = set(self.acknowledged)
        await until(lambda: bool((self.acknowledged - before) & self.read), timeout_s=PATIENCE_S)

    async def kept_out(self) -> None:
        """Wait until the producer is refused."""
        before = self.refused
        await until(lambda: self.refused > before, timeout_s=PATIENCE_S)

    async def all_read(self) -> None:
        await until(lambda: self.acknowledged <= self.read, timeout_s=PATIENCE_S)


@asynccontextmanager
async def in_use() -> AsyncIterator[tuple[Operator, Traffic, EmbeddedCluster]]:
    async with (
        EmbeddedCluster() as cluster,
        httpx.AsyncClient(timeout=PATIENCE_S) as http,
        connect(cluster.master) as tube,
    ):
        await cluster.create_topic("orders", partitions=2)
        traffic = Traffic(tube)
        async with traffic.at_work():
            await traffic.goes_on()
            yield Operator(http, cluster), traffic, cluster


async def test_a_topic_is_added_and_another_one_widened() -> None:
    async with in_use() as (operator, traffic, cluster):
        await cluster.create_topic("extra", partitions=1)
        async with connect(cluster.master) as tube, tube.producer("extra") as producer:
            assert (await producer.send(b"one")).offset == 0
        await traffic.goes_on()
        await operator.modify(numPartitions=4)
        await until(lambda: traffic.written_to == {0, 1, 2, 3}, timeout_s=PATIENCE_S)
        await traffic.all_read()
        assert traffic.refused == 0, "nobody noticed"


async def test_a_topic_is_closed_for_writing_and_opened_again() -> None:
    async with in_use() as (operator, traffic, _):
        await operator.modify(acceptPublish="false")
        await traffic.kept_out()
        await traffic.all_read()
        await operator.modify(acceptPublish="true")
        await traffic.goes_on()
        await traffic.all_read()


async def test_a_topic_is_closed_for_reading_and_opened_again() -> None:
    async with in_use() as (operator, traffic, _):
        await operator.modify(acceptSubscribe="false")
        before = len(traffic.acknowledged)
        await until(lambda: len(traffic.acknowledged) > before + 20, timeout_s=PATIENCE_S)
        await operator.modify(acceptSubscribe="true")
        await traffic.goes_on()
        await traffic.all_read()


async def test_a_topic_is_deleted_and_restored_with_all_its_messages() -> None:
    async with in_use() as (operator, traffic, cluster):
        await operator.modify(acceptPublish="false", acceptSubscribe="false")
        await traffic.kept_out()
        await operator.change("admin_delete_topic_info")
        await operator.change("admin_redo_deleted_topic_info")
        await operator.modify(acceptPublish="true", acceptSubscribe="true")
        await traffic.goes_on()
        await traffic.all_read()
        read, everything = set(traffic.read), set[bytes]()
        async with connect(cluster.master) as tube:
            for partition in await tube.partitions("orders"):
                async with tube.reader(partition, end=Start.LATEST) as reader:
                    everything |= {message.body async for batch in reader.batches() for message in batch}
        assert read <= everything


async def test_a_topic_of_the_same_name_that_comes_again_begins_empty_for_those_at_work() -> None:
    async with in_use() as (operator, traffic, cluster):
        await operator.modify(acceptPublish="false", acceptSubscribe="false")
        await traffic.kept_out()
        await operator.change("admin_delete_topic_info")
        await operator.change("admin_remove_topic_info")
        assert cluster._master is not None
        master = cluster._master.master
        assert master is not None
        await until(lambda: not master.catalogue.deploys, timeout_s=PATIENCE_S)
        traffic.acknowledged.clear()
        traffic.read.clear()
        await operator.change("admin_add_new_topic_record", numPartitions=1)
        await traffic.goes_on()
        await traffic.all_read()
