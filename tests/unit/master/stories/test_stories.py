"""The stories of groups and Brokers: what is in them, and their bounds."""

from __future__ import annotations

import pytest

from pytubemq.errors import NotFoundError
from pytubemq.master.catalogue.audit_trail import ChangeOrigin, change_of
from pytubemq.master.registry.audit import Audit
from pytubemq.master.registry.consumes import ConsumeChange
from pytubemq.master.registry.groups import GroupChange
from pytubemq.master.service import MasterService, MasterSettings
from pytubemq.master.stories.stories import Stories, names_of
from pytubemq.model.ids import Address
from pytubemq.model.limits import MAX_STORY_CHARS, STORY_DAYS
from tests.unit.master.groups.room import OURS, Line, Room, StandingClock

GROUP = ("group", "g")
DAY_S = 86_400


def texts(stories: Stories, name: str = "g") -> list[str]:
    return [one.text for one in stories.find(("group", name))]


def test_one_subject_keeps_its_newest_events() -> None:
    stories = Stories(StandingClock(), most_of_one=3)
    for number in range(5):
        stories.record_group("g", "joined", f"m{number}")
    assert texts(stories) == ["m4", "m3", "m2"]


def test_beyond_the_most_of_all_the_oldest_go_whosever_they_are() -> None:
    stories = Stories(StandingClock(), most=4, most_of_one=3)
    stories.record_group("old", "joined", "first")
    for number in range(4):
        stories.record_group(f"g{number}", "joined", "m")
    assert texts(stories, "old") == []
    assert len(stories) == 4
    for number in range(50):  # of one subject that is at its own bound
        stories.record_group("g3", "joined", f"m{number}")
    assert texts(stories, "g3") == ["m49", "m48", "m47"]
    assert len(stories) <= 4


def test_old_events_go() -> None:
    clock = StandingClock()
    stories = Stories(clock)
    stories.record_group("g", "joined", "long ago")
    clock.time_s += STORY_DAYS * DAY_S + 1
    assert texts(stories) == []
    stories.record_group("h", "joined", "now")
    assert len(stories) == 1


def test_texts_are_bounded_and_escaped() -> None:
    stories = Stories(StandingClock())
    stories.record_group("g", "joined", "a\nb" + "x" * 9_000)
    (text,) = texts(stories)
    assert text.startswith("a\\nb")
    assert len(text) < 2 * MAX_STORY_CHARS
    assert names_of(range(30)).endswith(" and 10 more")


def test_of_very_many_partitions_few_are_looked_at() -> None:
    looked_at = []

    class Named:
        def __str__(self) -> str:
            looked_at.append(self)
            return "1:t:0"

    text = names_of([Named() for _ in range(5000)])
    assert text.startswith("5000 partitions: 1:t:0, ")
    assert text.endswith(" and 4980 more")
    assert len(looked_at) <= 1000


def test_who_came_who_went_and_why() -> None:
    room = Room()
    stories = room.groups.brokers.stories
    room.join("a", Line(OURS))
    room.join("b", Line(OURS))
    room.groups.leave("g", "a")
    room.wait(31)
    found = [(one.event, one.text, one.why) for one in reversed(stories.find(GROUP))]
    assert found == [
        ("joined", "a from p, with no partitions", ""),
        ("joined", "b from p, with no partitions", ""),
        ("left", "a, which had no partitions", "it unregistered"),
        ("left", "b, which had its partitions", "no heartbeat in time"),
    ]


@pytest.mark.anyio
async def test_what_people_changed_is_in_the_story_with_their_names() -> None:
    made = MasterService(MasterSettings(listen=Address("127.0.0.1", 0)))
    await made.start()
    try:
        with change_of(ChangeOrigin("ann", "10.0.0.7", "PATCH")):
            change = GroupChange(group="g", by=Audit("ann", 1000), qry_priority_id=203)
            await made.registry.groups.add([change])
            await made.registry.consumes.flip([ConsumeChange(group="g", topic="t", by=Audit("ann", 1000))])
        made.broker_room.stories.record_group("g", "joined", "m from p")
        story = await made.group_story("g")
        assert {(one.event, one.user) for one in story.entries} == {("joined", ""), ("changed", "ann")}
        assert any("qry_priority_id 203" in one.text for one in story.entries)
        assert (await made.group_story("other")).entries == []
        with pytest.raises(NotFoundError, match="there is no broker 9"):
            await made.broker_story(9)
    finally:
        await made.close()
