"""Whatever members do: the room's books agree, and no two of a client-balance group are the same node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pytubemq.core.balance.consistency import GroupKind, Terms
from pytubemq.core.balance.facts import Reported
from pytubemq.master.groups.group import MemberInfo
from pytubemq.model.ids import Partition
from tests.support.properties import examples, run_machine

if TYPE_CHECKING:
    from tests.support.soaking import Part
from tests.unit.master.groups.room import JAVA, OURS, Line, Room

NAMES = st.sampled_from("abcd")
GROUPS = st.sampled_from(["g", "h"])
KINDS = st.sampled_from(list(GroupKind))
HELD = st.frozensets(st.sampled_from([Partition(1, "demo", number) for number in range(3)]))


class Books(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.room = Room()
        self.groups = self.room.groups
        self.lines: dict[tuple[str, str], Line] = {}

    @rule(group=GROUPS, name=NAMES, kind=KINDS, node_id=st.integers(0, 2), count=st.sampled_from([-2, 3]), held=HELD)
    def join(
        self, group: str, name: str, kind: GroupKind, node_id: int, count: int, held: frozenset[Partition]
    ) -> None:
        terms = Terms(frozenset({"demo"}), kind=kind, session_key="k", total_count=count)
        info = MemberInfo("h", "p", 1, node_id)
        line = Line(JAVA if name in "ab" else OURS)
        if self.groups.join(group, name, terms, info, holds=held, allocated=False) is None:
            self.lines[group, name] = line
            self.groups.record_use(self.groups.groups[group], name, line)

    @rule(group=GROUPS, name=NAMES, held=HELD)
    def report(self, group: str, name: str, held: frozenset[Partition]) -> None:
        found = self.groups.find(group, name)
        if found is not None:
            self.groups.record_use(found, name, self.lines[group, name])
            self.groups.apply(found, Reported(name, held))

    @rule(group=GROUPS, name=NAMES)
    def leave(self, group: str, name: str) -> None:
        self.groups.leave(group, name)

    @rule(group=GROUPS, name=NAMES)
    def lose(self, group: str, name: str) -> None:
        line = self.lines.get((group, name))
        if line is not None:
            self.groups.connection_lost(line)

    @rule(group=GROUPS, names=st.lists(NAMES), wait=st.integers(0, 2))
    def take_out(self, group: str, names: list[str], wait: int) -> None:
        found = self.groups.groups.get(group)
        if found is not None and found.kind is not GroupKind.CLIENT_BALANCE:
            assert set(self.groups.rebalance(group, names, wait)) <= set(names)

    @rule(wait_s=st.sampled_from([0.5, 2.9, 3.1, 14.5, 31.0]))
    def wait(self, wait_s: float) -> None:
        self.room.wait(wait_s)

    @invariant()
    def the_books_agree(self) -> None:
        entered = 0
        for name, group in self.groups.groups.items():
            assert group.name == name
            assert group.members, "a group without members has ended"
            assert set(group.members) == set(group.view.members) == set(group.pulses)
            entered += len(group.members)
        assert len(self.groups._admission) == entered

    @invariant()
    def a_node_is_one_consumer(self) -> None:
        for group in self.groups.groups.values():
            if group.terms.counts_nodes:
                assert len(group.nodes) == len(group.members)

    @invariant()
    def who_shares_by_itself_can_be_told_of_the_partitions(self) -> None:
        for group in self.groups.groups.values():
            assert (group.meta is not None) is (group.kind is GroupKind.CLIENT_BALANCE)


def test_the_books_hold_together(part: Part) -> None:
    run_machine(Books, part, max_examples=examples(80))
