"""What a consumer reads on standard error while the Master or a Broker is away."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytubemq.cli.commands.consume.outages import Outages
from pytubemq.cli.commands.consume.why_nothing import Why
from pytubemq.cli.options import GlobalOptions
from pytubemq.errors import NotFoundError, RequestTimeoutError, UnreachableError
from pytubemq.model.ids import Address, Partition
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.client.tube import Tube

pytestmark = pytest.mark.anyio
LOST = "Broker 2 at b:2 does not respond; its partitions wait"
NO_MASTER = "no Master responds at m:1; retrying"


class Said(GlobalOptions):
    """Keeps what it is to say."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


@dataclass(frozen=True)
class Known:
    """A Broker as the Master told of it."""

    broker_id: int
    address: Address


@dataclass
class FakeTube:
    """A topic on two Brokers; `away` and `master` are the errors of those that do not answer."""

    away: dict[int, Exception] = field(default_factory=dict)
    master: Exception | None = None
    rounds: int = 0
    brokers: tuple[Known, ...] = (Known(1, Address("a", 1)), Known(2, Address("b", 2)))

    async def partitions(self, topic: str) -> list[Partition]:
        self.rounds += 1
        if self.master is not None:
            raise self.master
        return [Partition(1, topic, 0), Partition(2, topic, 0), Partition(2, topic, 1)]

    async def offsets(self, of: Sequence[Partition]) -> dict[Partition, Any]:
        if of[0].broker_id in self.away:
            raise self.away[of[0].broker_id]
        return {}


def outages(options: Said, tube: FakeTube) -> Outages:
    return Outages(options, cast("Tube", tube), "m:1", "t", period_s=0.001)


@pytest.mark.parametrize("error", [UnreachableError("away"), RequestTimeoutError("stopped"), TimeoutError()])
async def test_a_broker_that_stops_answering_is_named_once_and_again_when_it_is_back(error: Exception) -> None:
    options, tube = Said(), FakeTube()
    async with outages(options, tube).watching():
        await until(lambda: tube.rounds > 2)
        assert options.lines == []
        tube.away[2] = error
        await until(lambda: bool(options.lines))
        rounds = tube.rounds
        await until(lambda: tube.rounds > rounds + 3)
        assert options.lines == [LOST]
        del tube.away[2]
        await until(lambda: len(options.lines) == 2)
    assert options.lines == [LOST, "Broker 2 at b:2 responds again"]


async def test_a_broker_that_nobody_waits_for_is_not_named() -> None:
    options, tube = Said(), FakeTube(away={1: UnreachableError("away"), 2: UnreachableError("away")})
    watched = Outages(
        options, cast("Tube", tube), "m:1", "t", period_s=0.001, is_watched=lambda broker_id: broker_id == 2
    )
    async with watched.watching():
        await until(lambda: tube.rounds > 4)
    assert options.lines == [LOST]


async def test_a_master_that_is_gone_is_named_and_no_broker_is_blamed_for_it() -> None:
    options, tube = Said(), FakeTube()
    async with outages(options, tube).watching():
        await until(lambda: tube.rounds > 1)
        tube.master = UnreachableError("gone")
        tube.away[1] = UnreachableError("no Master")
        await until(lambda: len(options.lines) == 1)
        rounds = tube.rounds
        await until(lambda: tube.rounds > rounds + 3)
        del tube.away[1]
        tube.master = NotFoundError("no such topic")
        await until(lambda: len(options.lines) == 2)
    assert options.lines == [NO_MASTER, "Master at m:1 responds again"]


async def test_a_member_that_gets_nothing_because_no_master_answers_reads_that_and_nothing_else() -> None:
    options, tube = Said(), FakeTube(master=UnreachableError("gone"))
    asked: list[str] = []

    async def silent() -> tuple[list[str], int]:
        asked.append("Brokers")
        return [], 0

    watch = outages(options, tube)
    async with Why(options, "g", "t", None, quiet_s=0).watching(lambda: False, silent, watch.master_answers):
        await until(lambda: bool(options.lines))
        assert not await watch.master_answers()
    assert (options.lines, asked) == ([NO_MASTER], [])
