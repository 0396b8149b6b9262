"""The contract of a metadata store.

The invariants: a write is whole or not at all, and durable when the call returns; what `load` gives is what was put
and not deleted since. The store keeps records as they are: serial ids and stamps are its caller's.

Calls block and may be made from one thread at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from pytubemq.model.records import ClusterRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

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


@dataclass(slots=True)
class Metadata:
    """All that is kept. `last_serial_id` is the largest serial id that was ever put, 0 if none was."""

    cluster: ClusterRecord = field(default_factory=ClusterRecord)
    brokers: list[BrokerRecord] = field(default_factory=list)
    topics: list[TopicRecord] = field(default_factory=list)
    deploys: list[DeployRecord] = field(default_factory=list)
    consumes: list[ConsumeRecord] = field(default_factory=list)
    groups: list[GroupRecord] = field(default_factory=list)
    users: list[UserRecord] = field(default_factory=list)
    permissions: list[PermissionRecord] = field(default_factory=list)
    user_tokens: list[UserTokenRecord] = field(default_factory=list)
    audit: list[AuditRecord] = field(default_factory=list)
    last_serial_id: int = 0


class MetaStore(Protocol):
    """Blocking storage of metadata."""

    def load(self) -> Metadata:
        """All records, each kind in the order of its key."""
        ...

    def apply(self, puts: Sequence[Record], deletes: Sequence[Record]) -> None:
        """Add or replace some records and delete others, in one transaction; deleting what is not there is no error.

        Raises:
            NotFoundError: afterwards a topic would be deployed on a Broker, or be a topic, that is not known.
        """
        ...

    def close(self) -> None:
        """Release the store; idempotent."""
        ...
