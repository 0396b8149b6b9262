"""Which partitions are slow, and what they get."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytubemq.spark.source.planning.partition_speeds import HELD_S, LEAST_S, Speeds

FAST, OTHER, SLOW = "1:demo:0", "1:demo:1", "2:demo:0"


def speeds(slow_rows: int = 1_000) -> Speeds:
    """Two of 100,000 rows a second, one of `slow_rows`."""
    made = Speeds()
    made.add(FAST, 100_000, 1.0)
    made.add(OTHER, 100_000, 1.0)
    made.add(SLOW, slow_rows * 10, 10.0)
    return made


def test_a_slow_partition_gets_what_it_delivers_while_the_others_are_read() -> None:
    rows = {FAST: 400_000, OTHER: 100_000, SLOW: 400_000}
    assert speeds().damped(rows) == rows | {SLOW: 4_000}
    assert speeds().damped({FAST: 10, OTHER: 10, SLOW: 400_000})[SLOW] == 1_000 * LEAST_S


def test_a_partition_that_is_only_somewhat_slower_keeps_its_share() -> None:
    rows = {FAST: 400_000, OTHER: 100_000, SLOW: 400_000}
    assert speeds(slow_rows=40_000).damped(rows) == rows


def test_without_others_that_have_rows_nobody_is_slow() -> None:
    assert speeds().damped({FAST: 0, OTHER: 0, SLOW: 400_000})[SLOW] == 400_000
    assert Speeds().damped({SLOW: 400_000}) == {SLOW: 400_000}


def test_few_rows_read_in_no_time_say_nothing_about_speed() -> None:
    made = speeds()
    made.add(SLOW, 5, HELD_S / 2)
    rows = {FAST: 400_000, OTHER: 100_000, SLOW: 400_000}
    assert made.damped(rows) == rows


def test_a_partition_that_has_become_faster_is_no_longer_slow() -> None:
    made = speeds()
    rows = {FAST: 400_000, OTHER: 100_000, SLOW: 400_000}
    for _ in range(10):
        made.add(SLOW, 100_000, 1.0)
    assert made.damped(rows) == rows


def test_a_partition_that_is_not_read_any_more_is_forgotten() -> None:
    made = speeds()
    made.keep({FAST, OTHER})
    made.keep({FAST, OTHER, SLOW})
    assert made.damped({FAST: 9, OTHER: 9, SLOW: 400_000})[SLOW] == 400_000


@given(
    told=st.lists(st.tuples(st.sampled_from([FAST, OTHER, SLOW]), st.integers(1, 10**9), st.floats(0, 1e6))),
    rows=st.dictionaries(st.sampled_from([FAST, OTHER, SLOW]), st.integers(0, 10**9)),
)
def test_no_batch_becomes_larger_and_none_stands_still(
    told: list[tuple[str, int, float]], rows: dict[str, int]
) -> None:
    made = Speeds()
    for partition, count, took_s in told:
        made.add(partition, count, took_s)
    damped = made.damped(rows)
    assert damped.keys() == rows.keys()
    assert all(min(1, rows[key]) <= damped[key] <= rows[key] for key in rows)
