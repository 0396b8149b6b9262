"""What a Broker's regular checks log."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from pytubemq.broker.upkeep.periodic_checks import PeriodicChecks
from pytubemq.storage.store_settings import StoreSettings
from pytubemq.testing.disk import FaultyDisk
from tests.unit.storage.helpers import ROOT, open_store

if TYPE_CHECKING:
    import pytest


def test_a_shortage_of_space_is_logged_in_one_line_with_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    disk = FaultyDisk(capacity_bytes=1 << 20)
    state: Any = SimpleNamespace(store=open_store(disk, StoreSettings(reserve_bytes=1 << 21)))
    asyncio.run(PeriodicChecks(state, disk, ROOT, reserve_bytes=1 << 21).look_at_space())
    [record] = caplog.records
    assert "\n" not in record.getMessage()
    assert "free some space" in record.getMessage()


def test_what_makes_room_in_a_flood_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    now_s = [0.0]
    registry = SimpleNamespace(made_room=0, problem="registrations are full")
    positions = SimpleNamespace(made_room=0, most=10, spare=SimpleNamespace(problem=None))
    state: Any = SimpleNamespace(registry=registry, positions=positions, clock=SimpleNamespace(now_s=lambda: now_s[0]))
    sweep = PeriodicChecks(state, FaultyDisk(), ROOT, reserve_bytes=0)
    for _ in range(70):
        registry.made_room += 1
        positions.made_room += 2
        sweep.log_room()
        now_s[0] += 1.0
    said = [record.getMessage() for record in caplog.records]
    assert [text.split(":")[0] for text in said] == [
        "1 registrations made room for others",
        "removed 2 group positions that no consumer has used, to make room",
        "60 registrations made room for others",
        "removed 120 group positions that no consumer has used, to make room",
    ]
