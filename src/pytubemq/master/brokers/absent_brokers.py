"""Absent Brokers, and when the records of unused ones are deleted.

The invariant: a record that an operator made or changed, or on which a topic is placed, is never deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.model.limits import MAX_ABSENT_UNUSED_BROKERS, UNUSED_BROKER_S

if TYPE_CHECKING:
    from collections.abc import Container

    from pytubemq.master.catalogue.catalogue import Catalogue
    from pytubemq.model.records import BrokerRecord

AUTO_REGISTER_USER = "autoRegister"
"""The user name in the record of an auto-registered Broker."""
AUTO_REPORT_USER = "Broker AutoReport"
"""The user name on a status that was changed for a Broker's report; the original's name."""
RETRY_S = 30.0
"""Pause before a record that could not be deleted is tried again."""


def is_auto_registered(record: BrokerRecord) -> bool:
    """True if the record was made by the Broker itself."""
    return record.stamp.create_user in ("", AUTO_REGISTER_USER)


def is_brokers_own(record: BrokerRecord) -> bool:
    """True if the record is as its Broker reported it, and no operator has changed it."""
    return is_auto_registered(record) and record.stamp.modify_user in ("", AUTO_REGISTER_USER, AUTO_REPORT_USER)


def author_of_report(record: BrokerRecord, user: str) -> str:
    """Return who is to be the last author of a record that is changed for what its Broker reports.

    An operator who changed a Broker's own record stays it: otherwise the record would count as the Broker's again.
    """
    return user if is_brokers_own(record) or not is_auto_registered(record) else record.stamp.modify_user


def is_unused(catalogue: Catalogue, record: BrokerRecord) -> bool:
    """True if only the Broker itself made and changed the record, and no topic is placed there."""
    return is_brokers_own(record) and not catalogue.topics_on(record.broker_id)


class AbsentBrokers:
    """The times since when Brokers are not registered, as this Master has seen them."""

    def __init__(self, catalogue: Catalogue, present: Container[int]) -> None:
        self._catalogue = catalogue
        self._present = present
        self._since_s: dict[int, float] = {}

    def update(self, now_s: float) -> None:
        """Record which Brokers are away now."""
        self._since_s = {
            broker_id: self._since_s.get(broker_id, now_s)
            for broker_id in self._catalogue.brokers
            if broker_id not in self._present
        }

    def unused(self) -> list[BrokerRecord]:
        """Return the records of absent unused Brokers, those away longest first."""
        found = [self._catalogue.brokers[one] for one in self._since_s if one in self._catalogue.brokers]
        absent = [one for one in found if one.broker_id not in self._present and is_unused(self._catalogue, one)]
        return sorted(absent, key=lambda record: self._since_s[record.broker_id])

    def expired(self, now_s: float) -> frozenset[int]:
        """Return the unused Brokers whose records are to be deleted: away for too long, or too many.

        Each is returned again only after `RETRY_S`.
        """
        absent = self.unused()
        surplus = len(absent) - MAX_ABSENT_UNUSED_BROKERS
        gone = frozenset(
            record.broker_id
            for number, record in enumerate(absent)
            if number < surplus or self._since_s[record.broker_id] + UNUSED_BROKER_S <= now_s
        )
        self._since_s.update(dict.fromkeys(gone, now_s - UNUSED_BROKER_S + RETRY_S))
        return gone
