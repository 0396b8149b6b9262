"""The book of what was lost: each message in it once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from pytubemq.storage.format.record import LossReason, LostRange
from pytubemq.storage.log.lost_ranges import LostRanges

if TYPE_CHECKING:
    import pytest


@given(st.lists(st.tuples(st.sampled_from([0, 1]), st.integers(0, 30), st.integers(1, 10)), max_size=12))
def test_a_message_is_counted_once_however_often_its_damage_is_met(ranges: list[tuple[int, int, int]]) -> None:
    book = LostRanges()
    lost: set[tuple[int, int]] = set()
    for partition_id, start, length in ranges:
        messages = {(partition_id, ordinal) for ordinal in range(start, start + length)}
        lost_range = LostRange("t", partition_id, start, start + length, LossReason.RECORD)
        assert book.add(lost_range) == len(messages - lost)
        assert book.add(lost_range) == 0
        lost |= messages
    listed = [
        (lost_range.partition_id, at)
        for lost_range in book.all()
        for at in range(lost_range.from_ordinal, lost_range.to_ordinal)
    ]
    assert len(listed) == len(set(listed))
    assert set(listed) == lost


def test_what_is_not_kept_any_more_is_not_listed() -> None:
    book = LostRanges()
    for topic in ("a", "b"):
        for start in (0, 10, 20):
            book.add(LostRange(topic, 0, start, start + 5, LossReason.JOURNAL))
    book.forget("b")
    book.forget_before("a", 0, 12)
    book.forget_before("a", 1, 12)
    assert [(lost_range.topic, lost_range.from_ordinal) for lost_range in book.all()] == [("a", 10), ("a", 20)]
    assert book.add(LostRange("b", 0, 0, 5, LossReason.JOURNAL)) == 5


def test_losses_that_adjoin_are_one_fence() -> None:
    book = LostRanges()
    for ordinal in (4, 2, 3, 7):
        book.add(LostRange("t", 0, ordinal, ordinal + 1, LossReason.RECORD))
    book.add(LostRange("t", 0, 5, 6, LossReason.INDEX))
    assert [(lost_range.from_ordinal, lost_range.to_ordinal) for lost_range in book.all()] == [(2, 5), (5, 6), (7, 8)]


def test_what_is_not_listed_for_want_of_room_is_counted_once_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytubemq.storage.log.lost_ranges._MAX_LOST_RANGES", 5)
    book = LostRanges()
    met = [LostRange("t", 0, ordinal, ordinal + 1, LossReason.RECORD) for ordinal in range(0, 60, 2)]
    for turn in range(3):
        counted = sum(lost_range.messages for at in range(0, 30, 10) for lost_range in book.add_all(met[at : at + 10]))
        assert counted == (len(met) if turn == 0 else 0)
    assert len(book.all()) == 5
    book.forget_before("t", 0, 40)
    assert book.all() == []
    assert book.add(LostRange("t", 0, 100, 101, LossReason.RECORD)) == 1
    assert [lost_range.from_ordinal for lost_range in book.all()] == [100]
