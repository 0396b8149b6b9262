"""A Master and Brokers that start and stop one by one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from pytubemq.broker.service import BrokerService, BrokerSettings
from pytubemq.master.service import MasterService, MasterSettings
from pytubemq.model.ids import Address
from pytubemq.model.limits import MAX_POSITIONS
from pytubemq.storage.store.store import StoreSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pytubemq.testing.disk import FaultyDisk

LOOPBACK = Address("127.0.0.1", 0)
TOPIC = "demo"


class Town:
    """A Master, and Brokers that come and go, each time on another port."""

    def __init__(self, master: MasterService, root: Path) -> None:
        self.master = master
        self.root = root
        self.brokers: dict[int, BrokerService] = {}

    @property
    def address(self) -> str:
        """The Master's."""
        return str(self.master.address)

    async def start(
        self, broker_id: int, *, disk: FaultyDisk | None = None, max_positions: int = MAX_POSITIONS
    ) -> BrokerService:
        """A Broker on its directory."""
        settings = BrokerSettings(
            broker_id=broker_id,
            listen=LOOPBACK,
            masters=(self.master.address,),
            data_dir=self.root / f"{broker_id}",
            store=StoreSettings(reserve_bytes=0),
            max_positions=max_positions,
        )
        broker = self.brokers[broker_id] = BrokerService(settings, disk=disk)
        await broker.start()
        await self.until(broker_id, online=True)
        return broker

    async def until(self, broker_id: int, *, online: bool) -> None:
        """Wait until the Master sees a Broker so."""
        async with asyncio.timeout(30):
            while online is not any(  # noqa: ASYNC110 - the Master has no event for this
                one.id == broker_id and one.state == "online" for one in await self.master.brokers()
            ):
                await asyncio.sleep(0.02)

    async def stop(self, broker_id: int) -> None:
        """End a Broker."""
        await self.brokers.pop(broker_id).close()


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
