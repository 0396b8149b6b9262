"""Bound groups: who gets what first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytubemq.core.balance.claims import Claim, claim, share_claimed
from pytubemq.core.balance.facts import Acked, Drained, Failed, Joined, Left, OpType, PartitionsChanged, Tick
from pytubemq.core.balance.view import GroupView
from pytubemq.model.ids import Partition
from tests.unit.core.balance.story import FOUR, TIMING, Story, parts

if TYPE_CHECKING:
    from collections.abc import Mapping


def part(number: int) -> Partition:
    return Partition(1, "demo", number)


def best(wanted: dict[str, dict[Partition, int]], *, select_big: bool = True) -> Mapping[Partition, Claim]:
    """The best claims when these join one after the other."""
    found: Mapping[Partition, Claim] = {}
    for name, offsets in wanted.items():
        found = claim(found, name, offsets, select_big=select_big)
    return found


@pytest.mark.parametrize(("select_big", "winner"), [(True, "b"), (False, "a")])
def test_the_terms_decide_between_offsets(select_big: bool, winner: str) -> None:
    found = best({"a": {part(0): 5}, "b": {part(0): 9}, "c": {part(0): 7}}, select_big=select_big)
    given = share_claimed(found, FOUR, {}, "abc")
    assert given[winner] == parts(0)
    assert sum(map(len, given.values())) == 1, "what nobody claims is nobody's yet"


def test_equal_claims_are_spread_and_who_has_one_keeps_it() -> None:
    found = best({name: dict.fromkeys(FOUR, 7) for name in "ab"})
    assert sorted(map(len, share_claimed(found, FOUR, {}, "ab").values())) == [2, 2]
    assert share_claimed(found, FOUR, dict.fromkeys(FOUR, "b"), "ab")["b"] == FOUR
    assert share_claimed(found, FOUR, {}, "b")["b"] == FOUR, "the other one is out"


def test_a_claim_of_what_cannot_be_read_gives_nothing() -> None:
    assert share_claimed(best({"a": {part(9): 1}}), FOUR, {}, "a") == {"a": frozenset()}


def bound() -> Story:
    story = Story(frozenset())
    story.view = GroupView(timing=TIMING, reserving=True)
    return story


def test_claims_come_first_and_the_rest_when_all_are_acknowledged() -> None:
    story = bound()
    story(Joined("a", claims={part(0): 1}))
    story(Joined("b", claims={part(1): 1}))
    assert story.ask("a") is None, "incomplete: there is nothing to be had"
    story(PartitionsChanged(FOUR))
    first = story.told("a")
    assert frozenset(first.partitions) == parts(0)
    second = story.told("b")
    story(Acked("a", first.rebalance_id))
    assert (story.view.reserving, story.ask("a")) == (True, None), "b is still at it"
    story(Acked("b", second.rebalance_id))
    assert not story.view.reserving
    story.serve("a")
    story.serve("b")
    assert {len(member.holds) for member in story.view.members.values()} == {2}
    assert part(0) in story.view.members["a"].holds
    assert part(1) in story.view.members["b"].holds


def test_when_the_better_claim_is_gone_the_next_counts() -> None:
    story = bound()
    story(Joined("a", claims={part(0): 1}))
    story(Joined("b", claims={part(0): 9}))
    story(Left("b"))
    story(PartitionsChanged(FOUR))
    assert frozenset(story.told("a").partitions) == parts(0)


def test_the_claims_of_one_that_is_gone_hold_nobody_up() -> None:
    story = bound()
    story(Joined("a", claims={part(0): 1}))
    story(Joined("b", claims={part(1): 1}))
    story(PartitionsChanged(FOUR))
    story.serve("a")
    assert story.ask("a") is None
    story(Left("b"))
    assert frozenset(story.told("a").partitions) == FOUR - parts(0)


def test_the_claims_of_one_that_is_taken_out_give_way_to_the_next_and_count_again_when_it_is_back() -> None:
    story = bound()
    story(Joined("a", claims={part(0): 1}))
    story(Joined("b", claims={part(0): 9}))
    story(Joined("c", claims={part(1): 1}))
    story(PartitionsChanged(FOUR))
    story(Drained(frozenset("b"), story.now_s + 1))
    assert frozenset(story.serve("a").partitions) == parts(0)
    assert story.view.reserving, "c is still at it"
    story.now_s += 1
    story(Tick())
    assert story.view.members["b"].out_until_s is None
    giving = story.serve("a")
    assert (giving.op, frozenset(giving.partitions)) == (OpType.ONLY_DISCONNECT, parts(0))
    assert frozenset(story.serve("b").partitions) == parts(0)


def test_a_group_that_had_its_partitions_before_follows_no_claims() -> None:
    story = bound()
    story(PartitionsChanged(FOUR))
    story(Joined("a", claims={part(0): 1}, allocated=True))
    assert frozenset(story.told("a").partitions) == FOUR


def test_without_claims_a_bound_group_is_planned_at_once() -> None:
    story = bound()
    story(Joined("a"))
    story(PartitionsChanged(FOUR))
    assert frozenset(story.told("a").partitions) == FOUR


def test_a_claim_that_fails_is_told_again_after_a_pause() -> None:
    story = bound()
    story(PartitionsChanged(FOUR))
    story(Joined("a", claims={part(0): 1}))
    story(Failed("a", story.told("a").rebalance_id))
    assert story.ask("a") is None
    story.now_s += TIMING.retry_s
    again = story.told("a")
    assert (again.op, frozenset(again.partitions)) == (OpType.ONLY_CONNECT, parts(0))
