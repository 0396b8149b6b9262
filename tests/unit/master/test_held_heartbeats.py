"""Held heartbeats: answered once, woken at once, bounded."""

from __future__ import annotations

import asyncio

import pytest

from pytubemq.master.held_heartbeats import MARGIN_S, HeldHeartbeats, allowed_wait_s

pytestmark = pytest.mark.anyio


class Heartbeat:
    """Something that can be answered."""

    def __init__(self, *, news: bool = False) -> None:
        self.news = news
        self.answers: list[bool] = []
        self.answered = asyncio.Event()

    def __call__(self, must: bool) -> bool:
        assert not self.answers, "answered twice"
        if not (must or self.news):
            return False
        self.answers.append(self.news)
        self.answered.set()
        return True


async def test_news_is_not_held() -> None:
    waiting, heartbeat = HeldHeartbeats(), Heartbeat(news=True)
    waiting.hold("a", 60, heartbeat)
    assert heartbeat.answers == [True]
    assert len(waiting) == 0


async def test_without_a_wait_it_is_answered_at_once() -> None:
    waiting, heartbeat = HeldHeartbeats(), Heartbeat()
    waiting.hold("a", 0, heartbeat)
    assert heartbeat.answers == [False]


async def test_waking_answers_when_there_is_something_to_say() -> None:
    waiting, heartbeat = HeldHeartbeats(), Heartbeat()
    waiting.hold("a", 60, heartbeat)
    waiting.wake("a")
    waiting.wake("nobody")
    assert heartbeat.answers == []
    heartbeat.news = True
    waiting.wake_all()
    waiting.wake_all()
    assert heartbeat.answers == [True]
    assert len(waiting) == 0


async def test_the_wait_ends() -> None:
    waiting, heartbeat = HeldHeartbeats(), Heartbeat()
    waiting.hold("a", 0.001, heartbeat)
    await heartbeat.answered.wait()
    assert heartbeat.answers == [False]


async def test_a_new_heartbeat_releases_the_old() -> None:
    waiting, old, new = HeldHeartbeats(), Heartbeat(), Heartbeat()
    waiting.hold("a", 60, old)
    waiting.hold("a", 60, new)
    assert (old.answers, new.answers, len(waiting)) == ([False], [], 1)
    waiting.release_all()
    assert new.answers == [False]


async def test_the_number_is_bounded() -> None:
    waiting, first, second = HeldHeartbeats(limit=1), Heartbeat(), Heartbeat()
    waiting.hold("a", 60, first)
    waiting.hold("b", 60, second)
    assert (first.answers, second.answers) == ([], [False])
    waiting.drop("a")
    assert (first.answers, len(waiting)) == ([], 0)


@pytest.mark.parametrize(
    ("asked_ms", "left_s", "expected_s"),
    [
        (None, 30, 0),
        (0, 30, 0),
        (-5, 30, 0),
        (500, 30, 0.5),
        (60_000, 30, 10),
        (60_000, 3, 3 - MARGIN_S),
        (900, 0.1, 0),
    ],
)
def test_how_long_may_be_held(asked_ms: int | None, left_s: float, expected_s: float) -> None:
    assert allowed_wait_s(asked_ms, left_s=left_s, longest_s=10) == expected_s
