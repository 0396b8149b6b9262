"""Rows of a store as records: each checked against its checksum, all of them together as `Metadata`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

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
    from pytubemq.storage.metastore.checks import Totals
    from pytubemq.storage.metastore.tables import Table


_NAMED: Final = 5
"""Damaged records that an error names; it counts the others."""


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


def note_missing(damaged: list[str], counted: Totals, totals: Totals) -> None:
    """Add to the list of damage that records are missing or are others, unless it names damaged records already."""
    # Each record is sound, and yet their number or sum is not: one is missing, or an old one is back.
    if (totals.records, totals.total) != (counted.records, counted.total) and not damaged:
        damaged.append(f"{counted.records} records where {totals.records} should be")


def damage_text(damaged: Sequence[str]) -> str:
    """Return the list of damage for a text; of much of it the first."""
    more = f" and {len(damaged) - _NAMED} more" if len(damaged) > _NAMED else ""
    return f"{'; '.join(damaged[:_NAMED])}{more}"


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
