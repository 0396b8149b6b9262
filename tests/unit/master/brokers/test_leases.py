"""What Brokers say of their readers is taken once, and forgotten in time."""

from __future__ import annotations

import asyncio

from pytubemq.master.brokers.leases import Leases, read_leases
from pytubemq.model.ids import Partition

SAID = asyncio.run(read_leases(("c@g#1:h:8123#demo:0", "d@g#1:h:8123#demo:1", "c@other#1:h:8123#demo:0")))


def test_a_group_is_told_once() -> None:
    leases = Leases()
    leases.record(SAID, until_s=15)
    assert leases.take("g") == ({Partition(1, "demo", 0): "c", Partition(1, "demo", 1): "d"}, 15)
    assert leases.take("g")[0] == {}
    assert leases.take("other")[0] == {Partition(1, "demo", 0): "c"}


def test_it_is_forgotten_when_it_does_not_count_any_more() -> None:
    leases = Leases()
    leases.record(SAID, until_s=15)
    leases.expire(14.9)
    assert leases.take("g")[0]
    leases.expire(15)
    assert leases.take("other")[0] == {}


def test_what_is_no_subscription_takes_nothing_from_the_others() -> None:
    said = asyncio.run(read_leases(["nonsense", "c@a@b#c#1:h:8123#demo:0", "c@g#1:h:8123#demo:0"]))
    assert [info.consumer_id for info in said] == ["c"]
