"""Which groups a change concerns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytubemq.master.groups.partitions.subscribers import Subscribers
from pytubemq.model.ids import Address
from pytubemq.model.records import (
    BrokerRecord,
    ClusterRecord,
    ConsumeRecord,
    DeployRecord,
    GroupRecord,
    TopicRecord,
    UserRecord,
)

if TYPE_CHECKING:
    from pytubemq.model.records import Record

TOPICS_ON = {1: ("a", "b"), 2: ("c",)}
BROKER = BrokerRecord(2, Address("127.0.0.1", 8123))


def made() -> Subscribers:
    subscribers = Subscribers()
    subscribers.add("reads a", {"a"})
    subscribers.add("reads both", {"a", "b"})
    subscribers.add("reads c", {"c"})
    return subscribers


@pytest.mark.parametrize(
    ("records", "groups"),
    [
        ([TopicRecord("a")], {"reads a", "reads both"}),
        ([DeployRecord("b", 1)], {"reads both"}),
        ([TopicRecord("new"), DeployRecord("new", 1)], set()),
        ([BROKER], {"reads c"}),
        ([ConsumeRecord("reads a", "a")], {"reads a"}),
        ([GroupRecord("reads c"), TopicRecord("b")], {"reads c", "reads both"}),
        ([UserRecord("alice")], set()),
        ([TopicRecord("a"), ClusterRecord()], None),
    ],
)
def test_a_change_concerns_the_groups_of_what_it_changes(records: list[Record], groups: set[str] | None) -> None:
    found = made().affected_by(records, lambda broker_id: TOPICS_ON[broker_id])
    assert (found if found is None else set(found)) == groups
    assert found is None or len(found) == len(set(found))


def test_a_group_that_is_gone_is_under_none_of_its_topics() -> None:
    subscribers = made()
    subscribers.remove("reads both", {"a", "b"})
    assert subscribers.of(("a", "b", "c")) == ["reads a", "reads c"]
