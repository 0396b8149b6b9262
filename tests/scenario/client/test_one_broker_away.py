"""One of three Brokers is away for longer than a request may take: its consumer goes on with the other two."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

import pytubemq
from pytubemq import Start
from pytubemq.client.consumer import consumer_base as base_module
from pytubemq.errors import StaleBatchError
from pytubemq.master.service import MasterService, MasterSettings
from tests.scenario.client.town import LOOPBACK, TOPIC, Town

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pytubemq import Batch, Consumer
    from pytubemq.client.tube import Tube


@pytest.fixture
async def hasty(tmp_path: Path) -> AsyncIterator[Town]:
    """A Master that waits for a Broker for a second."""
    master = MasterService(MasterSettings(listen=LOOPBACK, broker_absence_s=1.0))
    await master.start()
    made = Town(master, tmp_path)
    try:
        yield made
    finally:
        for broker_id in list(made.brokers):
            await made.stop(broker_id)
        await master.close()


pytestmark = [pytest.mark.scenario, pytest.mark.anyio]
REQUEST_TIMEOUT_S = 0.5
MESSAGES = 30


async def filled(town: Town, tube: Tube) -> None:
    """Messages on three Brokers."""
    for broker_id in (1, 2, 3):
        await town.start(broker_id)
    await town.master.create_topic(TOPIC, 1)
    async with tube.producer(TOPIC) as producer:
        for partition in await tube.partitions(TOPIC):
            for number in range(MESSAGES):
                producer.submit(b"%d" % number, partition=partition)
        await producer.flush()


async def of_broker(consumer: Consumer, broker_id: int) -> Batch:
    """The first batch of a Broker; those of others are confirmed meanwhile."""
    async for batch in consumer.batches(max_messages=5, max_wait_s=0.1):
        if batch.partition.broker_id == broker_id:
            return batch
        await batch.confirm()
    raise AssertionError("no batch came")


async def test_batches_of_others_come_while_a_confirm_waits_for_its_broker(town: Town) -> None:
    async with pytubemq.connect(town.address, request_timeout_s=REQUEST_TIMEOUT_S) as tube, asyncio.timeout(50):
        await filled(town, tube)
        async with tube.consumer("g", TOPIC, start=Start.EARLIEST) as consumer:
            waiting = await of_broker(consumer, 1)
            await town.stop(1)
            confirm = asyncio.create_task(waiting.confirm())
            while consumer.stats.confirmed < 2 * MESSAGES:
                batch = await consumer.next_batch()
                assert batch is not None
                await batch.confirm()
            await asyncio.wait([confirm], timeout=3 * REQUEST_TIMEOUT_S)
            assert not confirm.done()
            await town.start(1)
            await confirm
            again = await of_broker(consumer, 1)
            assert again.start_offset == waiting.next_offset, "it was confirmed, and once"


async def test_a_loop_that_passes_stale_batches_by_goes_on_when_a_broker_stays_away(
    hasty: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base_module, "RELEASE_WAIT_S", 0.1)
    async with pytubemq.connect(hasty.address, request_timeout_s=REQUEST_TIMEOUT_S) as tube, asyncio.timeout(50):
        await filled(hasty, tube)
        async with tube.consumer("g", TOPIC, start=Start.EARLIEST) as consumer:
            waiting = await of_broker(consumer, 1)
            await hasty.stop(1)
            with pytest.raises(StaleBatchError):
                await waiting.confirm()
            async with tube.producer(TOPIC) as producer:
                await producer.send(b"new")
            async for batch in consumer.batches():
                await batch.confirm()
                if batch.messages[-1].body == b"new":
                    break
