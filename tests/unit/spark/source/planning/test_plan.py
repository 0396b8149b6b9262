"""Batches as offsets: shares, bounds, order, splits, and what data loss looks like."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.errors import ConfigError, OffsetMovedError
from pytubemq.model.ids import Partition
from pytubemq.model.offset import OFFSET_UNIT, messages_between
from pytubemq.spark.source.options import Topics
from pytubemq.spark.source.planning.plan import (
    Ends,
    Hole,
    OffsetRange,
    Planned,
    advance,
    capped,
    check_checkpoint,
    data_loss,
    newest,
    plan,
    resume_offsets,
    split,
    together,
    truncations,
)

P0, P1 = Partition(1, "demo", 0), Partition(1, "demo", 1)
ENDS = {P1: Ends(28, 280), P0: Ends(0, 2800)}


def test_ends_become_offsets_with_sorted_keys() -> None:
    assert list(newest(ENDS).items()) == [("1:demo:0", 2800), ("1:demo:1", 280)]


def test_a_partition_found_later_begins_at_its_first_message() -> None:
    assert resume_offsets({"1:demo:0": 56}, ENDS) == {"1:demo:0": 56, "1:demo:1": 28}


def test_an_end_holds_a_target_back_and_what_has_none_goes_on() -> None:
    assert capped({"1:demo:0": 2800, "1:demo:1": 280}, {"1:demo:1": 56}) == {"1:demo:0": 2800, "1:demo:1": 56}


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


@given(
    start=offsets,
    target=offsets,
    max_rows=st.one_of(st.none(), st.integers(1, 1000)),
    max_bytes=st.integers(1, 100_000),
    row_bytes=st.dictionaries(st.sampled_from([f"1:demo:{n}" for n in range(6)]), st.floats(0, 500)),
    most_each=st.one_of(st.none(), st.integers(1, 300)),
)
def test_all_bounds_hold_at_once_and_every_batch_moves_on(
    start: dict[str, int],
    target: dict[str, int],
    max_rows: int | None,
    max_bytes: int,
    row_bytes: dict[str, float],
    most_each: int | None,
) -> None:
    end = advance(start, target, max_rows=max_rows, max_bytes=max_bytes, row_bytes=row_bytes, most_each=most_each)
    taken = {key: messages_between(start.get(key, 0), last) for key, last in end.items()}
    assert max_rows is None or sum(taken.values()) <= max_rows
    assert most_each is None or max(taken.values(), default=0) <= most_each
    backlog = sum(messages_between(start.get(key, 0), last) for key, last in target.items())
    assert bool(sum(taken.values())) == bool(backlog)
    # what rounding leaves may be a row in each partition
    slack = sum(row_bytes.get(key, 0.0) for key in taken)
    assert sum(taken[key] * row_bytes.get(key, 0.0) for key in taken) <= max_bytes + slack + 1


def test_rows_are_shared_in_proportion_to_the_backlog() -> None:
    start = {"1:demo:0": 0, "1:demo:1": 0}
    target = {"1:demo:0": 900 * OFFSET_UNIT, "1:demo:1": 100 * OFFSET_UNIT}
    end = advance(start, target, max_rows=100)
    assert end == {"1:demo:0": 90 * OFFSET_UNIT, "1:demo:1": 10 * OFFSET_UNIT}
    by_bytes = advance(start, target, max_bytes=50_000, row_bytes={"1:demo:0": 100.0, "1:demo:1": 100.0})
    assert by_bytes == {"1:demo:0": 450 * OFFSET_UNIT, "1:demo:1": 50 * OFFSET_UNIT}


def test_a_row_takes_the_average_of_what_is_kept() -> None:
    assert Ends(28, 28 * 11, 1000).row_bytes == 100.0
    assert Ends(28, 28, 0).row_bytes is None
    assert Ends(0, 28).row_bytes is None


def test_ranges_are_the_difference_of_two_offsets() -> None:
    start, end = {"1:demo:0": 28, "1:demo:1": 280}, {"1:demo:0": 280, "1:demo:1": 280}
    assert plan(start, end, ENDS) == Planned((OffsetRange(P0, 28, 280),), ())


@pytest.mark.parametrize(
    ("start", "end", "planned"),
    [
        (
            {"1:demo:1": 0},
            {"1:demo:1": 280},
            Planned((OffsetRange(P1, 28, 280),), (Hole(P1, 0, 28, ENDS[P1]),)),
        ),
        (
            {"1:demo:1": 28},
            {"1:demo:1": 308},
            Planned((OffsetRange(P1, 28, 280),), (Hole(P1, 280, 308, ENDS[P1]),)),
        ),
        (
            {"9:demo:1": 0},
            {"9:demo:1": 28},
            Planned((), (Hole(Partition(9, "demo", 1), 0, 28, Ends(0, 0)),)),
        ),
        ({}, {"1:demo:1": 280}, Planned((OffsetRange(P1, 28, 280),), ())),
    ],
)
def test_rows_that_are_not_there_are_holes_beside_what_is(
    start: dict[str, int], end: dict[str, int], planned: Planned
) -> None:
    assert plan(start, end, ENDS) == planned


def test_data_loss_names_the_rows_and_the_way_on() -> None:
    error = data_loss(Hole(P1, 0, 280, ENDS[P1]), ENDS[P1])
    assert isinstance(error, OffsetMovedError)
    assert "data loss in partition 1:demo:1: rows 0 to 280 are wanted, the Broker has 28 to 280" in str(error)
    assert "failOnDataLoss" in str(error)


ranges = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 60)), min_size=1, max_size=5).map(
    lambda pairs: [
        OffsetRange(Partition(1, "demo", n), first * 28, (first + rows) * 28) for n, (first, rows) in enumerate(pairs)
    ]
)


@given(
    ranges=ranges, max_rows=st.one_of(st.none(), st.integers(1, 70)), min_tasks=st.one_of(st.none(), st.integers(1, 40))
)
def test_a_split_has_the_same_rows_once_each(
    ranges: list[OffsetRange], max_rows: int | None, min_tasks: int | None
) -> None:
    parts = split(ranges, max_rows=max_rows, min_tasks=min_tasks, whole=[P0])
    for one in ranges:
        mine = [part for part in parts if part.partition == one.partition]
        rows = [offset for part in mine for offset in range(part.start, part.end, 28)]
        assert rows == list(range(one.start, one.end, 28))
        assert all(part.start < part.end for part in mine)
        if one.partition == P0:
            assert len(mine) == 1
        elif min_tasks is not None and len(ranges) < min_tasks <= min(messages_between(x.start, x.end) for x in ranges):
            # The whole partition is one task; the others share the rest.
            total = sum(messages_between(x.start, x.end) for x in ranges if x.partition != P0)
            assert len(mine) >= (min_tasks - 1) * len(rows) / total
            assert len(parts) >= min_tasks
        if one.partition != P0 and max_rows is not None:
            assert max(messages_between(part.start, part.end) for part in mine) <= max_rows


@pytest.mark.parametrize(
    ("rows", "tasks"),
    [
        ([175, 175, 175, 175], 12),  # 2.5 tasks each: three
        ([200, 200, 150, 150], 12),
        ([140, 186, 187, 187], 11),  # two whole ones, and thrice nearly 2.7
        ([70, 140, 210, 280], 10),
        ([700, 0, 0, 0], 10),
        ([697, 1, 1, 1], 13),
    ],
)
def test_as_many_tasks_as_wanted_and_fewer_than_one_more_for_each_partition(rows: list[int], tasks: int) -> None:
    ranges = [OffsetRange(Partition(1, "demo", n), 0, count * 28) for n, count in enumerate(rows) if count]
    parts = split(ranges, max_rows=None, min_tasks=10)
    assert len(parts) == tasks


@given(ranges=ranges, min_tasks=st.integers(1, 40), whole=st.booleans())
def test_there_are_as_many_tasks_as_wanted_whatever_must_stay_whole(
    ranges: list[OffsetRange], min_tasks: int, whole: bool
) -> None:
    kept = [P0] if whole else []
    rows = [1 if one.partition in kept else messages_between(one.start, one.end) for one in ranges]
    parts = split(ranges, max_rows=None, min_tasks=min_tasks, whole=kept)
    assert len(parts) >= min(min_tasks, sum(rows))
    assert len(parts) < max(min_tasks, len(ranges)) + len(ranges)


def test_the_largest_partitions_are_split_most() -> None:
    parts = split([OffsetRange(P0, 0, 28 * 900), OffsetRange(P1, 0, 28 * 100)], max_rows=None, min_tasks=10)
    assert [part.partition for part in parts] == [P0] * 9 + [P1]


@pytest.mark.parametrize(("max_rows", "min_tasks"), [(1000, None), (None, 1_000_000)])
def test_a_claim_of_very_many_rows_is_not_cut_into_as_many_tasks(max_rows: int | None, min_tasks: int | None) -> None:
    with pytest.raises(ConfigError, match=r"tasks; at most 100,000 can be\n.*maxRecordsPerTask"):
        split([OffsetRange(P0, 0, 2**62), OffsetRange(P1, 0, 28)], max_rows=max_rows, min_tasks=min_tasks)


def test_a_checkpoint_of_other_topics_is_refused() -> None:
    topics = Topics(("demo", "two"))
    check_checkpoint({"1:demo:0": 28, "1:two:0": 0}, topics, lenient=False)
    with pytest.raises(
        ConfigError, match=r"(?s)checkpoint is of topic other; this query reads demo, two.*checkpointLocation"
    ):
        check_checkpoint({"1:other:0": 28}, topics, lenient=True)
    with pytest.raises(ConfigError, match="of topic other"):
        check_checkpoint({"1:other:0": 28, "1:demo:0": 28}, topics, lenient=False)
    check_checkpoint({"1:other:0": 28, "1:demo:0": 28}, topics, lenient=True)


@pytest.mark.parametrize("strange", [{"partition-0": 1}, {"1:demo:0": "x"}, {"1:demo:0": -1}, {"1:demo:0": True}])
def test_a_checkpoint_of_another_source_is_refused(strange: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="the checkpoint"):
        check_checkpoint(strange, Topics(("demo",)), lenient=True)


def test_rows_that_a_log_took_back_are_a_hole_behind_its_end() -> None:
    assert truncations({"1:demo:0": 2800, "1:demo:1": 308, "7:demo:0": 28}, ENDS) == [Hole(P1, 280, 308, ENDS[P1])]


@given(
    st.lists(st.integers(1, 40), max_size=20),
    st.integers(0, 60),
)
def test_ranges_that_share_a_task_are_all_there_in_order_and_no_more_than_fit(rows: list[int], most: int) -> None:
    ranges = [OffsetRange(Partition(1, "demo", number), 0, count * 28) for number, count in enumerate(rows)]
    groups = together(ranges, most_rows=most)
    assert [one for group in groups for one in group] == ranges
    assert all(len(group) == 1 or sum(one.end // 28 for one in group) <= most for group in groups)
