"""Held fetches: resumed once, dropped with their connection, bounded."""

from __future__ import annotations

import asyncio

import pytest

from pytubemq.broker.append.waiters import Waiters

pytestmark = pytest.mark.anyio
KEY, OTHER = ("demo", 0), ("demo", 1)


async def test_a_publish_wakes_only_its_partitions() -> None:
    waiters, woken = Waiters(), []
    waiters.hold(KEY, connection=1, wait_s=60, resume=lambda late: woken.append(("a", late)))
    waiters.hold(OTHER, connection=1, wait_s=60, resume=lambda late: woken.append(("b", late)))
    waiters.wake([KEY])
    waiters.wake([KEY])
    assert (woken, len(waiters)) == ([("a", False)], 1)
    waiters.release()
    assert (woken, len(waiters)) == ([("a", False), ("b", True)], 0)


async def test_a_waiter_held_again_by_its_own_resume_is_not_woken_twice() -> None:
    waiters, woken = Waiters(), []

    def again(late: bool) -> None:
        woken.append(late)
        waiters.hold(KEY, connection=1, wait_s=60, resume=again)

    waiters.hold(KEY, connection=1, wait_s=60, resume=again)
    waiters.wake([KEY])
    assert (woken, len(waiters)) == ([False], 1)
    waiters.drop(1)


async def test_time_ends_a_wait() -> None:
    waiters = Waiters()
    ended: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    waiters.hold(KEY, connection=1, wait_s=0.001, resume=ended.set_result)
    assert await ended is True
    assert len(waiters) == 0


async def test_a_lost_connection_takes_its_waiters_along() -> None:
    waiters = Waiters()
    woken: list[bool] = []
    waiters.hold(KEY, connection=1, wait_s=60, resume=woken.append)
    waiters.hold(KEY, connection=2, wait_s=60, resume=woken.append)
    waiters.drop(1)
    waiters.wake([KEY])
    assert woken == [False]


async def test_beyond_the_bound_and_without_time_nothing_is_held() -> None:
    waiters = Waiters(most=1)
    assert not waiters.hold(KEY, connection=1, wait_s=0, resume=print)
    assert waiters.hold(KEY, connection=1, wait_s=60, resume=print)
    assert not waiters.hold(KEY, connection=1, wait_s=60, resume=print)
    waiters.drop(1)
