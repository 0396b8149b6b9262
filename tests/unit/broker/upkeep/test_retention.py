"""When retention is let run, and when a clock that jumped puts it off."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pytubemq.broker.members.expired_messages import ExpiredMessages
from pytubemq.broker.upkeep.retention import RetentionPasses
from pytubemq.errors import DiskFailedError
from pytubemq.storage.log.retention import Retained

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

    def retain(self, now_ms: int, *, ahead_s: float | None = None) -> Retained:
        if self.errors:
            raise self.errors.pop()
        self.asked.append(now_ms)
        return Retained(2, 30, 400)


def retention() -> tuple[RetentionPasses, Clock, Store]:
    clock, store = Clock(), Store()
    state: Any = SimpleNamespace(clock=clock, store=store, expired=ExpiredMessages())
    return RetentionPasses(state, period_s=60.0), clock, store


async def test_a_pass_asks_with_the_time_of_day_and_counts_what_went() -> None:
    keeper, clock, store = retention()
    clock.go(60.0)
    await keeper.one_pass()
    assert store.asked == [clock.wall]
    assert (keeper.passes, keeper.dropped_segments, keeper.dropped_messages, keeper.dropped_bytes) == (1, 2, 30, 400)


@pytest.mark.parametrize("jump_s", [11.0, -11.0, 10 * 365 * 86_400.0])
async def test_after_a_jump_of_the_clock_nothing_goes_until_it_has_stood_by_it_for_an_hour(jump_s: float) -> None:
    keeper, clock, store = retention()
    clock.go(60.0, jump_s=jump_s)
    for minute in range(60):
        await keeper.one_pass()
        assert store.asked == []
        assert keeper.skipped == minute + 1
        assert f"jumped by {jump_s:+.0f} s" in (keeper.problem or "")
        clock.go(60.0)
    await keeper.one_pass()
    assert (store.asked, keeper.problem) == ([clock.wall], None)


async def test_a_clock_that_is_put_back_lets_retention_go_on_at_once() -> None:
    keeper, clock, store = retention()
    for jump_s, held in ((864_000.0, True), (0.0, True), (-863_995.0, False), (0.0, False)):
        clock.go(60.0, jump_s=jump_s)
        before = len(store.asked)
        await keeper.one_pass()
        assert (len(store.asked) == before) == held
        assert (keeper.problem is not None) == held


async def test_a_clock_that_jumps_again_is_held_off_anew() -> None:
    keeper, clock, store = retention()
    for _ in range(3):
        clock.go(3599.0, jump_s=20.0)
        await keeper.one_pass()
    assert "jumped by +60 s" in (keeper.problem or "")
    assert store.asked == []


async def test_a_clock_that_is_put_right_little_by_little_puts_nothing_off() -> None:
    keeper, clock, store = retention()
    for _ in range(5):
        clock.go(60.0, jump_s=9.0)
        await keeper.one_pass()
    assert (len(store.asked), keeper.skipped) == (5, 0)


async def test_a_pass_that_fails_is_shown_and_the_next_one_is_made() -> None:
    keeper, clock, store = retention()
    store.errors = [OSError(5, "Input/output error"), DiskFailedError("the disk failed")]
    for text in ("the disk failed", "Input/output error"):
        clock.go(60.0)
        await keeper.one_pass()
        assert text in (keeper.problem or "")
    clock.go(60.0)
    await keeper.one_pass()
    assert (keeper.problem, keeper.passes) == (None, 1)
