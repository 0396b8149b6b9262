"""What the tests of the client among real Brokers share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytubemq.master.service import MasterService, MasterSettings
from tests.scenario.client.town import LOOPBACK, Town

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def town(tmp_path: Path) -> AsyncIterator[Town]:
    master = MasterService(MasterSettings(listen=LOOPBACK))
    await master.start()
    made = Town(master, tmp_path)
    try:
        yield made
    finally:
        for broker_id in list(made.brokers):
            await made.stop(broker_id)
        await master.close()
