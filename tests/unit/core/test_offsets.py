"""How far a partition has been fetched, handed out and confirmed."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pytubemq.core.offsets import Hold, Watermarks
from pytubemq.model.offset import OFFSET_UNIT


def test_a_batch_from_fetch_to_confirm() -> None:
    marks = Watermarks()
    marks.registered(0, 280)
    assert marks.lag() == 10
    ticket = marks.took(0, 112, 280)
    assert not marks.holds(ticket)
    marks.handed_out()
    assert marks.holds(ticket)
    marks.settling()
    assert not marks.holds(ticket)
    marks.settled()
    assert (marks.hold, marks.confirmed, marks.start, marks.lag()) == (Hold.NOTHING, 112, 112, 6)


def test_what_a_filter_passes_over_is_not_behind() -> None:
    marks = Watermarks()
    marks.registered(0, 280)
    marks.skipped(112, 280)
    assert (marks.start, marks.confirmed, marks.lag()) == (112, 112, 6)
    marks.skipped(280, 280)
    assert marks.lag() == 0
    marks.skipped(None, 308)
    assert (marks.confirmed, marks.lag()) == (280, 1)


def test_what_is_given_back_begins_again_where_it_began() -> None:
    marks = Watermarks()
    marks.registered(28, 280)
    ticket = marks.took(28, 112, 280)
    marks.handed_out()
    marks.give_back()
    assert (marks.hold, marks.start, marks.confirmed) == (Hold.NOTHING, 28, 28)
    assert not marks.holds(ticket)


def test_a_new_registration_drops_a_batch_nobody_has_and_keeps_one_in_use() -> None:
    waiting = Watermarks()
    waiting.registered(0, 280)
    waiting.took(0, 112, 280)
    waiting.registered(0, 280)
    assert waiting.hold is Hold.NOTHING

    in_use = Watermarks()
    in_use.registered(0, 280)
    ticket = in_use.took(0, 112, 280)
    in_use.handed_out()
    in_use.registered(0, 308)
    assert in_use.holds(ticket)
    assert in_use.fetched == 112


def test_a_broker_that_tells_no_offsets_leaves_the_lag_open() -> None:
    marks = Watermarks()
    marks.registered(-1, -1)
    marks.took(None, None, None)
    marks.handed_out()
    marks.settling()
    marks.settled()
    assert marks.lag() is None


class Progress(RuleBasedStateMachine):
    """Any order of fetch, hand out, confirm, give back and registration keeps the order of the marks."""

    def __init__(self) -> None:
        super().__init__()
        self.marks = Watermarks()
        self.marks.registered(0, 1000 * OFFSET_UNIT)
        self.stored = 0
        """What the Broker has as confirmed."""
        self.ticket = 0

    @precondition(lambda self: self.marks.hold is Hold.NOTHING)
    @rule(count=st.integers(1, 50))
    def fetch(self, count: int) -> None:
        assert self.marks.start == self.stored
        self.ticket = self.marks.took(self.stored, self.stored + count * OFFSET_UNIT, None)

    @precondition(lambda self: self.marks.hold is Hold.FETCHED)
    @rule()
    def hand_out(self) -> None:
        self.marks.handed_out()

    @precondition(lambda self: self.marks.hold is Hold.HANDED_OUT)
    @rule()
    def confirm(self) -> None:
        self.marks.settling()
        self.marks.settled()
        assert self.marks.fetched is not None
        self.stored = self.marks.fetched

    @precondition(lambda self: self.marks.hold is not Hold.NOTHING)
    @rule()
    def give_back(self) -> None:
        self.marks.give_back()

    @rule()
    def register_again(self) -> None:
        self.marks.registered(self.stored, None)

    @invariant()
    def in_order(self) -> None:
        assert self.marks.confirmed == self.stored
        assert self.marks.start == self.stored
        assert self.marks.fetched is not None
        assert self.marks.fetched >= self.marks.start
        if self.marks.hold is Hold.NOTHING:
            assert not self.marks.holds(self.ticket)


TestProgress = Progress.TestCase
