"""What consumers that fail, operators that take them out, and readers that are on their way do to a group."""

from __future__ import annotations

from dataclasses import replace

from pytubemq.core.balance.facts import (
    Acked,
    CameBack,
    ConnectionLost,
    Drained,
    Dropped,
    Failed,
    Joined,
    Leased,
    Left,
    OpType,
    PartitionsChanged,
    Reported,
    Tick,
    Wake,
)
from pytubemq.core.balance.view import GroupView, due_s
from tests.unit.core.balance.story import FOUR, TIMING, Story, parts


def two() -> Story:
    story = Story()
    for name in "ab":
        story(Joined(name))
    story.serve("a")
    story.serve("b")
    assert story.view.balanced
    return story


def settle(story: Story) -> None:
    """Everybody asks and acknowledges until there is nothing to say."""
    for _ in range(20):
        for name in list(story.view.members):
            if story.ask(name) is not None:
                event = story.view.members[name].event
                assert event is not None
                story(Acked(name, event.rebalance_id))


# --- failures ---------------------------------------------------------------------------------------------------


def test_what_one_could_not_take_goes_to_another_at_once() -> None:
    story = Story()
    story(Joined("a"))
    story(Joined("b"))
    missed = story.told("a")
    story.serve("b")
    assert Wake("b") in story(Failed("a", missed.rebalance_id))
    assert frozenset(story.told("b").partitions) == frozenset(missed.partitions)
    assert story.ask("a") is None


def test_what_it_could_take_stays_with_it() -> None:
    story = Story()
    story(Joined("a"))
    story(Joined("b"))
    event = story.told("a")
    story(Failed("a", event.rebalance_id, holds=frozenset(event.partitions[:1])))
    assert story.view.members["a"].holds == frozenset(event.partitions[:1])
    assert event.partitions[1] not in story.view.owners


def test_one_that_is_alone_tries_the_same_again_after_a_pause() -> None:
    story = Story()
    story(Joined("a"))
    story(Failed("a", story.told("a").rebalance_id))
    assert story.ask("a") is None
    assert due_s(story.view, after_s=story.now_s) == story.now_s + TIMING.retry_s
    story.now_s += TIMING.retry_s
    assert story(Tick()) == (Wake("a"),)
    assert frozenset(story.told("a").partitions) == FOUR


def test_who_failed_gets_its_share_again_after_a_while() -> None:
    story = Story()
    story(Joined("a"))
    story(Joined("b"))
    missed = story.told("a")
    story.serve("b")
    story(Failed("a", missed.rebalance_id))
    story.serve("b")
    settle(story)
    story.now_s += TIMING.barred_s
    story(CameBack("a"))
    story(CameBack("b"))
    story(Tick())
    settle(story)
    assert {len(member.holds) for member in story.view.members.values()} == {2}


def test_what_one_could_not_give_up_stays_with_it_and_is_asked_for_again() -> None:
    story = Story()
    story(Joined("a"))
    story.serve("a")
    story(Joined("b"))
    giving = story.told("a")
    story(Failed("a", giving.rebalance_id))
    assert story.view.members["a"].holds == FOUR
    assert story.ask("a") is None
    assert story.ask("b") is None
    story.now_s += TIMING.retry_s
    again = story.told("a")
    assert again.op is OpType.ONLY_DISCONNECT
    assert again.rebalance_id != giving.rebalance_id


def test_a_failure_of_another_event_changes_nothing() -> None:
    story = Story()
    story(Joined("a"))
    event = story.told("a")
    story(Failed("a", event.rebalance_id + 7))
    story(Failed("nobody", event.rebalance_id))
    assert story.view.members["a"].event == event


# --- taken out --------------------------------------------------------------------------------------------------


def test_one_that_is_taken_out_gives_up_all_and_gets_nothing_before_its_time() -> None:
    story = two()
    had = story.view.members["a"].holds
    assert story(Drained(frozenset("a"), story.now_s + 60)) == (Wake("a"),)
    giving = story.serve("a")
    assert (giving.op, frozenset(giving.partitions)) == (OpType.ONLY_DISCONNECT, had)
    story.serve("b")
    assert story.view.members["b"].holds == FOUR
    assert story.view.balanced
    story.now_s += 20
    story(CameBack("a"))
    story(CameBack("b"))
    story(Tick())
    assert story.ask("a") is None
    story.now_s += 20
    story(CameBack("a"))
    story(CameBack("b"))
    story.now_s += 20
    assert due_s(story.view, after_s=story.now_s - 1) == story.now_s
    story(Tick())
    settle(story)
    assert {len(member.holds) for member in story.view.members.values()} == {2}


