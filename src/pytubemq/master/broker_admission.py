"""Which Brokers may register, and as what.

The invariants: one that an operator has configured must come from where the record says; one that entered by itself
may come back at another address, but not while one of its id is at the old one; one that was deleted while it ran
does not enter by itself again.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from pytubemq.errors import Code
from pytubemq.master.answers import RefusalError
from pytubemq.model.ids import Address
from pytubemq.model.records import BrokerRecord, ManageStatus, Stamp

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytubemq.master.broker_run import BrokerRun
    from pytubemq.master.catalogue import Catalogue
    from pytubemq.master.settings import MasterSettings
    from pytubemq.net.clock import Clock

AUTO_REGISTER_USER = "autoRegister"
"""Who made the record of a Broker that entered by itself."""
_CLIENT_ID = re.compile(r"(\d{1,10}):(\[[^\]]+\]|[^:]+):(\d{1,5})(?::(.*))?", re.ASCII)


class BrokerAdmission:
    """The rules. `retired` are the ids that an operator deleted while their Brokers ran."""

    def __init__(
        self, catalogue: Catalogue, settings: MasterSettings, clock: Clock, runs: Mapping[int, BrokerRun]
    ) -> None:
        self.retired: set[int] = set()
        self._catalogue = catalogue
        self._settings = settings
        self._clock = clock
        self._runs = runs

    async def admit(self, client_id: str, tls_port: int | None) -> tuple[BrokerRecord, str]:
        """The record of a Broker and its version; a Broker nobody knows is entered, unless the settings forbid it.

        Raises:
            RefusalError: 400, it may not register.
        """
        parts = _CLIENT_ID.fullmatch(client_id)
        if parts is None:
            raise RefusalError(
                Code.BAD_REQUEST, f"clientId {client_id!r} of a Broker must be brokerId:host:port[:version]"
            )
        broker_id = int(parts[1])
        address = Address(parts[2].removeprefix("[").removesuffix("]"), int(parts[3]))
        if tls_port is None:
            tls_port = self._catalogue.cluster.broker_tls_port
        async with self._catalogue.lock:
            record = self._catalogue.brokers.get(broker_id)
            if record is None:
                record = await self._enter(broker_id, address, tls_port)
            elif (record.address, record.tls_port) != (address, tls_port):
                record = await self._move(record, address, tls_port)
        if record.manage_status is ManageStatus.DRAFT:
            raise RefusalError(Code.BAD_REQUEST, f"broker {broker_id} is a draft, set it online first")
        return record, parts[4] or ""

    async def _enter(self, broker_id: int, address: Address, tls_port: int) -> BrokerRecord:
        known = len(self._catalogue.brokers)
        if not self._settings.auto_register_brokers:
            raise RefusalError(Code.BAD_REQUEST, f"broker {broker_id} is not configured at this Master, add it first")
        if broker_id in self.retired:
            raise RefusalError(
                Code.BAD_REQUEST,
                f"broker {broker_id} was deleted at this Master; stop it, or add it again before it registers",
            )
        if known >= self._settings.max_brokers:
            raise RefusalError(
                Code.BAD_REQUEST,
                f"broker {broker_id} is not known, and this Master has {known} Brokers; "
                f"{self._settings.max_brokers} are allowed",
            )
        now_ms = self._clock.wall_ms()
        stamp = Stamp(AUTO_REGISTER_USER, now_ms, AUTO_REGISTER_USER, now_ms)
        await self._catalogue.apply([BrokerRecord(broker_id, address, tls_port, stamp=stamp)])
        return self._catalogue.brokers[broker_id]

    async def _move(self, record: BrokerRecord, address: Address, tls_port: int) -> BrokerRecord:
        """A Broker comes from elsewhere than its record says."""
        run = self._runs.get(record.broker_id)
        by_itself = record.stamp.create_user in ("", AUTO_REGISTER_USER)
        if not by_itself or not self._settings.auto_register_brokers or (run is not None and not run.lost):
            raise RefusalError(
                Code.BAD_REQUEST,
                f"broker {record.broker_id} is known at {record.address} (TLS port {record.tls_port}), "
                f"not at {address} ({tls_port}); give this one another id, or change the record",
            )
        stamp = replace(record.stamp, modify_user=AUTO_REGISTER_USER, modify_ms=self._clock.wall_ms())
        await self._catalogue.apply([replace(record, address=address, tls_port=tls_port, stamp=stamp)])
        return self._catalogue.brokers[record.broker_id]
