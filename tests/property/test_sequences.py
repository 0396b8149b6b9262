"""A producer's window against a model that remembers everything."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.core import sequences
from pytubemq.core.sequences import NOWHERE, ProducerMark, SequenceVerdict, StoredLocation, Verdict, Window, judge, note


@dataclass
class Model:
    """Every sequence ever stored, by epoch."""

    epoch: int = -1
    stored: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Ordinal and message id by sequence, of the newest epoch."""
    ordinal: int = 0
    message_id: int = 1 << 40

    def store(self, epoch: int, first: int, count: int) -> StoredLocation:
        """What a Broker does with new messages."""
        if epoch > self.epoch:
            self.epoch, self.stored = epoch, {}
        place = StoredLocation(first, count, self.ordinal, self.message_id)
        for at in range(count):
            assert first + at not in self.stored, "stored twice"
            self.stored[first + at] = (self.ordinal + at, self.message_id + at)
        self.ordinal += count
        self.message_id += count
        return place


sends = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 40), st.integers(1, 8), st.integers(0, 5)), min_size=1, max_size=60
)
"""Epoch, first sequence, messages, ids that go to others in between."""


def _work(work: list[tuple[int, int, int, int]], *, exact: bool) -> Window | None:
    window: Window | None = None
    model = Model()
    places: list[tuple[int, StoredLocation]] = []
    for epoch, first, count, others in work:
        model.message_id += others
        stretches = judge(window, ProducerMark(7, epoch, first), count)
        assert sum(stretch.messages for stretch in stretches) == count
        assert all(stretch.messages > 0 for stretch in stretches)
        at = first
        floor = window.floor if window is not None and window.epoch == epoch else 0
        for stretch in stretches:
            wanted = range(at, at + stretch.messages)
            if stretch.verdict is Verdict.FENCED:
                assert epoch < model.epoch
            elif stretch.verdict is Verdict.FORGOTTEN:
                assert not exact
                assert wanted.stop <= floor
            elif stretch.verdict is Verdict.REPEATED:
                assert epoch == model.epoch
                for behind, sequence in enumerate(wanted):
                    ordinal, message_id = model.stored[sequence]
                    if stretch.ordinal != NOWHERE:
                        assert (stretch.ordinal + behind, stretch.message_id + behind) == (ordinal, message_id)
                    else:
                        assert not exact
            else:
                assert epoch >= model.epoch
                place = model.store(epoch, at, stretch.messages)
                places.append((epoch, place))
                window = note(window, epoch, place)
            at += stretch.messages
        if window is not None:
            assert len(window.runs) <= sequences.MAX_GAPS
            assert len(window.places) <= sequences.MAX_PLACES
            assert all(low[1] < high[0] for low, high in zip(window.runs, window.runs[1:], strict=False))
    if window is not None:
        before = window.copy()
        for epoch, place in places:  # as a replay of the journal does
            window = note(window, epoch, place)
        assert window == before
    return window


@given(sends)
def test_what_was_stored_is_known_where_it_was_stored_and_nothing_else_is(
    work: list[tuple[int, int, int, int]],
) -> None:
    _work(work, exact=True)


@given(work=sends, gaps=st.integers(1, 4), places=st.integers(1, 4))
def test_a_window_without_room_refuses_what_it_cannot_tell_and_never_stores_twice(
    work: list[tuple[int, int, int, int]], gaps: int, places: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sequences, "MAX_GAPS", gaps)
        patch.setattr(sequences, "MAX_PLACES", places)
        _work(work, exact=False)


def test_an_unknown_producer_may_begin_anywhere() -> None:
    assert judge(None, ProducerMark(1, 0, 500), 3) == [SequenceVerdict(3, Verdict.NEW)]


def test_a_newer_epoch_starts_anew_and_an_older_one_is_fenced() -> None:
    window = note(None, 4, StoredLocation(10, 5, 0, 100))
    assert judge(window, ProducerMark(1, 5, 10), 5) == [SequenceVerdict(5, Verdict.NEW)]
    assert judge(window, ProducerMark(1, 3, 99), 1) == [SequenceVerdict(1, Verdict.FENCED)]
    newer = note(window.copy(), 5, StoredLocation(0, 1, 5, 105))
    assert (newer.epoch, newer.runs) == (5, [(0, 1)])
    assert note(newer, 4, StoredLocation(20, 1, 6, 106)) is newer


def test_a_repeat_that_is_partly_new_is_cut_where_it_becomes_new() -> None:
    window = note(None, 0, StoredLocation(0, 10, 0, 100))
    assert judge(window, ProducerMark(1, 0, 8), 5) == [
        SequenceVerdict(2, Verdict.REPEATED, 8, 108),
        SequenceVerdict(3, Verdict.NEW),
    ]


def test_a_repeat_whose_place_was_pushed_out_is_still_known() -> None:
    window = note(None, 0, StoredLocation(0, 1, 0, 100))
    for number in range(1, sequences.MAX_PLACES + 1):
        window = note(window, 0, StoredLocation(number, 1, number * 2, 100 + number * 2))
    assert judge(window, ProducerMark(1, 0, 0), 2) == [
        SequenceVerdict(1, Verdict.REPEATED),
        SequenceVerdict(1, Verdict.REPEATED, 2, 102),
    ]


def test_the_lowest_gap_is_given_up_and_then_refused() -> None:
    window: Window | None = None
    for number in range(sequences.MAX_GAPS + 1):
        window = note(window, 0, StoredLocation(number * 2, 1, number, number))
    assert window is not None
    assert (window.floor, len(window.runs)) == (2, sequences.MAX_GAPS)
    assert judge(window, ProducerMark(1, 0, 1), 3) == [
        SequenceVerdict(1, Verdict.FORGOTTEN),
        SequenceVerdict(1, Verdict.REPEATED),
        SequenceVerdict(1, Verdict.NEW),
    ]
