"""A record as a row: its fields as columns, one level deep, under the names they have in the record.

The invariant: `record_of(kind, row_of(record)) == record`. The columns here and those of the newest migration are
the same; the conformance suite holds them together.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import Enum
from typing import TYPE_CHECKING, Any

from pytubemq.model.durability import Durability
from pytubemq.model.ids import Address
from pytubemq.model.records import (
    AuditRecord,
    BrokerRecord,
    ClusterRecord,
    ConsumeRecord,
    DeployRecord,
    GroupRecord,
    ManageStatus,
    PermissionRecord,
    Stamp,
    TopicProps,
    TopicRecord,
    TopicStatus,
    UserRecord,
    UserTokenRecord,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.model.records import Record

_NESTED: dict[str, type[Any]] = {"address": Address, "props": TopicProps, "stamp": Stamp}
# By name, as numbers and truth values look alike in a row.
_BOOLEANS = frozenset(
    {
        "accept_publish",
        "accept_subscribe",
        "flow_ctrl_enable",
        "enable_auth_control",
        "consume_enable",
        "filter_enable",
        "res_check_enable",
        "user_enabled",
    }
)


@dataclass(frozen=True, slots=True)
class Table:
    """The table of the records of a kind. `key` names the columns of its key; none: there is one row with id 1."""

    name: str
    kind: type[Any]
    key: tuple[str, ...]
    since: int = 0
    """The layout with which the table came; 0 for those that were there before records had checksums."""

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns, in the order of `row_of`."""
        names: list[str] = []
        for field in fields(self.kind):
            nested = _NESTED.get(field.name)
            names.extend([field.name] if nested is None else [inner.name for inner in fields(nested)])
        return tuple(names)


TABLES = (
    Table("cluster", ClusterRecord, ()),
    Table("broker", BrokerRecord, ("broker_id",)),
    Table("topic", TopicRecord, ("topic",)),
    Table("deploy", DeployRecord, ("topic", "broker_id")),
    Table("consume", ConsumeRecord, ("group", "topic")),
    Table("consumer_group", GroupRecord, ("group",)),
    Table("account", UserRecord, ("user",), since=5),
    Table("permission", PermissionRecord, ("user", "operation", "resource_kind", "pattern"), since=5),
    Table("user_token", UserTokenRecord, ("user", "token_id"), since=6),
    Table("audit", AuditRecord, ("entry_id",), since=6),
)
TABLE_OF: dict[type[Any], Table] = {table.kind: table for table in TABLES}


def key_of(record: Record) -> tuple[Any, ...]:
    """Return the key of a record among those of its kind."""
    return tuple(getattr(record, name) for name in TABLE_OF[type(record)].key)


def row_of(record: Record) -> list[Any]:
    """The values of a record's columns."""
    values: list[Any] = []
    for field in fields(record):
        value = getattr(record, field.name)
        nested = _NESTED.get(field.name)
        values.extend([_plain(value)] if nested is None else [_plain(getattr(value, i.name)) for i in fields(nested)])
    return values


def record_of(kind: type[Any], row: Sequence[Any]) -> Any:
    """The record that a row has."""
    rest = list(row)
    values: dict[str, Any] = {}
    for field in fields(kind):
        nested = _NESTED.get(field.name)
        if nested is None:
            values[field.name] = _rich(field.name, rest.pop(0))
        else:
            values[field.name] = nested(*(_rich(inner.name, rest.pop(0)) for inner in fields(nested)))
    return kind(**values)


def _plain(value: Any) -> Any:
    if isinstance(value, frozenset):
        # In order, so that equal records have equal rows, and equal checksums.
        return ",".join(sorted(value))
    return value.value if isinstance(value, Enum) else value


def _rich(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name in _BOOLEANS:
        # SQLite has numbers for truth values.
        return bool(value)
    if name == "manage_status":
        return ManageStatus(value)
    if name == "topic_status":
        return TopicStatus(value)
    if name == "durability":
        return Durability(value)
    if name == "filter_conds":
        return frozenset(value.split(",")) if value else frozenset()
    return value
