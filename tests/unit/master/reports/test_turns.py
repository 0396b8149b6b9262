"""Long views of the Master are made in slices: no turn of the loop makes more than a few rows of one."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq.master import broker_inspector
from pytubemq.master.broker_inspector import InspectedOffsets
from pytubemq.master.registry.topic_change import topic_change
from pytubemq.master.reports import group_reports, reports
from pytubemq.model.ids import Partition
from pytubemq.wire.protocol.messages.extension import GroupPosition, PartitionEnds, PartitionOffsetsResponse
from pytubemq.wire.serialization.message_bytes import decode_all_apart, encode
from tests.scenario.master.town import town

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

pytestmark = pytest.mark.anyio

TOPICS, PARTITIONS = 60, 50


class Ticks:
    """Counts what is done in each turn of the loop."""

    def __init__(self) -> None:
        self.number = 0
        self.done: Counter[int] = Counter()

    def counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, whose calls are counted."""

        def call(*args: Any, **named: Any) -> Any:
            self.done[self.number] += 1
            return function(*args, **named)

        return call

    async def run(self) -> None:
        while True:
            self.number += 1
            await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def ticking() -> AsyncIterator[Ticks]:
    ticks = Ticks()
    task = asyncio.create_task(ticks.run())
    try:
        yield ticks
    finally:
        task.cancel()


async def test_topics_are_listed_some_at_a_time_and_one_that_goes_meanwhile_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reports, "TURN_COST", 5 * (reports.TOPIC_COST + PARTITIONS))
    async with town() as t:
        broker = await t.broker(1)
        serving = asyncio.create_task(broker.serve())
        await t.master.create_topics({f"t{n:02}": topic_change(partitions=PARTITIONS) for n in range(TOPICS)})
        view = t.master._reports._topic
        async with ticking() as ticks:
            monkeypatch.setattr(t.master._reports, "_topic", ticks.counted(view))
            found = await t.master.topics()
        assert [topic.name for topic in found] == [f"t{n:02}" for n in range(TOPICS)]
        assert {topic.partitions for topic in found} == {PARTITIONS}
        assert (sum(ticks.done.values()), max(ticks.done.values())) == (TOPICS, 5)

        def shrink(*args: Any) -> Any:
            if t.master._catalogue.topics.pop("t40", None) is not None:
                assert args[0].topic == "t00"
            return view(*args)

        monkeypatch.setattr(t.master._reports, "_topic", shrink)
        assert [topic.name for topic in await t.master.topics()] == [f"t{n:02}" for n in range(TOPICS) if n != 40]
        serving.cancel()


async def test_the_lag_of_a_group_is_made_some_partitions_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytubemq.master.brokers.slices.REPORT_SLICE", 7)
    offsets = InspectedOffsets()
    for topic in ("a", "b"):
        for number in range(50):
            offsets.ends[Partition(1, topic, number)] = (28, 280)
            offsets.confirmed.setdefault("g", {})[Partition(1, topic, number)] = 112
    async with town() as t, ticking() as ticks:
        monkeypatch.setattr(group_reports, "_lag_of", ticks.counted(group_reports._lag_of))
        lines = await t.master._group_reports._lag("g", offsets)
        assert [line.partition for line in lines] == [f"1:{topic}:{n}" for topic in ("a", "b") for n in range(50)]
        assert {(line.confirmed, line.lag_messages) for line in lines} == {(112, 6)}
        assert max(ticks.done.values()) == 7


async def test_what_a_broker_responds_is_read_some_values_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_inspector, "INSPECTED_SLICE", 7)
    response = PartitionOffsetsResponse(
        success=True,
        err_code=200,
        err_msg="OK!",
        partitions=tuple(
            PartitionEnds(topic_name="demo", partition_id=n, min_offset=28, max_offset=280) for n in range(50)
        ),
        groups=tuple(
            GroupPosition(group_name="g", topic_name="demo", partition_id=n, confirmed_offset=112) for n in range(50)
        ),
    )
    head, (ends, positions) = decode_all_apart(PartitionOffsetsResponse, encode(response), ("partitions", "groups"))
    assert (head.partitions, head.groups, head.err_msg) == ((), (), "OK!")
    found = InspectedOffsets()
    async with ticking() as ticks:
        monkeypatch.setattr(broker_inspector, "Partition", ticks.counted(Partition))
        await broker_inspector._read(found, 1, ends, positions)
    assert found.ends == {Partition(1, "demo", n): (28, 280) for n in range(50)}
    assert found.confirmed == {"g": {Partition(1, "demo", n): 112 for n in range(50)}}
    assert max(ticks.done.values()) == 7
