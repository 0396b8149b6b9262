"""The Broker is killed at random points under load, again and again: nothing that was acknowledged is lost or moved.

Fifty kills by default, five hundred with `--soak`. What is checked at the end, by reading the partitions anew and
against what the producer's own books say: each message that was acknowledged lies at the very offset its receipt named,
byte for byte; offsets have no gap; within a partition messages lie in the order in which they were sent; no message
stands there twice, although many were sent again, because the Broker knows them by their producer's numbers.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING
from zlib import crc32

import pytest

import pytubemq
from pytubemq.errors import BufferFullError, TubeError
from pytubemq.model.offset import to_offset
from pytubemq.server.cluster import EmbeddedCluster
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from pytubemq.model.ids import Partition

pytestmark = [pytest.mark.scenario, pytest.mark.timeout(1800)]

TOPIC = "chaos"
PARTITIONS = 3
MOST_ACKNOWLEDGED_BETWEEN_KILLS = 2_500


class Load:
    """A producer that never stops; every message says its number."""

    def __init__(self, producer: pytubemq.Producer, rng: random.Random) -> None:
        self.producer = producer
        self.receipts: dict[int, pytubemq.Receipt] = {}
        self.sums: list[int] = []
        """CRC-32 of each body, by its number."""
        self.sent = 0
        self.stopping = False
        self._rng = rng
        self._under_way: set[asyncio.Future[pytubemq.Receipt]] = set()
        self._target = 0
        self._reached = asyncio.Event()
        self._padding = rng.randbytes(2_000)
        self.errors: list[BaseException] = []

    async def run(self) -> None:
        while not self.stopping:
            body = b"%d " % self.sent + self._padding[: self._rng.randrange(2_000)]
            try:
                future = self.producer.submit(body)
            except BufferFullError:
                await self.producer.room()
                continue
            number, self.sent = self.sent, self.sent + 1
            self.sums.append(crc32(body))
            self._under_way.add(future)
            future.add_done_callback(partial(self._done, number))
            if number % 50 == 0:
                await asyncio.sleep(0)
        await self.producer.flush()

    def _done(self, number: int, future: asyncio.Future[pytubemq.Receipt]) -> None:
        self._under_way.discard(future)
        if (error := future.exception()) is not None:
            self.errors.append(error)
        else:
            self.receipts[number] = future.result()
        if len(self.receipts) >= self._target or self.errors:
            self._reached.set()

    async def acknowledged(self, more: int) -> None:
        """Wait until so many more are acknowledged."""
        self._target = len(self.receipts) + more
        self._reached.clear()
        if more:
            await self._reached.wait()


async def read_all(tube: pytubemq.Tube, sums: list[int]) -> dict[Partition, list[int]]:
    """The numbers of all messages, partition by partition, in the order of the log; each is as it was sent."""
    found: dict[Partition, list[int]] = {}
    for partition in await tube.partitions(TOPIC):
        numbers = found[partition] = []
        async with tube.reader(partition, end=pytubemq.Start.LATEST) as reader:
            async for batch in reader.batches():
                for message in batch:
                    assert message.offset == to_offset(len(numbers)), f"a gap in the offsets of {partition}"
                    numbers.append(int(message.body.split(b" ", 1)[0]))
                    assert crc32(message.body) == sums[numbers[-1]], f"message {numbers[-1]} is not as it was sent"
    return found


async def kill_once(cluster: EmbeddedCluster, rng: random.Random) -> None:
    """Kill and start again; now and then kill in the middle of starting as well."""
    await cluster.kill_broker()
    if rng.random() < 0.15:
        starting = asyncio.ensure_future(cluster.restart_broker())
        await asyncio.sleep(rng.uniform(0.0, 0.5))  # any moment of the start
        await cluster.kill_broker()
        with contextlib.suppress(TubeError):
            await starting
    await cluster.restart_broker()


async def run_chaos(data_dir: Path, *, kills: int, seed: int) -> None:
    rng = random.Random(seed)
    async with EmbeddedCluster(data_dir=data_dir, broker_in_child=True) as cluster:
        await cluster.create_topic(TOPIC, partitions=PARTITIONS)
        async with pytubemq.connect(cluster.master) as tube:
            async with tube.producer(TOPIC, max_buffer_messages=1_000) as producer:
                load = Load(producer, rng)
                running = asyncio.ensure_future(load.run())
                for _ in range(kills):
                    await load.acknowledged(rng.randrange(MOST_ACKNOWLEDGED_BETWEEN_KILLS))
                    assert not load.errors, load.errors[0]
                    await kill_once(cluster, rng)
                await load.acknowledged(1)
                load.stopping = True
                await running
                retried = producer.stats.retried
            assert retried, "nothing was sent again, so nothing is shown of repeats"
            check(load, await read_all(tube, load.sums))


def check(load: Load, found: dict[Partition, list[int]]) -> None:
    assert not load.errors, load.errors[0]
    assert len(load.receipts) == load.sent, "a message has neither a receipt nor an error"
    lost = [
        (number, receipt)
        for number, receipt in load.receipts.items()
        if receipt.offset is None
        or receipt.offset // 28 >= len(found[receipt.partition])
        or found[receipt.partition][receipt.offset // 28] != number
    ]
    assert not lost, f"{len(lost)} acknowledged messages are not where their receipts say, first {lost[0]}"

    counts = Counter(number for numbers in found.values() for number in numbers)
    assert set(counts) == set(load.receipts), "messages that nobody sent, or that are missing"
    repeated = [number for number, times in counts.items() if times > 1]
    assert not repeated, f"{len(repeated)} messages stand more than once, first {repeated[0]}"
    for partition, numbers in found.items():
        assert numbers == sorted(numbers), f"{partition} is out of order"


def test_nothing_acknowledged_is_lost_when_the_broker_is_killed(tmp_path: Path, soak: bool) -> None:
    asyncio.run(run_chaos(tmp_path, kills=500 if soak else 50, seed=20_240_229))


async def consume_through_kills(data_dir: Path, *, kills: int, seed: int) -> None:
    rng = random.Random(seed)
    async with EmbeddedCluster(data_dir=data_dir, broker_in_child=True) as cluster:
        await cluster.create_topic(TOPIC, partitions=PARTITIONS)
        async with pytubemq.connect(cluster.master) as tube, tube.producer(TOPIC, max_buffer_messages=500) as producer:
            load = Load(producer, rng)
            seen: set[int] = set()

            async def consume() -> None:
                async with tube.consumer("group", TOPIC, start=pytubemq.Start.EARLIEST) as consumer:
                    async for batch in consumer.batches():
                        seen.update(int(message.body.split(b" ", 1)[0]) for message in batch)
                        # A lost confirmation only means that the batch comes again.
                        with contextlib.suppress(TubeError):
                            await batch.confirm()

            running = asyncio.ensure_future(load.run())
            consuming = asyncio.ensure_future(consume())
            for _ in range(kills):
                await load.acknowledged(rng.randrange(1, 1_500))
                await kill_once(cluster, rng)
            await load.acknowledged(1)
            load.stopping = True
            await running
            await until(lambda: consuming.done() or len(seen) == load.sent, timeout_s=60.0)
            assert not consuming.done(), consuming.exception()
            consuming.cancel()
            await asyncio.wait({consuming})
            assert not load.errors
            assert seen == set(load.receipts)


def test_a_group_sees_every_acknowledged_message_across_kills(tmp_path: Path) -> None:
    asyncio.run(consume_through_kills(tmp_path, kills=5, seed=7))
