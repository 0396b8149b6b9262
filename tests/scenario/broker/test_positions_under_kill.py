"""Positions of groups while the Broker is killed: what was confirmed stands, and only the rest comes again."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

import pytubemq
from pytubemq.errors import TubeError
from pytubemq.server.cluster import EmbeddedCluster
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.anyio, pytest.mark.scenario, pytest.mark.timeout(1800)]
MESSAGES = 6_000
PARTITIONS = 2


class Group:
    """A consumer that compares every batch with what it has confirmed before."""

    def __init__(self, tube: pytubemq.Tube, rng: random.Random, *, beside: bool) -> None:
        """`beside`: it reads on while its confirms are under way."""
        self._tube = tube
        self._rng = rng
        self._beside = beside
        self.confirmed: dict[object, int] = defaultdict(int)
        """By partition: the offset behind the last message of a confirm that was answered as done."""
        self.seen_to: dict[object, int] = defaultdict(int)
        """By partition: the offset behind the last message that was ever handed out."""
        self.confirms = 0
        self.repeated = 0

    def look_at(self, batch: pytubemq.Batch) -> int:
        """The offset behind the batch's last message."""
        offsets = [message.offset for message in batch]
        first, last = offsets[0], offsets[-1]
        assert first is not None
        assert last is not None
        assert offsets == list(range(first, last + 28, 28)), "a gap within a batch"
        partition = batch.partition
        assert first >= self.confirmed[partition], f"what was confirmed in {partition} came again"
        assert first <= self.seen_to[partition], f"{partition} skips messages that nobody was given"
        self.repeated += (self.seen_to[partition] - first) // 28
        self.seen_to[partition] = max(self.seen_to[partition], last + 28)
        return last + 28

    async def run(self) -> None:
        async with (
            self._tube.consumer("g", "demo", start=pytubemq.Start.EARLIEST) as consumer,
            asyncio.TaskGroup() as confirms,
        ):
            async for batch in consumer.batches(max_messages=50):
                end = self.look_at(batch)
                if self._rng.random() < 0.3:
                    await asyncio.sleep(0.002)  # a kill may find it handed out and not confirmed
                if self._beside:
                    confirms.create_task(self.confirm(batch, end))
                else:
                    await self.confirm(batch, end)

    async def confirm(self, batch: pytubemq.Batch, end: int) -> None:
        with suppress(TubeError):  # then nobody knows whether it counts, and either is right
            await batch.confirm()
            self.confirmed[batch.partition] = max(end, self.confirmed[batch.partition])
            self.confirms += 1


@pytest.mark.parametrize("beside", [False, True], ids=["each awaited", "beside the reading"])
async def test_what_a_group_confirmed_stands_however_the_broker_ends(tmp_path: Path, soak: bool, beside: bool) -> None:
    rng = random.Random(20_261_121)
    async with EmbeddedCluster(data_dir=tmp_path, broker_in_child=True) as cluster:
        await cluster.create_topic("demo", partitions=PARTITIONS)
        async with pytubemq.connect(cluster.master) as tube:
            async with tube.producer("demo") as producer:
                for start in range(0, MESSAGES, 20):  # in small portions, whatever a request takes together
                    await asyncio.gather(*(producer.submit(b"%d" % n) for n in range(start, start + 20)))
            group = Group(tube, rng, beside=beside)
            consuming = asyncio.create_task(group.run())
            for _ in range(60 if soak else 6):
                target = group.confirms + rng.randrange(1, 12)
                await until(lambda target: consuming.done() or group.confirms >= target or done(group), target)
                assert not consuming.done(), consuming.exception()
                if rng.random() < 0.5:
                    await cluster.kill_broker()
                else:
                    await cluster.stop_broker()
                await cluster.restart_broker()
            await until(lambda: consuming.done() or done(group), timeout_s=60)
            assert not consuming.done(), consuming.exception()
            consuming.cancel()
            await asyncio.wait({consuming})


def done(group: Group) -> bool:
    return sum(group.confirmed.values()) == MESSAGES * 28
