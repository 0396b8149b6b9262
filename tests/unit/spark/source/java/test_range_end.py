"""Where a range ends in what a fetch brought."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.errors import CorruptError
from pytubemq.spark.source.java.range_end import Mark, cut, dense, mark
from tests.unit.spark.source.java.simulated import record


def marks(*numbers: int) -> list[Mark]:
    return [mark(record(number)) for number in numbers]


@given(before=st.integers(0, 20), behind=st.integers(0, 20), sight=st.integers(0, 40))
def test_the_cut_lies_where_the_sight_begins(before: int, behind: int, sight: int) -> None:
    pack = marks(*range(before + behind))
    seen = marks(*range(before, before + sight))
    complete = sight >= behind
    found = cut(pack, seen, complete=complete)
    if complete or (sight and behind):
        assert found == before
    else:
        assert found is None


def test_messages_with_the_same_id_are_told_apart_by_what_they_say() -> None:
    pack = [mark(record(7, b"one")), mark(record(7, b"two")), mark(record(7, b"three"))]
    assert cut(pack, pack[1:], complete=True) == 1
    assert cut(pack, pack[2:], complete=False) == 2


def test_a_sight_that_begins_behind_the_pack_leaves_all_of_it() -> None:
    assert cut(marks(1, 2, 3), marks(9), complete=True) == 3
    assert cut(marks(1, 2, 3), [], complete=True) == 3


def test_more_is_asked_for_before_anything_is_decided_on_nothing() -> None:
    assert cut(marks(1, 2, 3), [], complete=False) is None
    assert cut(marks(1, 2, 3), marks(9), complete=False) is None


def test_a_message_that_only_files_show_is_passed_over_in_the_sight() -> None:
    assert cut(marks(1, 2, 4), marks(2, 3, 4), complete=True) == 1


@pytest.mark.parametrize(
    ("pack", "sight"), [((1, 2, 2), (2, 2)), ((1, 2, 3), (2,)), ((1, 2, 3), (2, 9, 9))], ids=["twins", "gone", "other"]
)
def test_what_cannot_be_told_apart_is_an_error(pack: tuple[int, ...], sight: tuple[int, ...]) -> None:
    assert cut(marks(*pack), marks(*sight), complete=False) in (None, 1)
    with pytest.raises(CorruptError, match="indistinguishable"):
        cut(marks(*pack), marks(*sight), complete=True)


def test_offsets_are_known_where_every_place_of_the_index_brought_a_message() -> None:
    assert dense(3, 28, 112)
    assert not dense(2, 28, 112)
