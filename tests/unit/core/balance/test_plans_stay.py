"""Plans by the rule in its plainest form, one partition after the other: how it is worked out changes no plan."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from pytubemq.core.balance.assignment_strategy import plan_assignment
from pytubemq.core.balance.claims import Claim, claim, share_claimed
from pytubemq.core.balance.partition_sets import difference, intersection, lowest, union
from pytubemq.model.ids import Partition
from tests.support.properties import examples

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PARTITIONS = [Partition(broker, topic, n) for broker in (1, 2) for topic in ("a", "b", "c") for n in range(5)]
NAMES = "mnop"
partitions = st.sampled_from(PARTITIONS)
some = st.frozensets(partitions)
members = st.lists(st.sampled_from(NAMES), min_size=1, unique=True)
holders = st.dictionaries(partitions, st.sampled_from(NAMES + "xy"))
bars = st.dictionaries(st.sampled_from(NAMES), some)


def take_away(held: frozenset[Partition], quota: int, last: frozenset[Partition]) -> set[Partition]:
    """Take the last partition of the topic with most, again and again, as long as one of others than `last` is left."""
    remaining = set(held)
    while len(remaining) > quota and remaining - last:
        count = Counter(partition.topic for partition in remaining)
        topic = max({p.topic for p in remaining - last}, key=lambda name: (count[name], name))
        remaining.remove(max(p for p in remaining - last if p.topic == topic))
    return set(sorted(remaining)[:quota]) if len(remaining) > quota else remaining


def plain_plan(
    kept: Mapping[str, frozenset[Partition]],
    pool: frozenset[Partition],
    names: Sequence[str],
    last: frozenset[Partition],
    barred: Mapping[str, frozenset[Partition]],
) -> dict[str, frozenset[Partition]]:
    """Who has most keeps one more; what is free goes to who has least of its topic, then of all, then joined first."""
    least, extra = divmod(len(pool), len(names))
    held = {name: kept[name] & pool for name in names}
    most_first = sorted(names, key=lambda name: -len(held[name]))
    quota = {name: least + (rank < extra) for rank, name in enumerate(most_first)}
    plan = {name: take_away(held[name], quota[name], last) for name in names}
    for free in sorted(pool.difference(*plan.values()), key=lambda p: (p.topic, p.partition_id, p.broker_id)):
        allowed = [name for name in names if free not in barred.get(name, ())]
        roomy = [name for name in allowed if len(plan[name]) < quota[name]]

        def load(name: str, topic: str = free.topic) -> tuple[int, int]:
            return sum(p.topic == topic for p in plan[name]), len(plan[name])

        owner = min(roomy, key=load) if roomy else min(allowed or names, key=lambda name: len(plan[name]))
        plan[owner].add(free)
    return {name: frozenset(found) for name, found in plan.items()}


@settings(max_examples=examples(200))
@given(pool=some, names=members, held=holders, last=some, barred=bars)
def test_a_plan_is_the_one_of_the_plain_rule(
    pool: frozenset[Partition],
    names: list[str],
    held: dict[Partition, str],
    last: frozenset[Partition],
    barred: dict[str, frozenset[Partition]],
) -> None:
    kept = {name: frozenset(p for p, holder in held.items() if holder == name) for name in names}
    plan = plan_assignment(kept, pool, names, last_to_move=last, barred=barred)
    assert plan == plain_plan(kept, pool, names, last, barred)


def plain_shares(
    best: Mapping[Partition, Claim], pool: frozenset[Partition], owners: Mapping[Partition, str], names: Sequence[str]
) -> dict[str, frozenset[Partition]]:
    """Who owns it and claims it keeps it, else the claimer with fewest gets it, in the order of the partitions."""
    given_out: dict[str, set[Partition]] = {name: set() for name in names}
    for partition in sorted(best.keys() & pool):
        claimers = [name for name in best[partition].claimers if name in names]
        if owners.get(partition) in claimers:
            claimers = [owners[partition]]
        if claimers:
            given_out[min(claimers, key=lambda name: len(given_out[name]))].add(partition)
    return {name: frozenset(found) for name, found in given_out.items()}


@settings(max_examples=examples(200))
@given(
    wanted=st.dictionaries(st.sampled_from(NAMES), st.dictionaries(partitions, st.integers(1, 3))),
    pool=some,
    owners=holders,
    names=members,
    select_big=st.booleans(),
)
def test_claims_are_shared_by_the_plain_rule(
    wanted: dict[str, dict[Partition, int]],
    pool: frozenset[Partition],
    owners: dict[Partition, str],
    names: list[str],
    select_big: bool,
) -> None:
    best: Mapping[Partition, Claim] = {}
    for name, offsets in wanted.items():
        best = claim(best, name, offsets, select_big=select_big)
    assert share_claimed(best, pool, owners, names) == plain_shares(best, pool, owners, names)


@given(one=some, other=some, most=st.integers(0, 30))
def test_sets_that_are_not_copied_are_those_of_the_operators(
    one: frozenset[Partition], other: frozenset[Partition], most: int
) -> None:
    assert difference(one, other) == difference(one, dict.fromkeys(other, "")) == one - other
    assert intersection(one, other) == one & other
    assert union(one, other) == one | other
    assert lowest(one, most) == sorted(one)[:most]
