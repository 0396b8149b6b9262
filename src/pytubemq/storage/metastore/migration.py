"""A copy of all records from one store into another one, which has none.

The invariants: the source is only read; the target has all of it or nothing; a copy counts as made once it was read
back and is equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytubemq.errors import AlreadyExistsError, CorruptError
from pytubemq.model.records import GroupRecord, Stamp
from pytubemq.storage.metastore.reading import all_records

if TYPE_CHECKING:
    from pytubemq.storage.metastore.port import Metadata, MetaStore

_MARK: Final = "(migration)"
"""A group that no client can have. Its record carries the largest serial id, and is deleted with the copy."""


@dataclass(frozen=True, slots=True)
class Contents:
    """The number of records of each kind in a store."""

    topics: int
    places: int
    brokers: int
    groups: int
    consume_rules: int
    users: int
    permissions: int
    tokens: int
    audit_entries: int
    records: int

    @classmethod
    def of(cls, metadata: Metadata) -> Contents:
        """Count the records."""
        return cls(
            topics=len(metadata.topics),
            places=len(metadata.deploys),
            brokers=len(metadata.brokers),
            groups=len(metadata.groups),
            consume_rules=len(metadata.consumes),
            users=len(metadata.users),
            permissions=len(metadata.permissions),
            tokens=len(metadata.user_tokens),
            audit_entries=len(metadata.audit),
            records=len(all_records(metadata)),
        )


def check_empty(target: Metadata, name: str) -> None:
    """Refuse a target that has records, but for what a copy that was cut short has left.

    Raises:
        AlreadyExistsError: it has some.
    """
    found = [record for record in all_records(target) if not (isinstance(record, GroupRecord) and _is_mark(record))]
    if found:
        raise AlreadyExistsError(
            f"{name} has {len(found)} records already",
            hint="give an empty database, or a directory without a file meta.db",
        )


def copy_records(source: Metadata, target: MetaStore, name: str) -> None:
    """Write all records of `source` into a store without any, read them back and compare.

    Raises:
        AlreadyExistsError: it has records.
        CorruptError: what was read back is not what was written.
        StorageError: it cannot be written; it has none of the records.
    """
    check_empty(target.load(), name)
    mark = GroupRecord(_MARK, stamp=Stamp(serial_id=source.last_serial_id))
    # Serial ids grow for ever, also where the record with the largest one was deleted.
    target.apply([mark], [])
    target.apply(all_records(source), [mark])
    if target.load() != source:
        raise CorruptError(
            f"the records in {name} are not those that were copied", hint="empty it, and copy them again"
        )


def _is_mark(record: GroupRecord) -> bool:
    return record.group == _MARK
