"""What a member that gets nothing is told, and that nothing else comes of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from pytubemq.cli.commands.consume.why_nothing import Why, reason
from pytubemq.cli.options import GlobalOptions
from pytubemq.cli.target import same_cluster
from pytubemq.errors import ExitCode, NotAllowedError, UnavailableError
from tests.support.waiting import until

if TYPE_CHECKING:
    from tests.unit.cli.fake_api import FakeApi

pytestmark = pytest.mark.anyio

ASKED = "/api/v1/groups/readers?topic=flights"


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

    async with Why(options, "g", "flights", None, quiet_s=0).watching(lambda: False, one):
        await until(lambda: len(options.lines) == 2)
    assert options.lines[0] == "nothing yet: this member of g holds no partition; Broker 1 at a:1 does not respond"


async def test_a_member_without_a_partition_hears_what_the_master_says(api: FakeApi) -> None:
    api.answers[ASKED] = (200, {"why": "flights is closed for it: switched off", "members": 1, "lag": []})
    options = Said()
    async with Why(options, "readers", "flights", api.url, quiet_s=0).watching(lambda: False, nobody):
        await until(lambda: len(options.lines) == 2)
    assert options.lines == [
        "nothing yet: this member of readers holds no partition; flights is closed for it: switched off",
        "  check   pytubemq group show readers --topic flights",
    ]


@pytest.mark.parametrize("http", [None, "http://127.0.0.1:1"])
async def test_what_cannot_be_asked_is_left_out(http: str | None) -> None:
    options = Said()
    async with Why(options, "g", "flights", http, quiet_s=0).watching(lambda: False, nobody):
        await until(lambda: len(options.lines) == 2)
    assert options.lines[0] == "nothing yet: this member of g holds no partition"


async def test_who_holds_a_partition_hears_nothing_and_an_end_ends_it(api: FakeApi) -> None:
    options = Said()
    looked = asyncio.Event()

    def holds() -> bool:
        looked.set()
        return True

    async with Why(options, "readers", "flights", api.url, quiet_s=0).watching(holds, nobody):
        await looked.wait()
    async with Why(options, "readers", "flights", api.url, quiet_s=3600).watching(lambda: False, nobody):
        pass
    assert (options.lines, api.asked) == ([], [])


def test_the_masters_reason_ends_the_sentence() -> None:
    assert reason({"why": "it has 3 members and 2 partitions: 1 has none"}).startswith("; it has 3 members")
    assert reason({"why": ""}) == reason({}) == ""


CLOSED = {"closed": [{"topic": "flights", "why": "switched off"}], "why": "", "lag": []}
OTHERS = {"closed": [], "why": "", "lag": [{"partition": "1:flights:0", "holder": "readers_1"}]}
NOBODY = {"closed": [], "why": "partitions are being assigned", "lag": [{"partition": "1:flights:0", "holder": None}]}


@pytest.mark.parametrize(
    ("found", "nothing_came", "error"),
    [
        (CLOSED, True, "flights is closed for group readers: switched off"),
        (CLOSED, False, "flights is closed for group readers: switched off"),
        (OTHERS, True, None),
        (NOBODY, True, "this member of readers was given no partition of flights; partitions are being assigned"),
        (NOBODY, False, None),
        (None, True, "this member of readers was given no partition of flights"),
        (None, False, None),
    ],
)
async def test_a_member_that_ends_without_a_partition_says_why_unless_others_have_them(
    api: FakeApi, found: dict[str, object] | None, nothing_came: bool, error: str | None
) -> None:
    if found is not None:
        api.answers[ASKED] = (200, found)
    why = Why(Said(), "readers", "flights", api.url if found is not None else None)
    if error is None:
        await why.check(nothing_came=nothing_came)
        return
    with pytest.raises((NotAllowedError, UnavailableError)) as raised:
        await why.check(nothing_came=nothing_came)
    assert (raised.value.message, raised.value.hint) == (error, "pytubemq group show readers --topic flights")
    assert raised.value.exit_code == ExitCode.REFUSED


@pytest.mark.parametrize(
    ("profile", "master", "where"),
    [(None, None, ""), ("prod", None, " -P prod"), ("prod", "m:1", " --http URL"), (None, "m:1", " --http URL")],
)
async def test_the_recommended_command_asks_the_same_cluster(
    profile: str | None, master: str | None, where: str
) -> None:
    options = Said()
    options.profile = profile
    why = Why(options, "g", "flights", None, where=same_cluster(options, master), quiet_s=0)
    async with why.watching(lambda: False, nobody):
        await until(lambda: len(options.lines) == 2)
    assert options.lines[1] == f"  check   pytubemq group show g --topic flights{where}"
