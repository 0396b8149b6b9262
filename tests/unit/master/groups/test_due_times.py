"""When which group has to be looked at."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytubemq.master.groups.due_times import DueTimes


def taken(times: DueTimes, now_s: float) -> list[str]:
    found = []
    while (group := times.take(now_s)) is not None:
        found.append(group)
    return found


def test_groups_are_taken_when_they_are_due_and_in_that_order() -> None:
    times = DueTimes()
    assert times.put("late", 3.0)
    assert times.put("soon", 1.0)
    assert not times.put("between", 2.0)
    assert taken(times, 2.0) == ["soon", "between"]
    assert times.next_s() == 3.0
    assert taken(times, 3.0) == ["late"]
    assert times.next_s() is None


def test_a_later_time_leaves_a_group_where_it_is_and_a_sooner_one_counts() -> None:
    times = DueTimes()
    times.put("g", 2.0)
    assert not times.put("g", 5.0)
    assert times.next_s() == 2.0
    assert times.put("g", 1.0)
    assert taken(times, 9.0) == ["g"], "once, however often it was put"


def test_a_group_that_is_gone_is_not_taken() -> None:
    times = DueTimes()
    times.put("g", 1.0)
    times.forget("g")
    assert times.next_s() is None
    assert times.take(9.0) is None


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 9)), max_size=300))
def test_no_group_is_taken_later_than_its_soonest_time(puts: list[tuple[str, int]]) -> None:
    times = DueTimes()
    soonest: dict[str, float] = {}
    for group, due_s in puts:
        times.put(group, due_s)
        soonest[group] = min(due_s, soonest.get(group, due_s))
    assert times.next_s() == min(soonest.values(), default=None)
    assert taken(times, 9.0) == [group for group, _ in sorted(soonest.items(), key=lambda one: (one[1], one[0]))]
