"""A group's story, fact by fact."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytubemq.core.balance.facts import (
    Acked,
    CameBack,
    ConnectionLost,
    Drained,
    Dropped,
    Fact,
    HeartbeatReceived,
    Joined,
    Leased,
    Left,
    OpType,
    PartitionsChanged,
    Reported,
    Tick,
    Unread,
    Wake,
)
from pytubemq.core.balance.view import due_s
from pytubemq.model.ids import Partition
from pytubemq.model.limits import MAX_EVENT_BYTES, MAX_EVENT_PARTITIONS
from tests.unit.core.balance.story import FOUR, TIMING, Story, parts


def test_a_first_member_gets_everything_with_its_first_heartbeat() -> None:
    story = Story()
    assert story(Joined("a")) == (Wake("a"),)
    event = story.told("a")
    assert (event.op, frozenset(event.partitions)) == (OpType.ONLY_CONNECT, FOUR)
    assert event.rebalance_id != 0
    assert story(Acked("a", event.rebalance_id)) == ()
    assert story.view.balanced
    assert story.ask("a") is None


def test_a_joiner_waits_until_the_old_owner_has_let_go() -> None:
    story = Story()
    story(Joined("a"))
    story.serve("a")
    assert story(Joined("b")) == (Wake("a"),)
    assert story.ask("b") is None
    giving = story.told("a")
    assert giving.op is OpType.ONLY_DISCONNECT
    assert len(giving.partitions) == 2
    assert story.ask("b") is None
    assert story(Acked("a", giving.rebalance_id)) == (Wake("b"),)
    taking = story.told("b")
    assert taking.op is OpType.ONLY_CONNECT
    assert taking.partitions == giving.partitions
    story(Acked("b", taking.rebalance_id))
    assert story.view.balanced


def test_one_that_leaves_moves_only_its_own() -> None:
    story = Story()
    for name in "ab":
        story(Joined(name))
    story.serve("a")
    story.serve("b")
    before = story.view.members["a"].holds
    assert story(Left("b")) == (Wake("a"),)
    event = story.serve("a")
    assert frozenset(event.partitions) == FOUR - before
    assert story.view.members["a"].holds == FOUR


def test_two_that_join_together_need_no_disconnect() -> None:
    story = Story()
    story(Joined("a"))
    story(Joined("b"))
    assert {story.serve("a").op, story.serve("b").op} == {OpType.ONLY_CONNECT}
    assert story.view.balanced


def test_an_event_is_told_again_until_acknowledged_but_not_at_once() -> None:
    story = Story()
    story(Joined("a"))
    first = story.told("a")
    assert story.ask("a") is None
    story.now_s += TIMING.resend_s
    assert story(Tick()) == (Wake("a"),)
    assert story.told("a").rebalance_id == first.rebalance_id
    assert story.ask("a") is None


@pytest.mark.parametrize("lost", [ConnectionLost("a"), Joined("a")])
def test_after_a_lost_connection_the_event_is_told_at_once(lost: Fact) -> None:
    story = Story()
    story(Joined("a"))
    first = story.told("a")
    story(lost)
    again = story.told("a")
    assert (again.rebalance_id, again.partitions) == (first.rebalance_id, first.partitions)


def test_an_acknowledgement_of_another_event_changes_nothing() -> None:
    story = Story()
    story(Joined("a"))
    event = story.told("a")
    story(Acked("a", event.rebalance_id + 1))
    assert story.view.members["a"].event == event


def test_an_unacknowledged_event_is_dropped_and_in_the_end_its_member() -> None:
    story = Story()
    story(Joined("a"))
    story.serve("a")
    story(Joined("b"))
    first = story.told("a")
    for _ in range(2):
        story.now_s += TIMING.event_timeout_s / 2
        story(CameBack("a"))
        story(CameBack("b"))
    assert story(Tick()) == (Wake("a"),)
    second = story.told("a")
    assert second.rebalance_id != first.rebalance_id
    for _ in range(2):
        story.now_s += TIMING.event_timeout_s / 2
        story(CameBack("a"))
        story(CameBack("b"))
    dropped, wake = story(Tick())
    assert isinstance(dropped, Dropped)
    assert "not acknowledged" in dropped.reason
    assert wake == Wake("b")
    assert frozenset(story.told("b").partitions) == FOUR


def test_a_silent_member_is_dropped_and_its_partitions_move() -> None:
    story = Story()
    for name in "ab":
        story(Joined(name))
    story.serve("a")
    story.serve("b")
    story.now_s += TIMING.client_timeout_s - 1
    story(CameBack("a"))
    story.now_s += 1
    assert story(Tick()) == (Dropped("b", "no heartbeat in time"), Wake("a"))


def test_a_lost_connection_has_a_short_grace() -> None:
    story = Story()
    story(Joined("a"))
    story.serve("a")
    story(ConnectionLost("a"))
    assert due_s(story.view, after_s=story.now_s) == story.now_s + TIMING.lost_grace_s
    story.now_s += TIMING.lost_grace_s - 0.5
    story(CameBack("a"))
    story.now_s += 1
    assert story(Tick()) == ()
    story(ConnectionLost("a"))
    story.now_s += TIMING.lost_grace_s
    assert story(Tick()) == (Dropped("a", "no heartbeat in time"),)


def test_what_a_member_could_not_take_rests_and_is_told_again() -> None:
    story = Story()
    story(Joined("a"))
    event = story.told("a")
    story(Acked("a", event.rebalance_id))
    assert story(Reported("a", parts(0, 1, 2))) == ()
    assert story.ask("a") is None
    story.now_s += TIMING.retry_s
    assert story(Tick()) == (Wake("a"),)
    assert frozenset(story.told("a").partitions) == parts(3)


def test_a_report_older_than_the_telling_does_not_undo_it() -> None:
    story = Story()
    story(Joined("a"))
    story.told("a")
    story(Reported("a", frozenset()))
    assert story.view.members["a"].holds == FOUR


def test_after_a_restart_members_come_back_with_what_they_hold() -> None:
    story = Story()
    assert story(Joined("a", parts(0, 1))) == ()
    assert story.ask("a") is None
    assert story(Joined("b", parts(2, 3))) == ()
    story.now_s += TIMING.settle_s
    assert story(Tick()) == ()
    assert story.view.balanced


def test_after_a_restart_what_nobody_came_back_with_is_handed_out() -> None:
    story = Story()
    story(Joined("a", parts(0, 1)))
    story.now_s += TIMING.settle_s
    assert story(Tick()) == (Wake("a"),)
    assert frozenset(story.told("a").partitions) == parts(2, 3)


def test_a_partition_that_two_report_stays_with_the_first() -> None:
    story = Story()
    story(Joined("a", parts(0, 1)))
    assert story(Joined("b", parts(1, 2, 3))) == (Wake("b"),)
    event = story.told("b")
    assert event.op is OpType.ONLY_DISCONNECT
    assert frozenset(event.partitions) == parts(1)
    story(Acked("b", event.rebalance_id))
    assert story.view.balanced


def test_a_stray_partition_belongs_to_who_has_it_once_the_owner_is_gone() -> None:
    story = Story()
    story(Joined("a", parts(0, 1)))
    story(Joined("b", parts(1, 2, 3)))
    story(Left("a"))
    assert story.view.owners[Partition(1, "demo", 1)] == "b"


def test_what_was_taken_over_from_another_is_told_again_for_the_broker_had_given_it_to_that_one() -> None:
    story = Story()
    story(Joined("a"))
    story.serve("a")
    story(Joined("b", parts(2, 3)))
    giving = story.told("a")
    assert frozenset(giving.partitions) == parts(2, 3)
    assert story(Acked("a", giving.rebalance_id)) == (Wake("b"),)
    again = story.serve("b")
    assert (again.op, frozenset(again.partitions)) == (OpType.ONLY_CONNECT, parts(2, 3))
    assert story.view.balanced
    assert story.ask("b") is None


def test_what_a_broker_that_is_back_does_not_know_as_read_is_told_again_once_it_can_be_read() -> None:
    story = Story()
    story(Joined("a"))
    story.serve("a")
    story(PartitionsChanged(frozenset(), absent=FOUR))
    assert story(Unread({"a": parts(0, 1)})) == ()
    assert (story(Unread({"b": parts(0, 1)})), story.view.balanced) == ((), False), "nobody of that name is there"
    assert story(PartitionsChanged(FOUR)) == (Wake("a"),)
    again = story.serve("a")
    assert (again.op, frozenset(again.partitions)) == (OpType.ONLY_CONNECT, parts(0, 1))
    assert story.view.members["a"].holds == FOUR
    assert story.view.balanced
    story(Unread({"a": parts(0)}))
    story(Reported("a", parts(1, 2, 3)))
    assert story.ask("a") is None, "it is known to be lost now, and rests"
    story.now_s += TIMING.retry_s
    story(Tick())
    assert frozenset(story.told("a").partitions) == parts(0)


def test_what_another_still_reports_is_told_again_only_when_that_one_has_let_go() -> None:
    story = Story()
    story(Joined("a", parts(0, 1)))
    story(Joined("b", parts(2, 3)))
    assert story.view.balanced
    story(Reported("b", parts(0, 2, 3)))
    story(Unread({"a": parts(0)}))
    assert story.ask("a") is None
    giving = story.told("b")
    assert (giving.op, frozenset(giving.partitions)) == (OpType.ONLY_DISCONNECT, parts(0))
    story(Acked("b", giving.rebalance_id))
    story(Reported("b", parts(2, 3)))
    assert frozenset(story.told("a").partitions) == parts(0)


def test_partitions_of_a_broker_that_is_away_stay_and_are_told_to_nobody() -> None:
    story = Story()
    story(Joined("a"))
    story.serve("a")
    assert story(PartitionsChanged(frozenset(), absent=FOUR)) == ()
    story(Left("a"))
    story(Joined("b"))
    assert story.ask("b") is None
    assert story(PartitionsChanged(FOUR)) == (Wake("b"),)


def test_partitions_that_are_gone_are_withdrawn() -> None:
    story = Story()
    story(Joined("a"))
    story.serve("a")
    assert story(PartitionsChanged(parts(0, 1))) == (Wake("a"),)
    event = story.serve("a")
    assert (event.op, frozenset(event.partitions)) == (OpType.ONLY_DISCONNECT, parts(2, 3))


def test_new_partitions_wake_whoever_gets_them() -> None:
    story = Story(parts(0))
    story(Joined("a"))
    story(Joined("b"))
    story.serve("a")
    assert story.ask("b") is None
    assert story(PartitionsChanged(parts(0, 1))) == (Wake("b"),)


def test_lose_and_gain_is_said_in_two_events() -> None:
    story = Story(parts(0, 1))
    story(Joined("a"))
    story.serve("a")
    story(PartitionsChanged(parts(2, 3)))
    assert story.serve("a").op is OpType.DISCONNECT
    assert story.serve("a").op is OpType.CONNECT
    assert story.view.members["a"].holds == parts(2, 3)


@pytest.mark.parametrize(
    "fact",
    [Reported("x", FOUR), Acked("x", 1), HeartbeatReceived("x"), CameBack("x"), ConnectionLost("x"), Left("x"), Tick()],
)
def test_a_fact_about_nobody_changes_nothing(fact: Fact) -> None:
    story = Story()
    before = story.view
    assert story(fact) == ()
    assert story.view == before


def test_a_connect_that_was_not_acknowledged_is_not_repeated_to_who_is_drained() -> None:
    story = Story(parts(0))
    story(Joined("c"))
    connect = story.told("c")
    story(ConnectionLost("c"))
    story(Drained(frozenset("c"), story.now_s + 60))
    instead = story.told("c")
    assert (instead.op, instead.partitions) == (OpType.ONLY_DISCONNECT, (Partition(1, "demo", 0),))
    assert instead.rebalance_id != connect.rebalance_id
    story(Acked("c", instead.rebalance_id))
    assert story.ask("c") is None
    assert story.view.owners == {}


def test_a_connect_that_was_not_acknowledged_is_not_repeated_while_its_reader_is_on_its_way() -> None:
    story = Story(parts(0))
    story(Joined("a"))
    connect = story.told("a")
    story(Leased({Partition(1, "demo", 0): "b"}, story.now_s + 15))
    story(Joined("a"))
    assert story.ask("a") is None
    story.now_s += 16
    story(Tick())
    assert story.told("a") == replace(connect, sent_s=story.now_s)


def test_of_a_connect_that_was_not_acknowledged_only_what_still_holds_is_told_and_the_rest_later() -> None:
    story = Story()
    story(Joined("a"))
    connect = story.told("a")
    story(PartitionsChanged(parts(0, 1, 2), parts(3)))
    story(Joined("a"))
    rest = story.told("a")
    assert rest.rebalance_id != connect.rebalance_id
    assert (rest.op, frozenset(rest.partitions)) == (OpType.ONLY_CONNECT, parts(0, 1, 2))
    story(Acked("a", connect.rebalance_id))
    assert story.view.members["a"].event == rest, "an acknowledgement of what was superseded settles nothing"
    story(Acked("a", rest.rebalance_id))
    story(PartitionsChanged(FOUR))
    assert frozenset(story.serve("a").partitions) == parts(3)
    assert story.view.balanced


def test_what_a_superseded_connect_may_have_done_stays_its_members_until_what_followed_is_acknowledged() -> None:
    story = Story()
    story(Joined("a"))
    story.told("a")
    story(PartitionsChanged(parts(0, 1)))
    story(Joined("a"))
    instead = story.told("a")
    assert (instead.op, frozenset(instead.partitions)) == (OpType.ONLY_DISCONNECT, parts(2, 3))
    story(Reported("a", frozenset()))
    story(Joined("b"))
    assert story.ask("b") is None, "the first may be taking them just now"
    story(Acked("a", instead.rebalance_id))
    assert len(story.told("a").partitions) == 1


def test_one_event_has_no_more_partitions_than_a_member_can_read_and_the_others_follow() -> None:
    everything = frozenset(Partition(1, "demo", n) for n in range(MAX_EVENT_PARTITIONS + 7))
    story = Story(everything)
    story(Joined("a"))
    first, second = story.serve("a"), story.serve("a")
    assert (len(first.partitions), len(second.partitions)) == (MAX_EVENT_PARTITIONS, 7)
    assert story.view.balanced
    story(Drained(frozenset(["a"]), story.now_s + 60))
    assert [len(story.serve("a").partitions) for _ in range(2)] == [MAX_EVENT_PARTITIONS, 7]
    assert story.ask("a") is None


def test_long_names_make_an_event_shorter_so_that_it_fits_into_a_frame() -> None:
    story = Story(frozenset(Partition(1, "demo", n) for n in range(6_000)))
    story.view = replace(story.view, name_bytes=1024)
    member = "m" * 1024
    story(Joined(member))
    events = [story.serve(member), story.serve(member)]
    assert all(len(event.partitions) * 2_100 < MAX_EVENT_BYTES for event in events)
    assert sum(len(event.partitions) for event in events) == 6_000
