"""Records loaded from the store, without those from older versions that cannot be used.

The invariant: a record that no peer can read is logged, stays in the store and is sent to nobody. The topics placed on
such a Broker count again once a Broker of its id can be used.
"""

from __future__ import annotations

import logging
from itertools import chain
from typing import TYPE_CHECKING

from pytubemq.errors import FormatError
from pytubemq.model.ids import BrokerInfo
from pytubemq.model.names import check_broker_host, check_port, check_served_topic, escaped, is_plain, unplain
from pytubemq.model.records import (
    AuditRecord,
    BrokerRecord,
    ConsumeRecord,
    DeployRecord,
    GroupRecord,
    PermissionRecord,
    Record,
    TopicRecord,
    UserRecord,
    UserTokenRecord,
)
from pytubemq.security.permissions import parse_permission

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytubemq.storage.metastore.port import Metadata

logger = logging.getLogger(__name__)


def sound_records(found: Metadata) -> tuple[list[Record], dict[int, list[DeployRecord]]]:
    """Return the usable records, and the topics placed on Brokers whose records are not usable."""
    kinds: Iterable[Iterable[Record]] = (
        found.brokers,
        found.topics,
        found.deploys,
        found.consumes,
        found.groups,
        found.users,
        found.permissions,
        found.user_tokens,
        found.audit,
    )
    sound: list[Record] = []
    aside: dict[int, list[DeployRecord]] = {}
    for record in chain.from_iterable(kinds):
        if isinstance(record, DeployRecord) and record.broker_id in aside:
            aside[record.broker_id].append(record)
            continue
        try:
            _check(record)
        except FormatError as error:
            logger.warning("the record of %s cannot be used and is ignored: %s", _name(record), error.message)
            if isinstance(record, BrokerRecord):
                aside[record.broker_id] = []
            continue
        sound.append(record)
    return sound, aside


def _check(record: Record) -> None:
    match record:
        case BrokerRecord():
            BrokerInfo(record.broker_id, record.address).check()
            check_broker_host(record.address.host)
            check_port(record.tls_port, what="TLS port")
        case DeployRecord() | TopicRecord():
            check_served_topic(record.topic)
        case ConsumeRecord() | GroupRecord() if not is_plain(record.group):
            raise FormatError(unplain(record.group, "the group"))
        case PermissionRecord():
            parse_permission(record.operation, record.resource_kind, record.pattern)


def _name(record: Record) -> str:
    match record:
        case BrokerRecord():
            return escaped(f"broker {record.broker_id} at {record.address}")
        case DeployRecord():
            return escaped(f"topic {record.topic} on broker {record.broker_id}")
        case TopicRecord():
            return escaped(f"topic {record.topic}")
        case ConsumeRecord() | GroupRecord():
            return escaped(f"group {record.group}")
        case UserRecord() | PermissionRecord() | UserTokenRecord():
            return escaped(f"user {record.user}")
        case AuditRecord():
            return f"audit entry {record.entry_id}"
    return "the cluster"
