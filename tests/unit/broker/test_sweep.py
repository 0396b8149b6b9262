"""What a Broker's regular checks log."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from pytubemq.broker.sweep import Sweep
from pytubemq.storage.store import StoreSettings
from pytubemq.testing.disk import FaultyDisk
from tests.unit.storage.helpers import ROOT, open_store

if TYPE_CHECKING:
    import pytest


def test_a_shortage_of_space_is_logged_in_one_line_with_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    disk = FaultyDisk(capacity_bytes=1 << 20)
    state: Any = SimpleNamespace(store=open_store(disk, StoreSettings(reserve_bytes=1 << 21)))
    asyncio.run(Sweep(state, disk, ROOT, reserve_bytes=1 << 21).look_at_space())
    [record] = caplog.records
    assert "\n" not in record.getMessage()
    assert "free some space" in record.getMessage()
