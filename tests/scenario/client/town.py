"""A Master and Brokers that start and stop one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.broker.service import BrokerService, BrokerSettings
from pytubemq.model.ids import Address
from pytubemq.model.limits import MAX_POSITIONS
from pytubemq.storage.store_settings import StoreSettings
from tests.support.waiting import until_answer

if TYPE_CHECKING:
    from pathlib import Path

    from pytubemq.master.service import MasterService
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
        await until_answer(
            self.master.brokers,
            lambda found: online is any(one.id == broker_id and one.state == "online" for one in found),
        )

    async def stop(self, broker_id: int) -> None:
        """End a Broker."""
        await self.brokers.pop(broker_id).close()
