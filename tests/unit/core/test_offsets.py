"""How far a partition has been fetched, handed out and confirmed."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pytubemq.core.offsets import BatchState, Watermarks
from pytubemq.model.offset import OFFSET_UNIT


def test_a_batch_from_fetch_to_confirm() -> None:
    marks = Watermarks()
    marks.record_registration(0, 280)
    assert marks.lag() == 10
    ticket = marks.record_fetch(0, 112, 280)
    assert not marks.holds(ticket)
    marks.record_delivery()
    assert marks.holds(ticket)
    marks.begin_confirm()
    assert not marks.holds(ticket)
    marks.record_confirm(ticket)
    assert (marks.hold, marks.confirmed, marks.start, marks.lag()) == (BatchState.NOTHING, 112, 112, 6)


def test_what_a_filter_passes_over_is_not_behind() -> None:
    marks = Watermarks()
    marks.record_registration(0, 280)
    marks.record_skip(112, 280)
    assert (marks.start, marks.confirmed, marks.lag()) == (112, 112, 6)
    marks.record_skip(280, 280)
    assert marks.lag() == 0
    marks.record_skip(None, 308)
    assert (marks.confirmed, marks.lag()) == (280, 1)


def test_what_is_given_back_begins_again_where_it_began() -> None:
    marks = Watermarks()
    marks.record_registration(28, 280)
    ticket = marks.record_fetch(28, 112, 280)
    marks.record_delivery()
    marks.give_back()
    assert (marks.hold, marks.start, marks.confirmed) == (BatchState.NOTHING, 28, 28)
    assert not marks.holds(ticket)


def test_a_new_registration_drops_a_batch_nobody_has_and_keeps_one_in_use() -> None:
    waiting = Watermarks()
    waiting.record_registration(0, 280)
    waiting.record_fetch(0, 112, 280)
    waiting.record_registration(0, 280)
    assert waiting.hold is BatchState.NOTHING

    in_use = Watermarks()
    in_use.record_registration(0, 280)
    ticket = in_use.record_fetch(0, 112, 280)
    in_use.record_delivery()
    in_use.record_registration(0, 308)
    assert in_use.holds(ticket)
    assert in_use.fetched == 112


def test_a_broker_that_tells_no_offsets_leaves_the_lag_open() -> None:
    marks = Watermarks()
    marks.record_registration(-1, -1)
    ticket = marks.record_fetch(None, None, None)
    marks.record_delivery()
    marks.begin_confirm()
    marks.record_confirm(ticket)
    assert marks.lag() is None


def test_the_next_batch_is_fetched_behind_a_confirm_that_is_under_way() -> None:
    marks = Watermarks()
    marks.record_registration(0, 280)
    first = marks.record_fetch(0, 112, 280)
    marks.record_delivery()
    marks.begin_confirm()
    marks.move_ahead(first)
    assert (marks.hold, marks.start, marks.confirmed) == (BatchState.NOTHING, 112, 0)
    second = marks.record_fetch(112, 140, 280)
    marks.record_delivery()
    marks.record_confirm(first)
    assert (marks.confirmed, marks.lag()) == (112, 6)
    assert marks.holds(second)


def test_a_confirm_that_fails_takes_along_what_was_fetched_behind_it() -> None:
    marks = Watermarks()
    marks.record_registration(0, 280)
    first = marks.record_fetch(0, 112, 280)
    marks.record_delivery()
    marks.begin_confirm()
    marks.move_ahead(first)
    second = marks.record_fetch(112, 140, 280)
    marks.record_delivery()
    assert marks.undo_confirm(first)
    assert not marks.holds(second)
    assert (marks.hold, marks.start, marks.fetched, marks.confirmed) == (BatchState.NOTHING, 0, 0, 0)
    assert not marks.undo_confirm(first), "once"


def test_what_a_filter_passes_over_behind_a_confirm_counts_with_it() -> None:
    marks = Watermarks()
    marks.record_registration(0, 280)
    first = marks.record_fetch(0, 112, 280)
    marks.record_delivery()
    marks.begin_confirm()
    marks.move_ahead(first)
    marks.record_skip(196, 280)
    assert (marks.start, marks.confirmed) == (196, 0)
    marks.record_confirm(first)
    assert (marks.confirmed, marks.lag()) == (196, 3)


def test_the_outcome_of_a_confirm_changes_nothing_once_the_place_was_left() -> None:
    marks = Watermarks()
    marks.record_registration(0, 280)
    first = marks.record_fetch(0, 112, 280)
    marks.record_delivery()
    marks.begin_confirm()
    marks.move_ahead(first)
    marks.leave()
    marks.record_registration(224, 280)
    second = marks.record_fetch(224, 252, 280)
    marks.record_delivery()
    assert not marks.undo_confirm(first)
    marks.record_confirm(first)
    assert marks.holds(second)
    assert (marks.start, marks.confirmed) == (224, 224)


class Progress(RuleBasedStateMachine):
    """Any order of fetch, hand out, confirm, give back and registration keeps the order of the marks."""

    def __init__(self) -> None:
        super().__init__()
        self.marks = Watermarks()
        self.marks.record_registration(0, 1000 * OFFSET_UNIT)
        self.stored = 0
        """What the Broker has as confirmed."""
        self.ahead: tuple[int, int] | None = None
        """Ticket and end of a confirm whose answer is due."""
        self.ticket = 0

    @property
    def begins(self) -> int:
        """Where the Broker's next answer begins."""
        return self.stored if self.ahead is None else self.ahead[1]

    @precondition(lambda self: self.marks.hold is BatchState.NOTHING)
    @rule(count=st.integers(1, 50))
    def fetch(self, count: int) -> None:
        assert self.marks.start == self.begins
        self.ticket = self.marks.record_fetch(self.begins, self.begins + count * OFFSET_UNIT, None)

    @precondition(lambda self: self.marks.hold is BatchState.FETCHED)
    @rule()
    def hand_out(self) -> None:
        self.marks.record_delivery()

    @precondition(lambda self: self.marks.hold is BatchState.HANDED_OUT and self.ahead is None)
    @rule(ahead=st.booleans())
    def confirm(self, ahead: bool) -> None:
        self.marks.begin_confirm()
        assert self.marks.fetched is not None
        if ahead:
            self.ahead = (self.ticket, self.marks.fetched)
            self.marks.move_ahead(self.ticket)
        else:
            self.stored = self.marks.fetched
            self.marks.record_confirm(self.ticket)

    @precondition(lambda self: self.ahead is not None)
    @rule(good=st.booleans())
    def outcome(self, good: bool) -> None:
        assert self.ahead is not None
        (ticket, end), self.ahead = self.ahead, None
        if good:
            self.stored = end
            self.marks.record_confirm(ticket)
        else:
            assert self.marks.undo_confirm(ticket)
            assert self.marks.hold is BatchState.NOTHING
            assert not self.marks.holds(self.ticket)

    @precondition(lambda self: self.marks.hold is not BatchState.NOTHING)
    @rule()
    def give_back(self) -> None:
        self.marks.give_back()

    @rule()
    def register_again(self) -> None:
        self.marks.record_registration(self.stored, None)

    @invariant()
    def in_order(self) -> None:
        assert self.marks.confirmed == self.stored
        assert self.marks.start == self.begins
        assert self.marks.fetched is not None
        assert self.marks.fetched >= self.marks.start >= self.marks.confirmed
        if self.marks.hold is BatchState.NOTHING:
            assert not self.marks.holds(self.ticket)


TestProgress = Progress.TestCase
