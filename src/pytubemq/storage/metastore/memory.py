"""A metadata store that lives as long as its process: for tests and clusters that leave nothing behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytubemq.model.records import (
    AuditRecord,
    BrokerRecord,
    ClusterRecord,
    ConsumeRecord,
    DeployRecord,
    GroupRecord,
    PermissionRecord,
    TopicRecord,
    UserRecord,
    UserTokenRecord,
)
from pytubemq.storage.metastore.port import Metadata
from pytubemq.storage.metastore.problems import dangling
from pytubemq.storage.metastore.tables import key_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.model.records import Record

_KINDS = (
    ClusterRecord,
    BrokerRecord,
    TopicRecord,
    DeployRecord,
    ConsumeRecord,
    GroupRecord,
    UserRecord,
    PermissionRecord,
    UserTokenRecord,
    AuditRecord,
)


class MemoryMetaStore:
    """`MetaStore` in dictionaries."""

    def __init__(self) -> None:
        self._records: dict[type[Record], dict[tuple[Any, ...], Record]] = {kind: {} for kind in _KINDS}
        self._last_serial_id = 0

    def load(self) -> Metadata:
        found = Metadata(
            brokers=self._all(BrokerRecord),
            topics=self._all(TopicRecord),
            deploys=self._all(DeployRecord),
            consumes=self._all(ConsumeRecord),
            groups=self._all(GroupRecord),
            users=self._all(UserRecord),
            permissions=self._all(PermissionRecord),
            user_tokens=self._all(UserTokenRecord),
            audit=self._all(AuditRecord),
            last_serial_id=self._last_serial_id,
        )
        for cluster in self._all(ClusterRecord):
            found.cluster = cluster
        return found

    def apply(self, puts: Sequence[Record], deletes: Sequence[Record]) -> None:
        # On copies: a change that is refused below leaves everything as it was.
        changed = {kind: dict(records) for kind, records in self._records.items()}
        for record in deletes:
            changed[type(record)].pop(key_of(record), None)
        for record in puts:
            changed[type(record)][key_of(record)] = record
        for topic, broker_id in changed[DeployRecord]:
            if (topic,) not in changed[TopicRecord] or (broker_id,) not in changed[BrokerRecord]:
                raise dangling(topic, broker_id)
        self._records = changed
        # Never less, also when the newest record is deleted: clients compare these numbers.
        self._last_serial_id = max([self._last_serial_id, *(record.stamp.serial_id for record in puts)])

    def close(self) -> None:
        pass

    def _all(self, kind: type[Any]) -> list[Any]:
        return [record for _, record in sorted(self._records[kind].items())]
