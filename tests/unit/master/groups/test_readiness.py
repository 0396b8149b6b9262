"""How many consumers a group must have."""

from __future__ import annotations

import pytest

from pytubemq.core.balance.consistency import GroupKind, Terms
from pytubemq.master.groups.readiness import members_for_rate, needed_members, one_of_each
from pytubemq.model.ids import Partition
from pytubemq.model.records import GroupRecord


@pytest.mark.parametrize("rate", range(1, 6))
@pytest.mark.parametrize("brokers", [1, 2, 5, 9])
def test_it_is_the_smallest_number_that_the_original_lets_pass(brokers: int, rate: int) -> None:
    available = [Partition(broker, "demo", number) for broker in range(brokers) for number in range(3)]
    record = GroupRecord("g", alwd_broker_client_rate=rate)
    needs = members_for_rate([*available, Partition(0, "small", 0)], record)
    assert brokers // needs <= rate
    assert needs == 1 or brokers // (needs - 1) > rate
    parts = [frozenset(p for p in available if p.broker_id == broker) for broker in range(brokers)]
    assert members_for_rate(one_of_each([*parts, frozenset()]), record) == needs


def test_without_a_record_a_thousand_brokers_are_allowed() -> None:
    available = [Partition(broker, "demo", 0) for broker in range(1001)]
    assert members_for_rate(available[:1000], None) == 1
    assert members_for_rate(available, None) == 2
    assert members_for_rate([], GroupRecord("g", alwd_broker_client_rate=1)) == 1


def test_a_bound_group_also_needs_as_many_as_it_counts() -> None:
    topics = frozenset({"demo"})
    assert needed_members(Terms(topics, kind=GroupKind.BOUND, total_count=3), [], None) == 3
    assert needed_members(Terms(topics), [], None) == 1
