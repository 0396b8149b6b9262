"""Who is given up when a connection closes, and after how long."""

from __future__ import annotations

import pytest

from pytubemq.core.balance.consistency import GroupKind, Mismatch, Terms
from pytubemq.errors import BadRequestError, Code
from pytubemq.master.brokers.brokers import Brokers
from pytubemq.master.catalogue.catalogue import Catalogue
from pytubemq.master.client_admission import ClientAdmission
from pytubemq.master.groups.group import MemberInfo
from pytubemq.master.groups.groups import Groups
from pytubemq.master.settings import MasterSettings
from pytubemq.wire.protocol.extensions import Capability
from pytubemq.wire.protocol.messages.master import MasterAuthorizedInfo

pytestmark = pytest.mark.anyio

JAVA = Capability(0)
OURS = Capability.HEARTBEAT_WAIT


class StandingClock:
    """Time passes when it is told to."""

    def __init__(self) -> None:
        self.time_s = 1000.0

    def now_s(self) -> float:
        return self.time_s

    def wall_ms(self) -> int:
        return int(self.time_s * 1000)


class Line:
    def __init__(self, capabilities: Capability) -> None:
        self.capabilities = capabilities


class Room:
    """Groups of a Master without Brokers."""

    def __init__(self) -> None:
        self.clock = StandingClock()
        settings = MasterSettings(client_timeout_s=30, lost_connection_grace_s=3)
        catalogue = Catalogue(self.clock)
        brokers = Brokers(catalogue, settings, self.clock, MasterAuthorizedInfo(visit_authorized_token=1), lambda: None)
        admission = ClientAdmission(max_clients=10, max_bytes=10_000)
        self.groups = Groups(catalogue, brokers, settings, self.clock, lambda: None, admission)

    def join(self, name: str, line: Line, node_id: int = -2, source_count: int = 0) -> Mismatch | None:
        kind = GroupKind.CLIENT_BALANCE if source_count else GroupKind.SERVER_BALANCE
        terms = Terms(frozenset({"demo"}), kind=kind, total_count=source_count)
        info = MemberInfo("h", "p", 1, node_id)
        mismatch = self.groups.join("g", name, terms, info, holds=frozenset(), allocated=False)
        if mismatch is None:
            self.groups.record_use(self.groups.groups["g"], name, line)
        return mismatch

    def beat(self, name: str, line: Line, *, after_s: float) -> None:
        self.wait(after_s)
        group = self.groups.find("g", name)
        assert group is not None
        self.groups.record_use(group, name, line)

    def wait(self, wait_s: float) -> None:
        self.clock.time_s += wait_s
        self.groups.tick(self.clock.time_s)

    def has(self, name: str) -> bool:
        return self.groups.find("g", name) is not None


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
