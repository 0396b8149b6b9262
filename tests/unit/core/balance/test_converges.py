"""Whatever happens in whatever order: never two owners, and in the end one each, evenly.

The consumers here are as bad as real ones: they come and go, lose answers, acknowledge late or not at all, fail, report
now and then, and die with what they hold. Operators take them out, and Brokers tell of readers that nobody knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pytubemq.core.balance.facts import (
    Acked,
    ConnectionLost,
    Drained,
    Dropped,
    Event,
    Fact,
    Failed,
    HeartbeatReceived,
    Joined,
    Leased,
    Left,
    PartitionsChanged,
    Reported,
    SendEvent,
    Tick,
    Unread,
    Wake,
)
from pytubemq.core.balance.transition import apply
from pytubemq.core.balance.view import GroupView
from pytubemq.model.ids import Partition
from tests.support.properties import examples, run_machine

if TYPE_CHECKING:
    from tests.support.soaking import Part

NAMES = st.sampled_from("abcde")
PARTITIONS = [Partition(broker, "demo", n) for broker in (1, 2) for n in range(5)]


class Consumer:
    """What a real consumer has in its hands."""

    def __init__(self) -> None:
        self.held: set[Partition] = set()
        self.events: list[Event] = []
        """Received and not carried out, in order."""

    def receive(self, event: Event) -> None:
        """Queue an event, once."""
        if all(known.rebalance_id != event.rebalance_id for known in self.events):
            self.events.append(event)

    def do(self) -> int | None:
        """Carry out the next event; its id is then to be acknowledged."""
        if not self.events:
            return None
        event = self.events.pop(0)
        if event.connects:
            self.held.update(event.partitions)
        else:
            self.held.difference_update(event.partitions)
        return event.rebalance_id


class Group(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.view = GroupView()
        self.now_s = 0.0
        self.consumers: dict[str, Consumer] = {}
        self.woken: set[str] = set()
        self.out_until_s: dict[str, float] = {}
        self.claiming = False
        """Whether claims are still to be carried out, as the consumers see it."""

    @initialize(bound=st.booleans(), select_big=st.booleans())
    def begin(self, bound: bool, select_big: bool) -> None:
        self.view = GroupView(reserving=bound, select_big=select_big)
        self.claiming = bound

    def apply(self, fact: Fact, *, lose: bool = False) -> None:
        self.view, actions = apply(self.view, fact, now_s=self.now_s)
        self.claiming = self.claiming and not self.claims_are_done(fact)
        for action in actions:
            if isinstance(action, SendEvent):
                self.told(action, lose=lose)
            elif isinstance(action, Dropped):
                self.consumers.pop(action.member, None)
            else:
                assert isinstance(action, Wake)
                self.woken.add(action.member)

    def told(self, action: SendEvent, *, lose: bool) -> None:
        if action.event.connects:
            for name, other in self.consumers.items():
                if name != action.member:
                    assert other.held.isdisjoint(action.event.partitions), "told while another has it"
            member = self.view.members[action.member]
            assert not self.claiming or set(action.event.partitions) <= set(member.claims), "claims come first"
            self.holds_now(action)
        if not lose:
            self.consumers[action.member].receive(action.event)

    def claims_are_done(self, fact: Fact) -> bool:
        """Whether there was something to be had and every claim on it has gone to one that claims it."""
        if isinstance(fact, Joined) and fact.holds:
            return True
        members = {name: m for name, m in self.view.members.items() if m.out_until_s is None}
        claimed = {p for m in members.values() for p in m.claims} & self.view.available
        return (
            bool(self.view.available and self.view.members)
            and all(member.event is None for member in self.view.members.values())
            and all(p in self.view.owners for p in claimed)
        )

    def holds_now(self, action: SendEvent) -> None:
        """An event that is repeated must hold as one that is new."""
        assert set(action.event.partitions) <= self.view.available, "told what nobody can have"
        assert self.out_until_s.get(action.member, 0) <= self.now_s, "told while an operator keeps it out"
        if self.now_s < self.view.leases_until_s:
            readers = {self.view.leases.get(partition, action.member) for partition in action.event.partitions}
            assert readers <= set(self.consumers), "told while its reader is on its way"

    @rule(name=NAMES, claims=st.dictionaries(st.sampled_from(PARTITIONS), st.integers(0, 2)))
    def join(self, name: str, claims: dict[Partition, int]) -> None:
        if name not in self.consumers:
            self.out_until_s.pop(name, None)
        consumer = self.consumers.setdefault(name, Consumer())
        self.apply(Joined(name, frozenset(consumer.held), claims))

    @rule(name=NAMES, lose=st.booleans())
    def ask(self, name: str, lose: bool) -> None:
        if name in self.consumers:
            self.apply(HeartbeatReceived(name), lose=lose)

    @rule(name=NAMES, report=st.booleans(), lose=st.booleans())
    def acknowledge(self, name: str, report: bool, lose: bool = False) -> None:
        consumer = self.consumers.get(name)
        done = consumer.do() if consumer is not None else None
        if consumer is not None and done is not None:
            if not lose:
                self.apply(Acked(name, done))
            if report:
                self.apply(Reported(name, frozenset(consumer.held)))

    @rule(name=NAMES, taken=st.integers(0, 3), tells=st.booleans())
    def fail(self, name: str, taken: int, tells: bool) -> None:
        """An event is carried out in part; one that does not say which part has done nothing of it."""
        consumer = self.consumers.get(name)
        if consumer is None or not consumer.events:
            return
        event = consumer.events.pop(0)
        some = event.partitions[:taken] if tells else ()
        if event.connects:
            consumer.held.update(some)
        else:
            consumer.held.difference_update(some)
        self.apply(Failed(name, event.rebalance_id, frozenset(consumer.held) if tells else None))

    @rule(names=st.frozensets(NAMES, min_size=1), wait_s=st.sampled_from([0.0, 30.0, 60.0]))
    def drain(self, names: frozenset[str], wait_s: float) -> None:
        for name in names & set(self.consumers):
            if self.view.members[name].out_until_s is None:
                self.out_until_s[name] = self.now_s + wait_s
        self.apply(Drained(names, self.now_s + wait_s))

    @rule(leases=st.dictionaries(st.sampled_from(PARTITIONS), st.sampled_from("abcdez")))
    def lease(self, leases: dict[Partition, str]) -> None:
        self.apply(Leased(leases, self.now_s + 15))

    @rule(name=NAMES, partitions=st.frozensets(st.sampled_from(PARTITIONS)), lost=st.booleans())
    def come_back(self, name: str, partitions: frozenset[Partition], lost: bool) -> None:
        """A Broker that does not know who reads these: a consumer has lost them by that, or not."""
        if name in self.consumers:
            if lost:
                self.consumers[name].held -= partitions
            self.apply(Unread({name: partitions}))

    @rule(name=NAMES)
    def report(self, name: str) -> None:
        if name in self.consumers:
            self.apply(Reported(name, frozenset(self.consumers[name].held)))

    @rule(name=NAMES)
    def leave(self, name: str) -> None:
        if self.consumers.pop(name, None) is not None:
            self.apply(Left(name))

    @rule(name=NAMES)
    def lose_connection(self, name: str) -> None:
        if name in self.consumers:
            self.apply(ConnectionLost(name))

    @rule(wait_s=st.sampled_from([0.5, 1.0, 3.0, 5.0, 15.0, 30.0]))
    def wait(self, wait_s: float) -> None:
        self.now_s += wait_s
        self.apply(Tick())

    @rule(available=st.frozensets(st.sampled_from(PARTITIONS)), absent=st.frozensets(st.sampled_from(PARTITIONS)))
    def change(self, available: frozenset[Partition], absent: frozenset[Partition]) -> None:
        self.apply(PartitionsChanged(available, absent))

    @invariant()
    def owners_are_what_members_hold(self) -> None:
        held = [p for member in self.view.members.values() for p in member.holds]
        assert len(held) == len(set(held))
        assert set(held) == set(self.view.owners)
        assert all(p in self.view.members[name].holds for p, name in self.view.owners.items())
        assert all(member.again <= member.holds for member in self.view.members.values())

    @invariant()
    def the_view_knows_the_members(self) -> None:
        assert set(self.view.members) == set(self.consumers)

    def teardown(self) -> None:
        """From here on everybody behaves: the group must come to rest, evenly."""
        self.apply(PartitionsChanged(frozenset(PARTITIONS)))
        for _ in range(60):
            self.now_s += 2.0
            for name in list(self.consumers):
                self.acknowledge(name, report=True)
                self.report(name)
                self.ask(name, lose=False)
            self.apply(Tick())
        assert self.view.balanced
        if self.consumers:
            assert set(self.view.owners) == set(PARTITIONS)
            sizes = [len(consumer.held) for consumer in self.consumers.values()]
            assert sum(sizes) == len(PARTITIONS)
            assert not self.view.reserving
            assert max(sizes) - min(sizes) <= 1


def test_a_group_holds_together_and_comes_to_rest(part: Part) -> None:
    run_machine(Group, part, max_examples=examples(150, soak_factor=100))
