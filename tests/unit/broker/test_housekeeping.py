"""When retention is let run, and when a clock that jumped puts it off."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pytubemq.broker.housekeeping import Housekeeping
from pytubemq.errors import DiskFailedError
from pytubemq.storage.retention import Retained

pytestmark = pytest.mark.anyio


class Clock:
    def __init__(self) -> None:
        self.monotonic_s, self.wall = 100.0, 1_000_000_000

    def now_s(self) -> float:
        return self.monotonic_s

    def wall_ms(self) -> int:
        return self.wall

    def go(self, seconds: float, *, jump_s: float = 0.0) -> None:
        self.monotonic_s += seconds
        self.wall += int((seconds + jump_s) * 1000)


class Store:
    def __init__(self) -> None:
        self.asked: list[int] = []
        self.errors: list[Exception] = []

    def retain(self, now_ms: int) -> Retained:
        if self.errors:
            raise self.errors.pop()
        self.asked.append(now_ms)
        return Retained(2, 30, 400)


def housekeeping() -> tuple[Housekeeping, Clock, Store]:
    clock, store = Clock(), Store()
    state: Any = SimpleNamespace(clock=clock, store=store)
    return Housekeeping(state, period_s=60.0), clock, store


async def test_a_pass_asks_with_the_time_of_day_and_counts_what_went() -> None:
    keeper, clock, store = housekeeping()
    clock.go(60.0)
    await keeper.one_pass()
    assert store.asked == [clock.wall]
    assert (keeper.passes, keeper.dropped_segments, keeper.dropped_messages, keeper.dropped_bytes) == (1, 2, 30, 400)


@pytest.mark.parametrize("jump_s", [11.0, -11.0, 10 * 365 * 86_400.0])
async def test_a_clock_that_jumped_puts_a_pass_off_once(jump_s: float) -> None:
    keeper, clock, store = housekeeping()
    clock.go(60.0, jump_s=jump_s)
    await keeper.one_pass()
    assert store.asked == []
    assert (keeper.skipped, "jumped" in (keeper.problem or "")) == (1, True)
    clock.go(60.0)
    await keeper.one_pass()
    assert (len(store.asked), keeper.problem) == (1, None)


async def test_a_clock_that_is_put_right_little_by_little_puts_nothing_off() -> None:
    keeper, clock, store = housekeeping()
    for _ in range(5):
        clock.go(60.0, jump_s=9.0)
        await keeper.one_pass()
    assert (len(store.asked), keeper.skipped) == (5, 0)


async def test_a_pass_that_fails_is_shown_and_the_next_one_is_made() -> None:
    keeper, clock, store = housekeeping()
    store.errors = [OSError(5, "Input/output error"), DiskFailedError("the disk failed")]
    for text in ("the disk failed", "Input/output error"):
        clock.go(60.0)
        await keeper.one_pass()
        assert text in (keeper.problem or "")
    clock.go(60.0)
    await keeper.one_pass()
    assert (keeper.problem, keeper.passes) == (None, 1)
