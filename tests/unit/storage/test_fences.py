"""The book of what was lost: each message in it once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytubemq.storage.fences import Fences
from pytubemq.storage.record import Fence, FenceReason


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
