"""What a member that gets nothing is told, and that nothing else comes of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from pytubemq.cli.options import GlobalOptions
from pytubemq.cli.why_nothing import Why, reason
from tests.waiting import until

if TYPE_CHECKING:
    from .fake_api import FakeApi

pytestmark = pytest.mark.anyio


class Said(GlobalOptions):
    """Keeps what it is to say."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)

    def next(self, command: str) -> str:
        return command


async def nobody() -> tuple[list[str], int]:
    """No Broker is away."""
    return [], 2


async def test_a_broker_that_is_away_is_named() -> None:
    options = Said()

    async def one() -> tuple[list[str], int]:
        return ["Broker 1 at a:1"], 2

    async with Why(options, "g", None, quiet_s=0).watching(lambda: False, one):
        await until(lambda: len(options.lines) == 2)
    assert options.lines[0] == "nothing yet: this member of g holds no partition; Broker 1 at a:1 does not answer"


async def test_a_member_without_a_partition_hears_what_the_master_says(api: FakeApi) -> None:
    closed = [{"topic": "flights", "why": "switched off"}]
    api.answers["/api/v1/groups/readers"] = (200, {"closed": closed, "members": 1, "lag": []})
    options = Said()
    async with Why(options, "readers", api.url, quiet_s=0).watching(lambda: False, nobody):
        await until(lambda: len(options.lines) == 2)
    assert options.lines == [
        "nothing yet: this member of readers holds no partition; flights is closed for it: switched off",
        "  see   pytubemq group show readers",
    ]


@pytest.mark.parametrize("http", [None, "http://127.0.0.1:1"])
async def test_what_cannot_be_asked_is_left_out(http: str | None) -> None:
    options = Said()
    async with Why(options, "g", http, quiet_s=0).watching(lambda: False, nobody):
        await until(lambda: len(options.lines) == 2)
    assert options.lines[0] == "nothing yet: this member of g holds no partition"


async def test_who_holds_a_partition_hears_nothing_and_an_end_ends_it(api: FakeApi) -> None:
    options = Said()
    looked = asyncio.Event()

    def holds() -> bool:
        looked.set()
        return True

    async with Why(options, "readers", api.url, quiet_s=0).watching(holds, nobody):
        await looked.wait()
    async with Why(options, "readers", api.url, quiet_s=3600).watching(lambda: False, nobody):
        pass
    assert (options.lines, api.asked) == ([], [])


def test_more_members_than_partitions() -> None:
    assert reason({"members": 3, "lag": [{}, {}]}) == "; the group has 3 members and its topics 2 partitions"
    assert reason({"members": 2, "lag": [{}, {}]}) == ""
