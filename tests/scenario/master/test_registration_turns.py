"""Registrations and long heartbeats of Brokers in their turns: many of them leave the Master time for others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pytubemq.errors import Code
from pytubemq.master.brokers.registration.registration_request import Registration
from pytubemq.model.limits import (
    MAX_LONG_CALLS,
    MAX_LONG_HEARTBEATS,
    MAX_LONG_REGISTRATIONS,
    SHORT_REGISTRATION_BYTES,
)
from pytubemq.net.server.long_work import LongWork
from tests.scenario.master.town import FakeBroker, town
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

LONG = ("", tuple(f"t{number}:1: : : : : : : :0: : : : : " for number in range(SHORT_REGISTRATION_BYTES // 25)))


class Reading:
    """Long registrations are read only once this allows it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun: list[int] = []
        self.go_on = asyncio.Event()
        before = Registration.read

        async def read(request: Any, who: Any, *rest: Any) -> Registration:
            if len(request.broker_topic_set_conf_info) > 1:
                self.begun.append(who.broker_id)
                await self.go_on.wait()
            return await before(request, who, *rest)

        monkeypatch.setattr(Registration, "read", read)


async def test_few_long_registrations_are_read_at_a_time_and_short_ones_do_not_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reading = Reading(monkeypatch)
    async with town() as t:
        long = [await t.peer(FakeBroker, broker_id=2 + number, reports=LONG) for number in range(4)]
        asked = [asyncio.create_task(broker.register()) for broker in long]
        tasks = t.master._server._tasks
        await until(lambda: len(tasks) == len(long) and reading.begun)
        assert (await (await t.peer(FakeBroker)).register()).success
        assert len(reading.begun) == MAX_LONG_REGISTRATIONS
        reading.go_on.set()
        assert all(answer.success for answer in await asyncio.gather(*asked))


async def test_registrations_go_with_their_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(monkeypatch)
    async with town() as t:
        long = [await t.peer(FakeBroker, broker_id=2 + number, reports=LONG) for number in range(4)]
        asked = [asyncio.create_task(broker.register()) for broker in long]
        server = t.master._server
        await until(lambda: len(server._tasks) == len(long) and reading.begun)
        for broker in long:
            await broker.close()
        await until(lambda: len(server._tasks) == MAX_LONG_REGISTRATIONS)
        reading.go_on.set()
        await until(lambda: not server._tasks)
        await asyncio.gather(*asked, return_exceptions=True)
        assert len(reading.begun) == MAX_LONG_REGISTRATIONS
        assert not t.master.broker_room.runs


async def test_many_registrations_over_one_connection_at_a_time_are_refused_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reading = Reading(monkeypatch)
    async with town() as t:
        broker = await t.peer(FakeBroker, broker_id=2, reports=(LONG[0], LONG[1][:3]))
        asked = [asyncio.create_task(broker.register()) for _ in range(MAX_LONG_CALLS + 3)]
        await until(lambda: sum(one.done() for one in asked) == 3)
        refused = [one.result() for one in asked if one.done()]
        assert {(answer.success, answer.err_code) for answer in refused} == {(False, Code.SERVICE_UNAVAILABLE)}
        reading.go_on.set()
        assert sum(answer.success for answer in await asyncio.gather(*asked)) == MAX_LONG_CALLS


class Turns:
    """Turns are given only once this allows it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked = 0
        self.go_on = asyncio.Event()
        before = LongWork._turn

        async def turn(work: LongWork, peer: Any) -> None:
            self.asked += 1
            await self.go_on.wait()
            await before(work, peer)

        monkeypatch.setattr(LongWork, "_turn", turn)


def long_heartbeat(broker: FakeBroker) -> asyncio.Task[Any]:
    asked = broker.heartbeat(take_conf_info=True, broker_default_conf_info=LONG[0], broker_topic_set_conf_info=LONG[1])
    return asyncio.create_task(asked)


async def test_long_heartbeats_are_taken_in_one_at_a_time_and_short_ones_of_others_do_not_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with town() as t:
        long = [await t.peer(FakeBroker, broker_id=2 + number) for number in range(3)]
        short = await t.peer(FakeBroker)
        for broker in (*long, short):
            assert (await broker.register()).success
            broker.report = False
        turns, server, runs = Turns(monkeypatch), t.master._server, t.master.broker_room.runs
        asked = [long_heartbeat(broker) for broker in long]
        await until(lambda: len(server._tasks) == len(long))
        assert (await short.heartbeat()).success
        behind = asyncio.create_task(long[0].heartbeat(broker_online=False))
        await until(lambda: len(server._tasks) == len(long) + 1)
        assert turns.asked == MAX_LONG_HEARTBEATS
        assert [runs[broker.broker_id].online for broker in long] == [False] * len(long)
        turns.go_on.set()
        assert all(answer.success for answer in await asyncio.gather(*asked, behind))
        assert [runs[broker.broker_id].online for broker in long] == [False, True, True]
        assert len(runs[long[0].broker_id].topics) == len(LONG[1])
        assert not t.master.broker_room.turns._not_taken


async def test_long_heartbeats_go_with_their_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async with town() as t:
        long = [await t.peer(FakeBroker, broker_id=2 + number) for number in range(3)]
        for broker in long:
            assert (await broker.register()).success
        turns, server = Turns(monkeypatch), t.master._server
        asked = [long_heartbeat(broker) for broker in long]
        await until(lambda: len(server._tasks) == len(long))
        for broker in long:
            await broker.close()
        await until(lambda: len(server._tasks) == MAX_LONG_HEARTBEATS)
        turns.go_on.set()
        await until(lambda: not server._tasks)
        await asyncio.gather(*asked, return_exceptions=True)
        assert turns.asked == MAX_LONG_HEARTBEATS
        assert not t.master.broker_room.turns._not_taken
