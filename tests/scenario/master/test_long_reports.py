"""Consumers' requests with long lists of partitions: others do not wait for them, and they keep their order."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pytubemq.errors import Code
from pytubemq.master.groups.partitions.long_reports import LongReports
from pytubemq.model.ids import Partition
from pytubemq.model.limits import SHORT_REGISTRATION_BYTES
from pytubemq.wire.protocol.messages.master import CloseRequestC2M, CloseResponseM2C
from pytubemq.wire.rpc.methods import Method
from tests.scenario.master.town import FakeConsumer, Town, town
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

PARTITIONS = SHORT_REGISTRATION_BYTES // 50
OTHER = "g_127.0.0.1-2-1-1-Pull-1.0"


def held(consumer: FakeConsumer) -> tuple[str, ...]:
    return tuple(f"{consumer.client_id}@g#1:127.0.0.9:8123#demo:{number}" for number in range(PARTITIONS))


async def demo(t: Town) -> None:
    broker = await t.broker()
    serving = asyncio.create_task(broker.serve())
    await t.master.create_topic("demo", PARTITIONS)
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


class Reading:
    """Long lists are read only once this allows it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun = 0
        self.go_on = asyncio.Event()
        before = LongReports.read

        async def read(request: Any) -> Any:
            self.begun += 1
            await self.go_on.wait()
            return await before(request)

        monkeypatch.setattr(LongReports, "read", staticmethod(read))


async def test_short_requests_of_others_do_not_wait_and_one_connection_keeps_its_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with town() as t:
        await demo(t)
        long, short = await t.peer(FakeConsumer), await t.peer(FakeConsumer, client_id=OTHER)
        reading = Reading(monkeypatch)
        joining = asyncio.create_task(long.register(holds=held(long)))
        await until(lambda: reading.begun)
        group = t.master._groups.groups
        leaving = asyncio.create_task(
            long.ask(
                CloseRequestC2M(client_id=long.client_id, group_name="g"), CloseResponseM2C, Method.CONSUMER_CLOSE_C2M
            )
        )
        assert (await short.register()).success
        await until(lambda: len(t.master._server._tasks) == 2)
        assert set(group["g"].members) == {OTHER}
        reading.go_on.set()
        assert (await joining).success
        assert (await leaving).success
        assert set(group["g"].members) == {OTHER}, "left before it had joined"


async def test_a_long_list_counts_as_a_short_one_does() -> None:
    async with town() as t:
        await demo(t)
        consumer = await t.peer(FakeConsumer)
        assert (await consumer.register(holds=held(consumer))).success
        group = t.master._groups.groups["g"]
        assert group.holds(consumer.client_id) == {Partition(1, "demo", number) for number in range(PARTITIONS)}
        assert (await consumer.heartbeat(holds=held(consumer)[1:])).success
        assert len(group.holds(consumer.client_id)) == PARTITIONS - 1
        bad = await consumer.heartbeat(holds=(*held(consumer), "none"))
        assert (bad.success, bad.err_code) == (False, Code.BAD_REQUEST)
        assert "none" in (bad.err_msg or "")
        assert len(group.holds(consumer.client_id)) == PARTITIONS - 1


async def test_long_requests_go_with_their_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async with town() as t:
        await demo(t)
        reading = Reading(monkeypatch)
        first, second = await t.peer(FakeConsumer), await t.peer(FakeConsumer, client_id=OTHER)
        asked = [asyncio.create_task(one.register(holds=held(one))) for one in (first, second)]
        server = t.master._server
        await until(lambda: len(server._tasks) == 2 and reading.begun)
        for one in (first, second):
            await one.close()
        await until(lambda: len(server._tasks) == 1)
        reading.go_on.set()
        await until(lambda: not server._tasks)
        await asyncio.gather(*asked, return_exceptions=True)
        assert reading.begun == 1
        assert not t.master._groups.groups
