"""Consumers at real servers: under rules that come and go, from given offsets, and calling handlers."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import pytubemq
from pytubemq import Batch, Bound, Message, Partition, Start, Throttled
from pytubemq.errors import GroupMismatchError
from pytubemq.model.records import GroupRecord
from tests.scenario.client.town import TOPIC, Town
from tests.support.events import event_of
from tests.support.waiting import until

if TYPE_CHECKING:
    from pytubemq.client.tube import Tube

pytestmark = [pytest.mark.scenario, pytest.mark.anyio]

EMPTY_READS = '[{"type":1,"rule":[{"zeroCnt":1,"freqInMs":3600000}]}]'
NOTHING_WHEN_FAR = '[{"type":0,"rule":[{"start":"00:00","end":"24:00","dltInM":21,"limitInM":0,"freqInMs":3600000}]}]'
MIB = 1 << 20


async def fill(tube: Tube, bodies: list[bytes], *, partition: int = 0) -> None:
    """Put messages into a partition, in order."""
    async with tube.producer(TOPIC) as producer:
        for body in bodies:
            while not producer.buffer.has_room:
                await producer.room()
            producer.submit(body, partition=partition)
        await producer.flush()


async def test_a_groups_rules_reach_a_consumer_that_runs_and_end_when_they_are_taken_back(town: Town) -> None:
    await town.start(1)
    await town.master.create_topic(TOPIC, 1)
    catalogue = town.master.catalogue
    async with pytubemq.connect(town.address) as tube, tube.consumer("g", TOPIC, start=Start.EARLIEST) as consumer:
        batches = consumer.batches(max_wait_s=0.05)
        waiting = asyncio.ensure_future(anext(batches))
        record = GroupRecord(group="g", flow_ctrl_enable=True, flow_ctrl_info=EMPTY_READS)
        await catalogue.apply([record])
        told = await event_of(tube, Throttled)
        assert (told.wait_s, told.partition) == (3600.0, Partition(1, TOPIC, 0))
        await fill(tube, [b"a"])
        assert not waiting.done()
        await catalogue.apply([replace(record, flow_ctrl_enable=False)])
        async with asyncio.timeout(30):
            assert [message.body for message in await waiting] == [b"a"]


async def test_a_group_that_is_far_behind_gets_nothing_until_its_limit_is_lifted(town: Town) -> None:
    await town.start(1)
    await town.master.create_topic(TOPIC, 1)
    catalogue = town.master.catalogue
    record = GroupRecord(group="g", flow_ctrl_enable=True, flow_ctrl_info=NOTHING_WHEN_FAR)
    await catalogue.apply([record])
    async with pytubemq.connect(town.address) as tube:
        await fill(tube, [bytes(MIB - 100)] * 26)
        async with tube.consumer("g", TOPIC, start=Start.EARLIEST) as consumer:
            batches = consumer.batches(max_messages=1)
            batch = await anext(batches)
            await batch.confirm()
            assert (await event_of(tube, Throttled)).reason.startswith("0 MiB a minute")
            assert await consumer.next_batch(timeout_s=0.3) is None
            await catalogue.apply([replace(record, flow_ctrl_enable=False)])
            async with asyncio.timeout(60):
                for _ in range(25):
                    batch = await anext(batches)
                    await batch.confirm()
            assert consumer.lag() == {Partition(1, TOPIC, 0): 0}


async def test_a_seek_moves_the_group_for_good(town: Town) -> None:
    await town.start(1)
    await town.master.create_topic(TOPIC, 1)
    here = Partition(1, TOPIC, 0)
    async with pytubemq.connect(town.address) as tube:
        await fill(tube, [b"%d" % number for number in range(10)])
        async with tube.consumer("g", TOPIC, start=Start.EARLIEST) as consumer:
            await (await anext(consumer.batches())).confirm()
            assert await consumer.seek(here, 4 * 28) == 4 * 28
            assert await consumer.seek(here, 1 << 40) == 10 * 28, "no further than there is"
            assert await consumer.seek(here, 7 * 28) == 7 * 28
        async with tube.consumer("g", TOPIC, start=Start.EARLIEST) as consumer:
            batch = await anext(consumer.batches())
            assert [message.body for message in batch] == [b"7", b"8", b"9"]


async def test_what_a_filter_passes_over_is_no_lag(town: Town) -> None:
    await town.start(1)
    await town.master.create_topic(TOPIC, 1)
    async with pytubemq.connect(town.address) as tube:
        await fill(tube, [b"a"] * 30)
        async with tube.consumer("g", TOPIC, start=Start.EARLIEST, filters=["none"]) as consumer:
            batches = asyncio.ensure_future(anext(consumer.batches(max_wait_s=0.05)))
            await until(lambda: consumer.lag() == {Partition(1, TOPIC, 0): 0})
            batches.cancel()


@pytest.mark.parametrize(
    ("bound", "says"),
    [
        (Bound(session_key="another", source_count=1), "the same session_key"),
        (Bound(session_key="run", source_count=2), "the same source_count"),
        (Bound(session_key="run", source_count=1, select_big=False), "the same select_big"),
        (None, "all bound, or all balanced"),
    ],
)
async def test_who_does_not_fit_a_bound_group_is_told_what_to_change(
    town: Town, bound: Bound | None, says: str
) -> None:
    await town.start(1)
    await town.master.create_topic(TOPIC, 1)
    async with (
        pytubemq.connect(town.address) as tube,
        tube.consumer("g", TOPIC, bound=Bound(session_key="run", source_count=1)),
    ):
        with pytest.raises(GroupMismatchError, match=says):
            async with tube.consumer("g", TOPIC, bound=bound):
                pass


async def test_a_bound_group_begins_at_its_offsets_when_all_are_there(town: Town) -> None:
    await town.start(1)
    await town.master.create_topic(TOPIC, 3)
    first, second, third = (Partition(1, TOPIC, number) for number in range(3))
    async with pytubemq.connect(town.address) as tube:
        for number in range(3):
            await fill(tube, [b"%d" % n for n in range(10)], partition=number)
        bounds = [
            Bound(session_key="job", source_count=2, offsets={first: 8 * 28, second: 28}),
            Bound(session_key="job", source_count=2, offsets={second: 9 * 28}),
        ]
        seen: dict[Partition, list[bytes]] = {}
        async with (
            tube.consumer("g", TOPIC, start=Start.EARLIEST, bound=bounds[0]) as one,
            tube.consumer("g", TOPIC, start=Start.EARLIEST, bound=bounds[1]) as other,
        ):

            async def read(consumer: pytubemq.Consumer) -> None:
                async for batch in consumer.batches():
                    seen.setdefault(batch.partition, []).extend(message.body for message in batch)
                    await batch.confirm()

            readers = [asyncio.create_task(read(one)), asyncio.create_task(read(other))]
            await until(lambda: sum(map(len, seen.values())) >= 13, timeout_s=60)
            assert second in other.assignment, "the larger offset was the second member's"
            assert first in one.assignment
            for reader in readers:
                reader.cancel()
        assert seen[first] == [b"8", b"9"]
        assert seen[second] == [b"9"]
        assert seen[third] == [b"%d" % number for number in range(10)]


async def test_handlers_get_everything_in_order_while_a_broker_restarts(town: Town) -> None:
    await town.start(1)
    await town.master.create_topic(TOPIC, 4)
    seen: dict[Partition, list[int]] = {partition: [] for partition in (Partition(1, TOPIC, n) for n in range(4))}
    enough, count = asyncio.Event(), 2_000

    async def handler(message: Message) -> None:
        seen[message.partition].append(int(message.body))
        if sum(len(set(numbers)) for numbers in seen.values()) == 4 * count:
            enough.set()

    async with pytubemq.connect(town.address) as tube:
        for number in range(4):
            await fill(tube, [b"%d" % n for n in range(count)], partition=number)
        async with tube.push_consumer(
            "g", TOPIC, handler=handler, by_message=True, start=Start.EARLIEST, max_messages=50
        ) as push:
            await until(lambda: push.stats.handled >= count)
            await town.stop(1)
            await town.start(1)
            async with asyncio.timeout(90):
                await enough.wait()
    for numbers in seen.values():
        firsts = list(dict.fromkeys(numbers))
        assert firsts == list(range(count)), "each first came in order"
        assert max(Counter(numbers).values()) <= 2, "only what was in hand when the Broker went comes twice"


async def test_two_push_consumers_share_a_group_with_a_pull_consumer_after_them(town: Town) -> None:
    await town.start(1)
    await town.master.create_topic(TOPIC, 4)
    got: list[bytes] = []

    async def handler(batch: Batch) -> None:
        got.extend(message.body for message in batch)

    async with pytubemq.connect(town.address) as tube, pytubemq.connect(town.address) as second:
        async with (
            tube.push_consumer("g", TOPIC, handler=handler, start=Start.EARLIEST) as one,
            second.push_consumer("g", TOPIC, handler=handler, start=Start.EARLIEST) as other,
        ):
            await until(lambda: len(one.assignment) == len(other.assignment) == 2, timeout_s=60)
            for number in range(4):
                await fill(tube, [b"%d" % number] * 10, partition=number)
            await until(lambda: one.stats.handled + other.stats.handled >= 40, timeout_s=60)
        assert Counter(got) == {b"0": 10, b"1": 10, b"2": 10, b"3": 10}
        async with tube.consumer("g", TOPIC, start=Start.EARLIEST) as consumer:
            assert await consumer.next_batch(timeout_s=0.5) is None, "all was confirmed"
