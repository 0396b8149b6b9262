"""Who is given up when a connection closes, and after how long."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import BadRequestError, Code
from tests.unit.master.groups.room import JAVA, OURS, Line, Room

if TYPE_CHECKING:
    from pytubemq.wire.protocol.extensions import Capability

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("capabilities", "period_s", "grace_s"),
    [(OURS, 13.0, 3.0), (JAVA, 2.0, 14.0), (JAVA, 13.0, 14.0), (JAVA, 20.0, 21.0), (JAVA, 29.5, 30.0)],
)
async def test_a_closed_connection_leaves_about_one_period_to_come_back(
    capabilities: Capability, period_s: float, grace_s: float
) -> None:
    room, line = Room(), Line(capabilities)
    room.join("a", line)
    for _ in range(3):
        room.beat("a", line, after_s=period_s)
    room.groups.connection_lost(line)
    room.wait(grace_s - 0.1)
    assert room.has("a")
    room.wait(0.2)
    assert not room.has("a")


async def test_of_a_closed_connection_what_is_left_of_the_period_is_waited_for() -> None:
    room, line = Room(), Line(JAVA)
    room.join("a", line)
    room.beat("a", line, after_s=13)
    room.wait(9)
    room.groups.connection_lost(line)
    room.wait(4.9)
    assert room.has("a"), "its next heartbeat is due after 4 s"
    room.wait(0.2)
    assert not room.has("a")


async def test_a_heartbeat_that_may_have_broken_with_the_connection_gets_another_period() -> None:
    room, line, again = Room(), Line(JAVA), Line(JAVA)
    room.join("a", line)
    room.beat("a", line, after_s=13)
    room.wait(12.9)
    room.groups.connection_lost(line)
    room.beat("a", again, after_s=13)
    room.wait(15)
    assert room.has("a")


async def test_who_comes_back_in_time_stays() -> None:
    room, line, again = Room(), Line(JAVA), Line(JAVA)
    room.join("a", line)
    room.groups.connection_lost(line)
    room.beat("a", again, after_s=13)
    room.wait(16)
    assert room.has("a")


async def test_without_a_closed_connection_the_time_out_counts() -> None:
    room = Room()
    room.join("a", Line(JAVA))
    room.wait(29.9)
    assert room.has("a")
    room.wait(0.2)
    assert not room.has("a")


async def test_a_node_makes_way_when_its_connection_has_been_closed_for_a_while() -> None:
    room, line = Room(), Line(JAVA)
    room.join("old", line, 0, 2)
    mismatch = room.join("new", Line(JAVA), 0, 2)
    assert mismatch is not None
    assert mismatch.code is Code.CLIENT_DUPLICATE_INDEXID
    room.groups.connection_lost(line)
    room.wait(2.9)
    assert room.join("new", Line(JAVA), 0, 2) is not None
    room.wait(0.2)
    assert room.join("new", Line(JAVA), 0, 2) is None
    assert not room.has("old")
    assert room.has("new")


async def test_a_node_that_came_back_makes_no_way() -> None:
    room, line = Room(), Line(JAVA)
    room.join("old", line, 0, 2)
    room.groups.connection_lost(line)
    room.beat("old", Line(JAVA), after_s=5)
    room.wait(5)
    assert room.join("new", Line(JAVA), 0, 2) is not None


async def test_a_group_that_shares_by_itself_is_not_rebalanced() -> None:
    room = Room()
    room.join("a", Line(JAVA), 0, 2)
    with pytest.raises(BadRequestError, match="balances its partitions itself"):
        room.groups.rebalance("g", ["a"], 0)
