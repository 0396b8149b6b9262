"""What a Broker tells of its readers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytubemq.broker import leases
from pytubemq.broker.leases import told_leases
from pytubemq.broker.registry import ConsumerRegistry, HoldKey
from pytubemq.model.ids import Address, BrokerInfo

if TYPE_CHECKING:
    import pytest

BROKER = BrokerInfo(1, Address("127.0.0.9", 8123))
NO_CURSOR: Any = None


def registry(*partitions: int) -> ConsumerRegistry:
    made = ConsumerRegistry(lease_timeout_s=30)
    for number in partitions:
        made.put(HoldKey("g", "demo", number), "c", NO_CURSOR, codes=None, connection=None, now_s=100)
    return made


def test_who_reads_is_told_as_a_subscription() -> None:
    held = registry(0).holds()
    assert told_leases(held, BROKER, now_s=129) == ("c@g#1:127.0.0.9:8123#demo:0",)
    assert told_leases(held, BROKER, now_s=130) == (), "it has run out"


def test_no_more_are_told_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "MAX_TOLD_LEASES", 2)
    assert len(told_leases(registry(0, 1, 2).holds(), BROKER, now_s=100)) == 2
