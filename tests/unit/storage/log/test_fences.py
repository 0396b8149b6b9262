"""The book of what was lost: each message in it once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from pytubemq.storage.format.record import Fence, FenceReason
from pytubemq.storage.log.fences import Fences

if TYPE_CHECKING:
    import pytest


@given(st.lists(st.tuples(st.sampled_from([0, 1]), st.integers(0, 30), st.integers(1, 10)), max_size=12))
def test_a_message_is_counted_once_however_often_its_damage_is_met(ranges: list[tuple[int, int, int]]) -> None:
    book = Fences()
    lost: set[tuple[int, int]] = set()
    for partition_id, start, length in ranges:
        messages = {(partition_id, ordinal) for ordinal in range(start, start + length)}
        fence = Fence("t", partition_id, start, start + length, FenceReason.RECORD)
        assert book.add(fence) == len(messages - lost)
        assert book.add(fence) == 0
        lost |= messages
    listed = [(fence.partition_id, at) for fence in book.all() for at in range(fence.from_ordinal, fence.to_ordinal)]
    assert len(listed) == len(set(listed))
    assert set(listed) == lost


def test_what_is_not_kept_any_more_is_not_listed() -> None:
    book = Fences()
    for topic in ("a", "b"):
        for start in (0, 10, 20):
            book.add(Fence(topic, 0, start, start + 5, FenceReason.JOURNAL))
    book.forget("b")
    book.forget_before("a", 0, 12)
    book.forget_before("a", 1, 12)
    assert [(fence.topic, fence.from_ordinal) for fence in book.all()] == [("a", 10), ("a", 20)]
    assert book.add(Fence("b", 0, 0, 5, FenceReason.JOURNAL)) == 5


def test_losses_that_adjoin_are_one_fence() -> None:
    book = Fences()
    for ordinal in (4, 2, 3, 7):
        book.add(Fence("t", 0, ordinal, ordinal + 1, FenceReason.RECORD))
    book.add(Fence("t", 0, 5, 6, FenceReason.INDEX))
    assert [(fence.from_ordinal, fence.to_ordinal) for fence in book.all()] == [(2, 5), (5, 6), (7, 8)]


def test_what_is_not_listed_for_want_of_room_is_counted_once_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytubemq.storage.log.fences._MAX_FENCES", 5)
    book = Fences()
    met = [Fence("t", 0, ordinal, ordinal + 1, FenceReason.RECORD) for ordinal in range(0, 60, 2)]
    for turn in range(3):
        counted = sum(fence.messages for at in range(0, 30, 10) for fence in book.add_all(met[at : at + 10]))
        assert counted == (len(met) if turn == 0 else 0)
    assert len(book.all()) == 5
    book.forget_before("t", 0, 40)
    assert book.all() == []
    assert book.add(Fence("t", 0, 100, 101, FenceReason.RECORD)) == 1
    assert [fence.from_ordinal for fence in book.all()] == [100]
