"""The declaration of records: names in order, and of each only what its record sets.

The invariant: `merge` of the result with no records gives records with the same declaration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from pytubemq.master.declaration.declaration import (
    FORMAT,
    Declaration,
    DeclaredBroker,
    DeclaredCluster,
    DeclaredConsumption,
    DeclaredGroup,
    DeclaredTopic,
    DeclaredUser,
    TopicSettings,
)
from pytubemq.master.declaration.keys import BROKER, CLUSTER, CONSUMPTION, GROUP, SETTINGS, TOPIC, shown
from pytubemq.model.records import BUILT_IN_PROPS, GroupRecord

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytubemq.master.declaration.records import Records
    from pytubemq.model.records import ConsumeRecord, DeployRecord, TopicRecord


def declare(records: Records) -> Declaration:
    """Return the declaration of records."""
    return Declaration(
        format=FORMAT,
        cluster=_cluster(records),
        brokers={str(number): _broker(records, number) for number in sorted(records.brokers)},
        topics=_topics(records),
        groups=_groups(records),
        users=_users(records),
    )


def _cluster(records: Records) -> DeclaredCluster:
    cluster = records.cluster
    return DeclaredCluster(**shown(cluster.props.over(BUILT_IN_PROPS), SETTINGS), **shown(cluster, CLUSTER))


def _broker(records: Records, broker_id: int) -> DeclaredBroker:
    record = records.brokers[broker_id]
    return DeclaredBroker(address=str(record.address), **shown(record, BROKER), **shown(record.props, SETTINGS))


def _topics(records: Records) -> dict[str, DeclaredTopic]:
    places: dict[str, list[DeployRecord]] = {name: [] for name in records.topics}
    for _, place in sorted(records.places.items()):
        places[place.topic].append(place)
    leaving = {topic for topic, _ in records.leaving} - {topic for _, topic in records.consumes}
    return {
        name: _topic(records.topics[name], on)
        for name, on in sorted(places.items())
        if on or name not in leaving  # one that is being removed is left out
    }


def _topic(record: TopicRecord, places: Iterable[DeployRecord]) -> DeclaredTopic:
    settings = {place.broker_id: shown(place.props, SETTINGS) for place in places}
    common = _common(settings.values())
    differing = {
        str(broker_id): TopicSettings(**{key: value for key, value in own.items() if key not in common})
        for broker_id, own in settings.items()
        if len(own) > len(common)
    }
    fields = shown(record, TOPIC)
    if record.topic_name_id <= 0:
        del fields["topic_name_id"]
    return DeclaredTopic(brokers=list(settings), **fields, **common, on=differing or UNSET)


def _common(settings: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the settings that are the same on all Brokers."""
    first, *others = [*settings] or [{}]
    return {key: value for key, value in first.items() if all(other.get(key) == value for other in others)}


def _groups(records: Records) -> dict[str, DeclaredGroup]:
    rules: dict[str, dict[str, ConsumeRecord]] = {}
    for (group, topic), rule in sorted(records.consumes.items()):
        rules.setdefault(group, {})[topic] = rule
    found = {}
    for name in sorted({*records.groups, *rules}):
        of = {topic: DeclaredConsumption(**shown(rule, CONSUMPTION)) for topic, rule in rules.get(name, {}).items()}
        record = records.groups.get(name) or GroupRecord(name)
        found[name] = DeclaredGroup(**shown(record, GROUP), topics=of or UNSET)
    return found


def _users(records: Records) -> dict[str, DeclaredUser]:
    granted: dict[str, list[str]] = {name: [] for name in records.users}
    for user, words in sorted(records.permissions):
        if user in granted:
            granted[user].append(" ".join(words))
    return {
        name: DeclaredUser(enabled=records.users[name].user_enabled, permissions=permissions)
        for name, permissions in sorted(granted.items())
    }
