"""Whatever happens in whatever order: never two owners, and in the end one each, evenly.

The consumers here are as bad as real ones: they come and go, lose answers, acknowledge late or not at all, report
now and then, and die with what they hold.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pytubemq.core.balance.facts import (
    Acked,
    Asked,
    ConnectionLost,
    Dropped,
    Event,
    Fact,
    Joined,
    Left,
    PartitionsChanged,
    Reported,
    Tell,
    Tick,
    Wake,
)
from pytubemq.core.balance.transition import apply
from pytubemq.core.balance.view import GroupView
from pytubemq.model.ids import Partition

NAMES = st.sampled_from("abcde")
PARTITIONS = [Partition(broker, "demo", n) for broker in (1, 2) for n in range(5)]


class Consumer:
    """What a real consumer has in its hands."""

    def __init__(self) -> None:
        self.held: set[Partition] = set()
        self.event: Event | None = None

    def do(self) -> int | None:
        """Carry out the event; its id is then to be acknowledged."""
        if self.event is None:
            return None
        if self.event.connects:
            self.held.update(self.event.partitions)
        else:
            self.held.difference_update(self.event.partitions)
        done, self.event = self.event.rebalance_id, None
        return done


class Group(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.view = GroupView()
        self.now_s = 0.0
        self.consumers: dict[str, Consumer] = {}
        self.woken: set[str] = set()

    def apply(self, fact: Fact, *, lose: bool = False) -> None:
        self.view, actions = apply(self.view, fact, now_s=self.now_s)
        for action in actions:
            if isinstance(action, Tell):
                self.told(action, lose=lose)
            elif isinstance(action, Dropped):
                self.consumers.pop(action.member, None)
            else:
                assert isinstance(action, Wake)
                self.woken.add(action.member)

    def told(self, action: Tell, *, lose: bool) -> None:
        if action.event.connects:
            for name, other in self.consumers.items():
                if name != action.member:
                    assert other.held.isdisjoint(action.event.partitions), "told while another has it"
        if not lose:
            self.consumers[action.member].event = action.event

    @rule(name=NAMES)
    def join(self, name: str) -> None:
        consumer = self.consumers.setdefault(name, Consumer())
        self.apply(Joined(name, frozenset(consumer.held)))

    @rule(name=NAMES, lose=st.booleans())
    def ask(self, name: str, lose: bool) -> None:
        if name in self.consumers:
            self.apply(Asked(name), lose=lose)

    @rule(name=NAMES, report=st.booleans())
    def acknowledge(self, name: str, report: bool) -> None:
        consumer = self.consumers.get(name)
        done = consumer.do() if consumer is not None else None
        if consumer is not None and done is not None:
            self.apply(Acked(name, done))
            if report:
                self.apply(Reported(name, frozenset(consumer.held)))

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
            assert max(sizes) - min(sizes) <= 1


TestGroup = Group.TestCase
TestGroup.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
