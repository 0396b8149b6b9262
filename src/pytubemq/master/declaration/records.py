"""A copy of the records that a declaration is about, so that they can be compared and merged on a thread."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from pytubemq.model.records import TopicStatus
from pytubemq.model.topic import HISTORY_TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.master.catalogue.catalogue import Catalogue
    from pytubemq.model.records import (
        BrokerRecord,
        ClusterRecord,
        ConsumeRecord,
        DeployRecord,
        GroupRecord,
        PermissionRecord,
        TopicRecord,
        UserRecord,
    )

    Kept: TypeAlias = (
        BrokerRecord
        | ClusterRecord
        | ConsumeRecord
        | DeployRecord
        | GroupRecord
        | PermissionRecord
        | TopicRecord
        | UserRecord
    )
Words: TypeAlias = tuple[str, str, str]
"""The operation, the kind and the pattern of a permission."""


@dataclass(slots=True)
class Records:
    """Records by key. `places` has the deployments in use, by topic and Broker; `leaving` the others."""

    cluster: ClusterRecord
    brokers: dict[int, BrokerRecord]
    topics: dict[str, TopicRecord]
    places: dict[tuple[str, int], DeployRecord]
    leaving: dict[tuple[str, int], DeployRecord]
    consumes: dict[tuple[str, str], ConsumeRecord]
    groups: dict[str, GroupRecord]
    users: dict[str, UserRecord]
    permissions: dict[tuple[str, Words], PermissionRecord]

    @classmethod
    def of(cls, catalogue: Catalogue) -> Records:
        """Copy a catalogue's records. The system's own topic is not among them."""
        deploys = [(key, one) for key, one in catalogue.deploys.items() if key[0] != HISTORY_TOPIC]
        return cls(
            catalogue.cluster,
            dict(catalogue.brokers),
            {name: one for name, one in catalogue.topics.items() if name != HISTORY_TOPIC},
            {key: one for key, one in deploys if one.topic_status is TopicStatus.NORMAL},
            {key: one for key, one in deploys if one.topic_status is not TopicStatus.NORMAL},
            dict(catalogue.consumes),
            dict(catalogue.groups),
            dict(catalogue.users),
            {(user, words): one for user, of in catalogue.permissions.items() for words, one in of.items()},
        )

    def copy(self) -> Records:
        """Return a copy that can be changed."""
        return replace(
            self,
            brokers=dict(self.brokers),
            topics=dict(self.topics),
            places=dict(self.places),
            leaving=dict(self.leaving),
            consumes=dict(self.consumes),
            groups=dict(self.groups),
            users=dict(self.users),
            permissions=dict(self.permissions),
        )

    def flat(self) -> Iterator[tuple[tuple[object, ...], Kept]]:
        """Yield all records but those of `leaving`, with keys that are unique among all kinds.

        Each comes after those that it needs: Brokers and topics before deployments, users before permissions.
        """
        yield ("cluster",), self.cluster
        for kind, records in (
            ("broker", self.brokers),
            ("topic", self.topics),
            ("place", self.places),
            ("group", self.groups),
            ("consume", self.consumes),
            ("user", self.users),
            ("permission", self.permissions),
        ):
            for key, record in records.items():
                yield (kind, key), record
