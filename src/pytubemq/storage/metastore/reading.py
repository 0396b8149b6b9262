"""Rows of a store as records: each checked against its checksum, all of them together as `Metadata`."""

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
from pytubemq.storage.metastore.checks import check_of_row
from pytubemq.storage.metastore.port import Metadata
from pytubemq.storage.metastore.tables import record_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytubemq.model.records import Record
    from pytubemq.storage.metastore.tables import Table


def sound_record(table: Table, row: Sequence[Any], check: object) -> Any:
    """Return the record; None if its checksum fails."""
    if check != check_of_row(table.name, row):
        return None
    try:
        return record_of(table.kind, row)
    except (ValueError, TypeError):  # a value that only a later version knows
        return None


def name_of(table: Table, row: Sequence[Any]) -> str:
    """Return the name of the record in a row, for texts about damage."""
    key = [str(row[table.columns.index(column)])[:80] for column in table.key]
    return f"the record of {table.name.replace('_', ' ')} {', '.join(key)}".rstrip()


def metadata_of(records: Mapping[type[Any], list[Any]], last_serial_id: int) -> Metadata:
    """Return the records of all kinds, each in the order given."""
    found = Metadata(
        brokers=records[BrokerRecord],
        topics=records[TopicRecord],
        deploys=records[DeployRecord],
        consumes=records[ConsumeRecord],
        groups=records[GroupRecord],
        users=records[UserRecord],
        permissions=records[PermissionRecord],
        user_tokens=records[UserTokenRecord],
        audit=records[AuditRecord],
        last_serial_id=last_serial_id,
    )
    for cluster in records[ClusterRecord]:
        found.cluster = cluster
    return found


def all_records(metadata: Metadata) -> list[Record]:
    """Return the records of all kinds; a cluster's with nothing but defaults is none."""
    return [
        *([] if metadata.cluster == ClusterRecord() else [metadata.cluster]),
        *metadata.brokers,
        *metadata.topics,
        *metadata.deploys,
        *metadata.consumes,
        *metadata.groups,
        *metadata.users,
        *metadata.permissions,
        *metadata.user_tokens,
        *metadata.audit,
    ]
