"""What is said of a producer that makes no headway, and that a busy one hears nothing."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from pytubemq.cli.commands.produce.stall import LOOKS, Stall
from pytubemq.cli.options import GlobalOptions
from pytubemq.client.session.event_log import EventLog
from pytubemq.client.session.events import Connected, Lost
from pytubemq.errors import refused
from pytubemq.model.ids import Address
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

ONE, TWO = Address("a", 1), Address("b", 2)
QUIET_S = 0.06


class Said(GlobalOptions):
    """Keeps what it is to say."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


class Looked:
    """A producer's figures, and how often they were looked at; `moves` delivers one message at each look."""

    def __init__(self, *, buffered: int, moves: bool = False) -> None:
        self.buffered, self.moves, self.looks = buffered, moves, 0

    @property
    def stats(self) -> Any:
        self.looks += 1
        return SimpleNamespace(delivered=self.looks * self.moves, failed=0, buffered_messages=self.buffered)


async def test_a_producer_that_stands_still_is_told_once_with_the_last_reasons() -> None:
    options, events, producer = Said(), EventLog(), Looked(buffered=1405)
    for event in (
        Lost("c", refused(500, "an older reason"), ONE),
        Lost("c", refused(419, "the disk is full"), ONE),
        Lost("c", refused(503, "it stops"), TWO),
        Connected("c", TWO),
    ):
        events.put(event)
    async with Stall(options, producer, events.listen(), quiet_s=QUIET_S).watching():  # type: ignore[arg-type]
        await until(lambda: producer.looks > 3 * LOOKS)
    assert options.lines == ["waiting: 1,405 messages under way, none accepted for 0.06 s: the disk is full"]


async def test_where_nobody_says_why_that_is_said() -> None:
    options, producer = Said(), Looked(buffered=1)
    async with Stall(options, producer, EventLog().listen(), quiet_s=QUIET_S).watching():  # type: ignore[arg-type]
        await until(lambda: bool(options.lines))
    assert options.lines == ["waiting: 1 message under way, none accepted for 0.06 s: no response yet"]


@pytest.mark.parametrize("producer", [Looked(buffered=0), Looked(buffered=9, moves=True)])
async def test_one_that_waits_for_nothing_or_goes_on_hears_nothing(producer: Looked) -> None:
    options, before = Said(), len(asyncio.all_tasks())
    async with Stall(options, producer, EventLog().listen(), quiet_s=QUIET_S).watching():  # type: ignore[arg-type]
        await until(lambda: producer.looks > 2 * LOOKS)
    assert (options.lines, len(asyncio.all_tasks())) == ([], before)
