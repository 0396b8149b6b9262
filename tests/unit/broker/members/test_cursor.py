"""Where a consumer begins and what it has confirmed: every rule of registration and fetch, without a Broker."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.broker.members.cursor import Cursor, ReadStatus, start_offset, whole

MIN, MAX = 280, 2800


def begin(*, stored: int | None = None, read_status: int = 0, asked: int = -1) -> int:
    return start_offset(stored=stored, read_status=read_status, asked=asked, min_offset=MIN, max_offset=MAX)


@pytest.mark.parametrize(
    ("stored", "read_status", "asked", "expected"),
    [
        (None, ReadStatus.FROM_STORED_OR_MIN, -1, MIN),
        (None, ReadStatus.FROM_STORED_OR_MAX, -1, MAX),
        (560, ReadStatus.FROM_STORED_OR_MIN, -1, 560),
        (560, ReadStatus.FROM_STORED_OR_MAX, -1, 560),
        (560, ReadStatus.ALWAYS_MAX, -1, MAX),
        (560, ReadStatus.FROM_STORED_OR_MIN, 840, 840),
        (560, ReadStatus.ALWAYS_MAX, 840, MAX),
        (560, ReadStatus.FROM_STORED_OR_MIN, 850, 840),  # whole messages only
        (None, ReadStatus.FROM_STORED_OR_MIN, 0, MIN),
        (None, ReadStatus.FROM_STORED_OR_MAX, 1 << 40, MAX),
        (MAX + 280, ReadStatus.FROM_STORED_OR_MIN, -1, MAX + 280),  # mended at the first fetch, not here
    ],
)
def test_where_a_registration_begins(stored: int | None, read_status: int, asked: int, expected: int) -> None:
    assert begin(stored=stored, read_status=read_status, asked=asked) == expected


def test_automatic_mode_reads_again_what_was_not_confirmed() -> None:
    cursor = Cursor.at(0)
    cursor.book(112, found=True, manual=False)
    assert cursor.request(manual=False) == 0
    assert cursor.commit(consumed=True)
    assert cursor.request(manual=False) == 112


def test_manual_mode_reads_on_before_anything_is_confirmed() -> None:
    cursor = Cursor.at(0)
    cursor.book(112, found=True, manual=True)
    cursor.book(224, found=True, manual=True)
    assert (cursor.request(manual=True), cursor.confirmed) == (224, 0)
    assert cursor.commit_up_to(112)
    assert (cursor.confirmed, cursor.handed_out) == (112, 224)


def test_a_rejected_batch_is_taken_back() -> None:
    cursor = Cursor.at(28)
    cursor.book(280, found=True, manual=False)
    assert not cursor.commit(consumed=False)
    assert (cursor.confirmed, cursor.handed_out) == (28, 28)


def test_a_commit_never_moves_back() -> None:
    cursor = Cursor.at(280)
    assert not cursor.commit_up_to(112)
    assert cursor.confirmed == 280


def test_a_range_the_filter_passed_over_is_confirmed_at_once_in_automatic_mode_only() -> None:
    automatic, manual = Cursor.at(0), Cursor.at(0)
    assert automatic.book(280, found=False, manual=False)
    assert automatic.confirmed == 280
    assert not manual.book(280, found=False, manual=True)
    assert (manual.confirmed, manual.handed_out) == (0, 280)


@pytest.mark.parametrize("manual", [False, True])
def test_below_what_is_kept_moves_to_its_start(manual: bool) -> None:
    cursor = Cursor.at(0)
    assert cursor.align(min_offset=MIN, max_offset=MAX, manual=manual)
    assert (cursor.confirmed, cursor.handed_out) == (MIN, MIN)


def test_beyond_the_end_moves_to_it_and_is_confirmed_in_automatic_mode_only() -> None:
    automatic, manual = Cursor.at(MAX + 28), Cursor.at(MAX + 28)
    assert automatic.align(min_offset=MIN, max_offset=MAX, manual=False)
    assert automatic.confirmed == MAX
    assert not manual.align(min_offset=MIN, max_offset=MAX, manual=True)
    assert (manual.confirmed, manual.handed_out) == (MAX + 28, MAX)


@given(st.lists(st.tuples(st.sampled_from(["read", "commit", "reject", "up_to"]), st.integers(0, 50)), max_size=40))
def test_confirmed_never_passes_what_was_handed_out_and_never_moves_back(steps: list[tuple[str, int]]) -> None:
    cursor, most = Cursor.at(0), 0
    for what, count in steps:
        before = cursor.confirmed
        if what == "read":
            start = cursor.request(manual=False)
            cursor.book(start + 28 * count, found=True, manual=False)
            most = max(most, start + 28 * count)
        elif what == "up_to":
            cursor.commit_up_to(min(most, 28 * count + 5))
        else:
            cursor.commit(consumed=what == "commit")
        assert before <= cursor.confirmed <= most
        assert cursor.confirmed == whole(cursor.confirmed)


def test_a_confirm_that_was_refused_is_taken_back_and_a_later_one_is_not() -> None:
    cursor = Cursor(0, 280)
    cursor.commit_up_to(84)
    cursor.take_back(84, to=0)
    assert (cursor.confirmed, cursor.handed_out) == (0, 280)
    cursor.commit_up_to(84)
    cursor.commit_up_to(112)
    cursor.take_back(84, to=0)
    assert cursor.confirmed == 112
    cursor.take_back(112, to=None)
    assert cursor.confirmed == 112


def test_a_confirm_of_what_was_handed_out_before_a_move_does_not_undo_it() -> None:
    moved = Cursor.at(28, moved=True)
    assert not moved.commit(consumed=True)
    assert not moved.commit_up_to(280), "about the place it was moved away from"
    assert (moved.confirmed, moved.handed_out) == (28, 28)
    moved.book(140, found=True, manual=True)
    assert moved.commit_up_to(112), "handed out since"
    assert not moved.commit_up_to(280)
    assert (moved.confirmed, moved.handed_out) == (112, 140)
    assert Cursor.at(28).commit_up_to(280), "one that registered anew knows what it read before"


def test_what_the_filter_passes_over_behind_a_confirm_is_made_durable_with_it() -> None:
    cursor = Cursor(0, 280)
    cursor.commit_up_to(84)
    assert cursor.begin_confirm() == 84
    assert not cursor.book(112, found=False, manual=False)
    assert not cursor.book(140, found=False, manual=False)
    assert cursor.confirmed == 140
    assert cursor.finish_confirm(84) == 140
    assert cursor.book(168, found=False, manual=False), "nothing is under way any more"


def test_what_the_filter_passes_over_behind_a_refused_confirm_comes_again_with_it() -> None:
    cursor = Cursor(28, 280)
    cursor.commit_up_to(84)
    cursor.begin_confirm()
    cursor.book(140, found=False, manual=False)
    cursor.take_back(84, to=28)
    assert cursor.confirmed == 28
    assert cursor.book(112, found=False, manual=False)


def test_a_confirm_counts_for_what_was_passed_over_before_it() -> None:
    cursor = Cursor(0, 280)
    cursor.commit_up_to(84)
    cursor.begin_confirm()
    cursor.book(140, found=False, manual=False)
    cursor.commit_up_to(196)
    cursor.begin_confirm()
    assert cursor.finish_confirm(84) is None, "the newer one is still to come, and covers it"
    assert cursor.finish_confirm(196) is None
    assert cursor.confirmed == 196
