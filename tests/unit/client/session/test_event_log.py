"""The events of a connection, and their listeners."""

from __future__ import annotations

import asyncio

import pytest

from pytubemq.client.session.event_log import EventLog
from pytubemq.client.session.events import Connected, Event
from pytubemq.errors import ClosedError

pytestmark = pytest.mark.anyio

EVENTS: list[Event] = [Connected(str(number)) for number in range(6)]


async def test_each_listener_gets_all_events_whenever_it_begins() -> None:
    log = EventLog()
    log.put(EVENTS[0])
    first = log.listen()
    assert await first.get() is EVENTS[0]
    second = log.listen()
    waiting = asyncio.gather(first.get(), first.get(), second.get(), second.get())
    await asyncio.sleep(0)
    log.put(EVENTS[1])
    log.put(EVENTS[2])
    assert list(await waiting) == [EVENTS[1], EVENTS[2], EVENTS[0], EVENTS[1]]
    log.close()
    assert [event async for event in second] == [EVENTS[2]]
    assert [event async for event in first] == []
    with pytest.raises(ClosedError):
        await first.get()


async def test_one_that_is_behind_counts_what_it_missed_and_others_miss_nothing() -> None:
    log = EventLog(length=2)
    slow, quick = log.listen(), log.listen()
    for event in EVENTS:
        log.put(event)
        assert await quick.get() is event
    assert await slow.get() is EVENTS[4]
    assert (slow.dropped, quick.dropped, len(log.kept)) == (4, 0, 2)


async def test_a_listener_that_gave_up_leaves_nothing_behind() -> None:
    log = EventLog()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(log.listen().get(), 0.01)
    assert not log._waiting
