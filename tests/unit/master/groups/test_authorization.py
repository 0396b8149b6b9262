"""Who may consume what: the order of the checks, and each refusal."""

from __future__ import annotations

import pytest

from pytubemq.core.refusal import Refused
from pytubemq.errors import Code
from pytubemq.master.catalogue.catalogue import Catalogue
from pytubemq.master.groups.authorization import Authorization
from pytubemq.model.records import ConsumeRecord, TopicRecord
from pytubemq.net.clock import SystemClock

NO_FILTERS: dict[str, frozenset[str]] = {}


def made(*records: TopicRecord | ConsumeRecord) -> Authorization:
    catalogue = Catalogue(SystemClock())
    for record in records:
        if isinstance(record, TopicRecord):
            catalogue.topics[record.topic] = record
        else:
            catalogue.consumes[record.group, record.topic] = record
    return Authorization(catalogue)


CONTROLLED = TopicRecord("t", enable_auth_control=True)


def refused(found: Authorization, topics: set[str], **conditions: set[str]) -> tuple[Code, str]:
    with pytest.raises(Refused) as caught:
        found.check("g", frozenset(topics), {topic: frozenset(items) for topic, items in conditions.items()})
    return caught.value.refusal.code, caught.value.refusal.text


def test_without_control_everything_is_free() -> None:
    denied = ConsumeRecord("g", "t", consume_enable=False, filter_enable=True)
    made(TopicRecord("t"), denied).check("g", frozenset({"t", "unknown"}), NO_FILTERS)


def test_no_topic_and_a_filter_of_another_topic_are_bad_requests() -> None:
    assert refused(made(), set())[0] == Code.BAD_REQUEST
    assert refused(made(CONTROLLED), {"t"}, u={"a"})[0] == Code.BAD_REQUEST


@pytest.mark.parametrize("records", [(), (ConsumeRecord("g", "t", consume_enable=False),), (ConsumeRecord("h", "t"),)])
def test_a_controlled_topic_is_closed_to_a_group_that_is_not_let_in(records: tuple[ConsumeRecord, ...]) -> None:
    code, text = refused(made(CONTROLLED, *records), {"t", "free"})
    assert code == Code.CONSUME_GROUP_FORBIDDEN
    assert "consume t;" in text


def test_a_group_that_is_let_in_consumes_with_and_without_filters() -> None:
    found = made(CONTROLLED, ConsumeRecord("g", "t"))
    found.check("g", frozenset({"t"}), NO_FILTERS)
    found.check("g", frozenset({"t"}), {"t": frozenset({"any"})})


def test_a_filtered_group_gets_its_items_and_no_others() -> None:
    found = made(CONTROLLED, ConsumeRecord("g", "t", filter_enable=True, filter_conds=frozenset({"a", "b"})))
    found.check("g", frozenset({"t"}), {"t": frozenset({"a"})})
    assert refused(found, {"t"})[0] == Code.CONSUME_CONTENT_FORBIDDEN
    code, text = refused(found, {"t"}, t={"a", "x"})
    assert code == Code.CONSUME_CONTENT_FORBIDDEN
    assert "items x of t" in text


def test_a_filter_without_items_closes_the_topic() -> None:
    found = made(CONTROLLED, ConsumeRecord("g", "t", filter_enable=True))
    assert refused(found, {"t"}, t={"a"})[0] == Code.CONSUME_CONTENT_FORBIDDEN


def test_a_closed_topic_goes_before_a_filtered_one_and_many_names_are_few() -> None:
    topics = [TopicRecord(f"t{number:02}", enable_auth_control=True) for number in range(20)]
    filtered = ConsumeRecord("g", "t00", filter_enable=True)
    code, text = refused(made(*topics, filtered), {topic.topic for topic in topics})
    assert code == Code.CONSUME_GROUP_FORBIDDEN
    assert "t01" in text
    assert "t19" not in text
    assert "and 11 more" in text