def test_one_that_may_be_back_at_once_gets_others_than_it_had() -> None:
    story = two()
    had = story.view.members["a"].holds
    story(Drained(frozenset("a"), story.now_s))
    settle(story)
    assert story.view.balanced
    assert len(story.view.members["a"].holds) == 2
    assert story.view.members["a"].holds.isdisjoint(had)


def test_one_that_is_alone_gets_its_own_back() -> None:
    story = Story()
    story(Joined("a"))
    story.serve("a")
    story(Drained(frozenset("a"), story.now_s))
    settle(story)
    assert story.view.members["a"].holds == FOUR


def test_a_second_request_changes_nothing_while_the_first_holds() -> None:
    story = two()
    story(Drained(frozenset("a"), story.now_s + 60))
    story(Drained(frozenset(["a", "nobody"]), story.now_s + 600))
    assert story.view.members["a"].out_until_s == story.now_s + 60


# --- on their way -----------------------------------------------------------------------------------------------


def test_what_a_reader_is_on_its_way_with_is_not_told_to_a_newcomer() -> None:
    story = Story()
    story(Leased(dict.fromkeys(parts(0, 1), "old"), story.now_s + 15))
    story(Joined("new"))
    assert frozenset(story.serve("new").partitions) == parts(2, 3)
    story(Joined("old", parts(0, 1)))
    assert story.view.balanced, "nothing moved"


def test_who_comes_back_without_it_holds_nobody_up() -> None:
    story = Story()
    story(Leased(dict.fromkeys(FOUR, "old"), story.now_s + 15))
    story(Joined("new"))
    assert story.ask("new") is None
    assert Wake("new") in story(Joined("old"))


def test_who_came_back_and_leaves_holds_nobody_up() -> None:
    story = Story()
    story(Leased(dict.fromkeys(FOUR, "old"), story.now_s + 15))
    story(Joined("old", FOUR))
    story(Leased(dict.fromkeys(FOUR, "old"), story.now_s + 15))
    story(Joined("new"))
    story(Left("old"))
    story.view = replace(story.view, settle_until_s=0)
    assert frozenset(story.told("new").partitions) == FOUR


def test_a_reader_that_does_not_come_is_waited_for_no_longer() -> None:
    story = Story()
    story(Leased(dict.fromkeys(FOUR, "old"), story.now_s + 15))
    story(Joined("new"))
    assert due_s(story.view, after_s=story.now_s) == story.now_s + 15
    story.now_s += 15
    assert story(Tick()) == (Wake("new"),)
    assert frozenset(story.told("new").partitions) == FOUR


# --- groups that share by themselves ----------------------------------------------------------------------------


def test_a_group_that_shares_by_itself_is_told_nothing_and_believed_everything() -> None:
    story = Story()
    story.view = GroupView(timing=TIMING, planned=False)
    assert story(PartitionsChanged(FOUR)) == ()
    for name in "ab":
        assert story(Joined(name, parts(0))) == ()
        assert story(Reported(name, parts(0, 1))) == ()
        assert story.ask(name) is None
        assert story.view.members[name].holds == parts(0, 1)
    assert story.view.balanced
    story(Reported("b", parts()))
    assert set(story.view.owners.values()) == {"a"}
    story(Left("a"))
    assert story.view.owners == {}
    story.now_s += TIMING.client_timeout_s
    assert any(isinstance(action, Dropped) for action in story(Tick()))


def test_a_grace_can_be_longer_than_ours() -> None:
    story = Story()
    story(Joined("java"))
    story(ConnectionLost("java", 14))
    assert story.view.members["java"].deadline_s == story.now_s + 14
    story.now_s += 20
    story(ConnectionLost("java", 14))
    assert story.view.members["java"].deadline_s == story.now_s - 20 + 14, "a loss makes no time-out later"
