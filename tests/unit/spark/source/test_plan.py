"""Batches as offsets: shares, order, and what data loss looks like."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.errors import ConfigError, OffsetMovedError
from pytubemq.model.ids import Partition
from pytubemq.model.offset import OFFSET_UNIT, messages_between
from pytubemq.spark.source.options import Positions
from pytubemq.spark.source.plan import Ends, OffsetRange, advance, newest, ranges, resolve

P0, P1 = Partition(1, "demo", 0), Partition(1, "demo", 1)
ENDS = {P1: Ends(28, 280), P0: Ends(0, 2800)}


def test_edges_become_offsets_with_sorted_keys() -> None:
    assert list(resolve(Positions("earliest", {}), ENDS).items()) == [("1:demo:0", 0), ("1:demo:1", 28)]
    assert list(newest(ENDS).items()) == [("1:demo:0", 2800), ("1:demo:1", 280)]


def test_exact_positions_stand_beside_the_edge_and_mean_whole_messages() -> None:
    assert resolve(Positions("latest", {P0: 29}), ENDS) == {"1:demo:0": 56, "1:demo:1": 280}


def test_a_position_for_an_unknown_partition_is_refused() -> None:
    with pytest.raises(ConfigError, match="no partition 2:demo:0"):
        resolve(Positions("earliest", {Partition(2, "demo", 0): 0}), ENDS)


offsets = st.dictionaries(st.sampled_from([f"1:demo:{n}" for n in range(6)]), st.integers(0, 500), max_size=6).map(
    lambda rows: {key: count * OFFSET_UNIT for key, count in rows.items()}
)


@given(start=offsets, target=offsets, max_rows=st.one_of(st.none(), st.integers(1, 1000)))
def test_a_batch_takes_what_is_allowed_and_repeated_batches_reach_the_target(
    start: dict[str, int], target: dict[str, int], max_rows: int | None
) -> None:
    at = start
    while True:
        end = advance(at, target, max_rows=max_rows)
        assert list(end) == sorted(end)
        assert all(end[key] >= at.get(key, 0) for key in end)
        assert all(end[key] <= max(target.get(key, 0), at.get(key, 0)) for key in end)
        backlog = sum(messages_between(at.get(key, 0), target[key]) for key in target)
        taken = sum(messages_between(at.get(key, 0), end[key]) for key in end)
        assert taken == (backlog if max_rows is None else min(backlog, max_rows))
        if not backlog:
            break
        at = end
    assert set(end) == set(start) | set(target)


def test_rows_are_shared_in_proportion_to_the_backlog() -> None:
    start = {"1:demo:0": 0, "1:demo:1": 0}
    target = {"1:demo:0": 900 * OFFSET_UNIT, "1:demo:1": 100 * OFFSET_UNIT}
    end = advance(start, target, max_rows=100)
    assert end == {"1:demo:0": 90 * OFFSET_UNIT, "1:demo:1": 10 * OFFSET_UNIT}


def test_ranges_are_the_difference_of_two_offsets() -> None:
    start, end = {"1:demo:0": 28, "1:demo:1": 280}, {"1:demo:0": 280, "1:demo:1": 280}
    assert ranges(start, end, ENDS, fail_on_data_loss=True) == [OffsetRange(P0, 28, 280)]


@pytest.mark.parametrize(
    ("start", "end", "says"),
    [
        ({"1:demo:1": 0}, {"1:demo:1": 280}, "rows 0 to 280 are wanted, the Broker has 28 to 280"),
        ({"1:demo:1": 28}, {"1:demo:1": 308}, "rows 28 to 308 are wanted, the Broker has 28 to 280"),
        ({"9:demo:1": 0}, {"9:demo:1": 28}, "partition 9:demo:1"),
    ],
)
def test_rows_that_are_not_there_are_an_error(start: dict[str, int], end: dict[str, int], says: str) -> None:
    with pytest.raises(OffsetMovedError, match=says) as caught:
        ranges(start, end, ENDS, fail_on_data_loss=True)
    assert "failOnDataLoss" in str(caught.value)


def test_without_the_check_what_is_there_is_read() -> None:
    planned = ranges({"1:demo:1": 0}, {"1:demo:1": 308, "9:demo:1": 28}, ENDS, fail_on_data_loss=False)
    assert planned == [OffsetRange(P1, 28, 280)]


def test_a_partition_that_the_start_does_not_know_is_read_from_its_first_row() -> None:
    assert ranges({}, {"1:demo:1": 280}, ENDS, fail_on_data_loss=True) == [OffsetRange(P1, 28, 280)]
