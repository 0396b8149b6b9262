"""The rules by which Brokers may register.

The invariants: a Broker that an operator has configured must come from where the record says; one that registered
automatically may come back at another address, but not while one of its id is at the old one and has topics of its own;
one that was deleted while it ran does not register automatically again.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from pytubemq.core.refusal import Refused
from pytubemq.errors import Code
from pytubemq.master.brokers.absent_brokers import (
    AUTO_REGISTER_USER,
    author_of_report,
    is_auto_registered,
    is_unused,
)
from pytubemq.master.brokers.limited_log import LimitedLog
from pytubemq.master.brokers.registration.claims import Claim, check_source, is_heard
from pytubemq.model.records import BrokerRecord, ManageStatus, Stamp

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from pytubemq.master.brokers.absent_brokers import AbsentBrokers
    from pytubemq.master.brokers.broker_run import BrokerRun
    from pytubemq.master.brokers.registration.claims import BrokerIdentity
    from pytubemq.master.catalogue.catalogue import Catalogue
    from pytubemq.master.settings import MasterSettings
    from pytubemq.net.clock import Clock

logger = logging.getLogger(__name__)


class BrokerAdmission:
    """The rules. `retired` are the ids that an operator deleted while their Brokers ran."""

    def __init__(
        self,
        catalogue: Catalogue,
        settings: MasterSettings,
        clock: Clock,
        runs: Mapping[int, BrokerRun],
        absent_brokers: AbsentBrokers,
    ) -> None:
        self.retired: set[int] = set()
        self._catalogue = catalogue
        self._settings = settings
        self._clock = clock
        self._runs = runs
        self._absent_brokers = absent_brokers
        self._claims: dict[int, Claim] = {}
        self._log = LimitedLog(logger, "Brokers that made room for others")
        self.on_made_room: Callable[[int], None] = lambda broker_id: None
        """Called with a Broker whose record was deleted to make room while it is registered."""

    async def admit(
        self, who: BrokerIdentity, topics: Collection[str], *, source: str | None
    ) -> tuple[BrokerRecord, bool]:
        """Return the record of a Broker that registers with these topics, and True if it replaces a live one.

        An unknown Broker gets a new record, unless the settings forbid it.

        `source` is the machine that it speaks from; None for the connection over which it is registered already.

        Raises:
            Refused: 400, it may not register.
        """
        broker_id = who.broker_id
        async with self._catalogue.lock:
            record = self._catalogue.brokers.get(broker_id)
            run = self._runs.get(broker_id)
            contested = source is not None and run is not None and is_heard(run, self._clock.now_s())
            if record is None:
                record = await self._enter(who, source)
            self._claims.setdefault(broker_id, Claim(record.address, self._clock.now_s(), None, frozenset()))
            if (record.address, record.tls_port) != (who.address, who.tls_port):
                record = await self._move(record, who, topics)
            elif contested and run is not None and source is not None:
                check_source(run, source)
            if record.manage_status is ManageStatus.DRAFT:
                raise Refused(Code.BAD_REQUEST, f"broker {broker_id} is a draft, set it online first")
            self._claim(record, topics)
        return record, contested

    def forget(self, broker_id: int) -> None:
        """Forget a Broker whose record was deleted."""
        self._claims.pop(broker_id, None)

    async def _enter(self, who: BrokerIdentity, source: str | None) -> BrokerRecord:
        broker_id, known = who.broker_id, len(self._catalogue.brokers)
        if not self._settings.auto_register_brokers:
            raise Refused(Code.BAD_REQUEST, f"broker {broker_id} is not configured at this Master, add it first")
        if broker_id in self.retired:
            raise Refused(
                Code.BAD_REQUEST,
                f"broker {broker_id} was deleted at this Master; stop it, or add it again before it registers",
            )
        makes_room = self._makes_room(source) if known >= self._settings.max_brokers else []
        if known - len(makes_room) >= self._settings.max_brokers:
            raise Refused(
                Code.BAD_REQUEST,
                f"broker {broker_id} is not known, and this Master has {known} Brokers; "
                f"{self._settings.max_brokers} are allowed",
            )
        now_ms = self._clock.wall_ms()
        stamp = Stamp(AUTO_REGISTER_USER, now_ms, AUTO_REGISTER_USER, now_ms)
        await self._catalogue.apply([BrokerRecord(broker_id, who.address, who.tls_port, stamp=stamp)], makes_room)
        for gone in makes_room:
            self.forget(gone.broker_id)
            if gone.broker_id in self._runs:
                self.on_made_room(gone.broker_id)
            self._log.info(
                self._clock.now_s(), "broker %d, which holds no topic, made room for %d", gone.broker_id, broker_id
            )
        return self._catalogue.brokers[broker_id]

    def _makes_room(self, source: str | None) -> list[BrokerRecord]:
        """Return the unused Broker that makes room for one from `source`: the one away longest, if there is one.

        Of connected ones the last that registered from the host with most, if that has clearly more than `source`.
        """
        if absent := self._absent_brokers.unused():
            return absent[:1]
        by_host: dict[str, list[BrokerRecord]] = {}
        for broker_id, run in self._runs.items():
            record = self._catalogue.brokers.get(broker_id)
            if record is not None and is_unused(self._catalogue, record):
                by_host.setdefault(run.source, []).append(record)
        crowd = max(by_host.values(), key=len, default=[])
        own = by_host.get(source or "", [])
        return crowd[-1:] if crowd is not own and len(crowd) > len(own) + 1 else []

    async def _move(self, record: BrokerRecord, who: BrokerIdentity, topics: Collection[str]) -> BrokerRecord:
        """Admit a Broker that comes from another address than its record has, or refuse it."""
        if not self._may_move(record, who, topics):
            raise Refused(
                Code.BAD_REQUEST,
                f"broker {record.broker_id} is known at {record.address} (TLS port {record.tls_port}), "
                f"not at {who.address} ({who.tls_port}); give this one another id, or change the record",
            )
        user = author_of_report(record, AUTO_REGISTER_USER)
        stamp = replace(record.stamp, modify_user=user, modify_ms=self._clock.wall_ms())
        await self._catalogue.apply([replace(record, address=who.address, tls_port=who.tls_port, stamp=stamp)])
        return self._catalogue.brokers[record.broker_id]

    def _may_move(self, record: BrokerRecord, who: BrokerIdentity, topics: Collection[str]) -> bool:
        if not is_auto_registered(record) or not self._settings.auto_register_brokers:
            return False
        run = self._runs.get(record.broker_id)
        if run is None or run.lost:
            return True
        claim = self._claims.get(record.broker_id)
        if claim is None or not claim.gives_way(run, who.address, topics, self._clock.now_s()):
            return False
        logger.warning(
            "broker %d is back at %s: the one at %s had none of its topics and was removed; messages that it "
            "stored since "
            "are in its data directory alone",
            record.broker_id,
            who.address,
            run.address,
        )
        return True

    def _claim(self, record: BrokerRecord, topics: Collection[str]) -> None:
        placed = frozenset(self._catalogue.topics_on(record.broker_id))
        before = self._claims[record.broker_id]
        self._claims[record.broker_id] = before.renewed(record.address, placed, topics, self._clock.now_s())
