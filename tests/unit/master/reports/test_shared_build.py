"""A view that several callers want at once: built once for them, and never from before they asked."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from pytubemq.master.reports.shared_build import SharedBuild

pytestmark = pytest.mark.anyio


class Builds:
    """Builds that end when they are let."""

    def __init__(self) -> None:
        self.begun = 0
        self.gate = asyncio.Semaphore(0)

    async def build(self) -> int:
        self.begun += 1
        number = self.begun
        await self.gate.acquire()
        if number == 3:
            raise LookupError("the third")
        return number


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_who_asks_during_a_build_gets_the_next_one_with_all_who_asked_meanwhile() -> None:
    builds = Builds()
    shared = SharedBuild(builds.build)
    first = asyncio.ensure_future(shared.get())
    await turns()
    others = [asyncio.ensure_future(shared.get()) for _ in range(100)]
    await turns()
    assert builds.begun == 1, "one at a time"
    builds.gate.release()
    builds.gate.release()
    assert (await first, await asyncio.gather(*others)) == (1, [2] * 100)
    assert builds.begun == 2


async def test_a_caller_that_leaves_takes_the_build_from_nobody_and_a_failure_is_everybodys() -> None:
    builds = Builds()
    shared = SharedBuild(builds.build)
    leaving, staying = asyncio.ensure_future(shared.get()), asyncio.ensure_future(shared.get())
    await turns()
    leaving.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await leaving
    builds.gate.release()
    assert await staying == 1
    builds.gate.release()
    assert await shared.get() == 2
    failing = [asyncio.ensure_future(shared.get()) for _ in range(2)]
    builds.gate.release()
    for one in failing:
        with pytest.raises(LookupError, match="the third"):
            await one
    builds.gate.release()
    assert await shared.get() == 4, "the next one begins anew"
