"""The plan: one owner each, differences of at most one, as few moves as can be."""

from __future__ import annotations

import sys
from itertools import combinations
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.core.balance.assignment_strategy import plan_assignment
from pytubemq.core.balance.facts import HeartbeatReceived, Joined, PartitionsChanged, SendEvent
from pytubemq.core.balance.transition import apply
from pytubemq.core.balance.view import GroupView
from pytubemq.model.ids import Partition

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

PARTITIONS = [Partition(broker, topic, n) for broker in (1, 2) for topic in ("a", "b") for n in range(4)]


def fewest_moves(loads: list[int], total: int) -> int:
    """By trying every choice of members that may have one more."""
    least, extra = divmod(total, len(loads))
    return min(
        sum(max(0, load - least - (index in chosen)) for index, load in enumerate(loads))
        for chosen in combinations(range(len(loads)), extra)
    )


@given(
    pool=st.frozensets(st.sampled_from(PARTITIONS)),
    members=st.lists(st.sampled_from("mnopqr"), min_size=1, unique=True),
    holders=st.dictionaries(st.sampled_from(PARTITIONS), st.sampled_from("mnopqrxy")),
    last=st.frozensets(st.sampled_from(PARTITIONS)),
)
def test_every_plan_is_whole_even_and_minimal(
    pool: frozenset[Partition], members: list[str], holders: dict[Partition, str], last: frozenset[Partition]
) -> None:
    kept = {name: frozenset(p for p, holder in holders.items() if holder == name) for name in members}
    target = plan_assignment(kept, pool, members, last_to_move=last)
    assert sorted(target) == sorted(members)
    given_out = [partition for partitions in target.values() for partition in partitions]
    assert sorted(given_out) == sorted(pool)
    sizes = [len(partitions) for partitions in target.values()]
    assert max(sizes) - min(sizes) <= 1
    taken = sum(len((kept[name] & pool) - target[name]) for name in members)
    assert taken == fewest_moves([len(kept[name] & pool) for name in members], len(pool))
    assert plan_assignment(target, pool, members) == target


@given(
    pool=st.frozensets(st.sampled_from(PARTITIONS)),
    members=st.lists(st.sampled_from("mnop"), min_size=1, unique=True),
    holders=st.dictionaries(st.sampled_from(PARTITIONS), st.sampled_from("mnopx")),
    barred=st.dictionaries(st.sampled_from("mnop"), st.frozensets(st.sampled_from(PARTITIONS))),
)
def test_who_is_barred_from_a_partition_is_given_it_only_if_all_are(
    pool: frozenset[Partition],
    members: list[str],
    holders: dict[Partition, str],
    barred: dict[str, frozenset[Partition]],
) -> None:
    kept = {name: frozenset(p for p, holder in holders.items() if holder == name) for name in members}
    target = plan_assignment(kept, pool, members, barred=barred)
    assert sorted(partition for partitions in target.values() for partition in partitions) == sorted(pool)
    for name, partitions in target.items():
        for partition in partitions & barred.get(name, frozenset()) - kept[name]:
            assert all(partition in barred.get(other, ()) for other in members)


def test_nobody_there_gets_nothing() -> None:
    assert plan_assignment({}, frozenset(PARTITIONS), []) == {}


def test_topics_are_spread_as_well() -> None:
    target = plan_assignment({}, frozenset(p for p in PARTITIONS if p.broker_id == 1), ["m", "n"])
    for partitions in target.values():
        assert sorted(p.topic for p in partitions) == ["a", "a", "b", "b"]


def test_what_nobody_else_could_use_is_taken_last() -> None:
    held = frozenset(p for p in PARTITIONS if p.topic == "a")
    away = frozenset(p for p in held if p.broker_id == 2)
    target = plan_assignment({"m": held}, held, ["m", "n"], last_to_move=away)
    assert target["m"] == away


def pool_of(topics: int) -> frozenset[Partition]:
    return frozenset(Partition(1, f"t{topic}", n) for topic in range(topics) for n in range(20))


def plan_for_one(topics: int) -> Callable[[], object]:
    pool = pool_of(topics)
    return lambda: plan_assignment({}, pool, ["m"])


def plan_for_a_second(topics: int) -> Callable[[], object]:
    pool = pool_of(topics)
    return lambda: plan_assignment({"m": pool}, pool, ["m", "n"])


def plan_with_absent_brokers(topics: int) -> Callable[[], object]:
    pool = pool_of(topics)
    return lambda: plan_assignment({"m": pool}, pool, ["m", "n"], last_to_move=pool)


def a_member_joins_and_asks(topics: int) -> Callable[[], object]:
    view, _ = apply(GroupView(), PartitionsChanged(pool_of(topics)), now_s=1.0)

    def work() -> None:
        joined, _ = apply(view, Joined("m"), now_s=2.0)
        _, actions = apply(joined, HeartbeatReceived("m"), now_s=100.0)
        assert isinstance(actions[0], SendEvent)

    return work


def lines(work: Callable[[], object]) -> int:
    """Return how many lines of Python run, rounds of a comprehension or a generator included."""
    count = 0

    def trace(_frame: FrameType, event: str, _arg: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize(
    "make",
    [plan_for_one, plan_for_a_second, plan_with_absent_brokers, a_member_joins_and_asks],
    ids=lambda m: m.__name__,
)
def test_work_grows_with_the_partitions_and_not_with_topics_times_partitions(
    make: Callable[[int], Callable[[], object]],
) -> None:
    few, many = lines(make(10)), lines(make(80))
    assert many < 12 * few, (few, many)
