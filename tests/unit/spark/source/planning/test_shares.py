"""How a batch's rows are shared among partitions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytubemq.spark.source.planning.shares import FLOOR, within_bytes, within_rows

counts = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 10**12), min_size=1)


@given(rows=counts, most=st.integers(1, 10**6))
def test_a_bound_of_rows_is_met_exactly_and_none_gets_more_than_it_has(rows: dict[str, int], most: int) -> None:
    shares = within_rows(rows, most)
    assert sum(shares.values()) == min(most, sum(rows.values()))
    assert all(0 <= shares[key] <= rows[key] for key in rows)


@given(rows=counts, most=st.integers(1, 10**6))
def test_no_partition_gets_less_than_the_floor(rows: dict[str, int], most: int) -> None:
    shares = within_rows(rows, most)
    floor = int(FLOOR * most / len(rows)) or min(1, most // len(rows))
    # large ones make room for what the small ones get beyond their proportion
    assert all(shares[key] >= min(rows[key], floor) * (1 - FLOOR) - 1 for key in rows)


def test_a_few_rows_come_at_once_beside_a_partition_that_never_runs_out() -> None:
    rows = {"busy": 10_000_000, "quiet": 5}
    assert within_rows(rows, 1000) == {"busy": 995, "quiet": 5}
    assert within_bytes(rows, 100_000, {"busy": 100.0, "quiet": 100.0}) == {"busy": 995, "quiet": 5}


def test_each_partition_has_a_row_where_there_is_room_for_one_of_each() -> None:
    rows = {"busy": 10_000_000} | {f"quiet{number}": 1 for number in range(9)}
    assert within_rows(rows, 10) == dict.fromkeys(rows, 1)


@given(
    rows=counts, most=st.integers(1, 10**6), row_bytes=st.dictionaries(st.sampled_from("abcdefgh"), st.floats(0, 10**7))
)
def test_a_bound_of_bytes_holds_and_every_batch_moves_on(
    rows: dict[str, int], most: int, row_bytes: dict[str, float]
) -> None:
    shares = within_bytes(rows, most, row_bytes)
    taken = sum(shares.values())
    assert all(0 <= shares[key] <= rows[key] for key in rows)
    assert taken <= 1 or sum(shares[key] * row_bytes.get(key, 0.0) for key in rows) <= most * (1 + 1e-9)
    assert bool(taken) == bool(sum(rows.values()))
