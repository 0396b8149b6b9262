"""A Broker's configuration on its way down, and what it reports on its way up.

The invariants: a Broker is in sync when the pair (confId, checksum) it reports is the pair it was given, so it gets
the strings until then and only the pair after; what a Broker carries is what it has reported, never what it was told.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any
from zlib import crc32

from pytubemq.errors import FormatError
from pytubemq.model.ids import UNDEFINED
from pytubemq.model.limits import DEFAULT_MAX_MESSAGE_BYTES, MAX_STRAY_PARTITIONS, REPORT_SLICE
from pytubemq.model.names import is_served_topic
from pytubemq.model.policy import original_form
from pytubemq.model.topic import TopicConfig
from pytubemq.wire.confstrings import (
    BrokerDefaultConf,
    BrokerTopicConf,
    check_layout,
    format_broker_default_conf,
    format_broker_topic_conf,
    format_topic_value,
    parse_broker_default_conf,
    parse_broker_topic_conf,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence

    from pytubemq.master.catalogue import Catalogue
    from pytubemq.model.records import DeployRecord, TopicProps, TopicStatus

DEFAULTS = BrokerDefaultConf(partitions=1)
"""The original's built-in defaults for a Broker."""

PROPS = {
    "partitions": "num_partitions",
    "accept_publish": "accept_publish",
    "accept_subscribe": "accept_subscribe",
    "unflush_threshold": "unflush_threshold",
    "unflush_interval_ms": "unflush_interval",
    "delete_policy": "delete_policy",
    "stores": "num_topic_stores",
    "unflush_data_hold": "unflush_data_hold",
    "mem_cache_mib": "mem_cache_msg_size_in_mb",
    "mem_cache_count_k": "mem_cache_msg_cnt_in_k",
    "mem_cache_flush_ms": "mem_cache_flush_intvl",
}
"""The fields of the configuration strings, and the properties they tell."""


@dataclass(frozen=True, slots=True)
class SyncId:
    """A version of a Broker's configuration; the Broker only echoes it."""

    conf_id: int = UNDEFINED
    checksum: int = UNDEFINED


@dataclass(frozen=True, slots=True)
class TopicStrings:
    """A topic's part of a Broker's configuration, and the values from which it was built."""

    props: TopicProps
    status: TopicStatus
    max_message_bytes: int
    text: str
    durability: str | None
    retention: str | None


@dataclass(frozen=True, slots=True)
class BrokerConf:
    """What a Broker must carry, and what it must remove, in the strings that tell it."""

    sync_id: SyncId
    defaults: str
    topics: tuple[str, ...]
    removed: tuple[str, ...] = ()
    """Not part of what is in sync: every heartbeat tells it, until the Broker says that it is done."""
    durability: tuple[str, ...] = ()
    """Beside the strings, which have no room for it; topics that leave it to the Broker's own setting are not there."""
    retention: tuple[str, ...] = ()
    """The policies that the original's form cannot say; a Broker of the original goes by the ages in the strings."""
    base: tuple[TopicProps, int] | None = field(default=None, compare=False, repr=False)
    """The Broker's properties and the largest message, on which every topic's strings depend."""
    made_of: Mapping[str, TopicStrings] = field(default_factory=dict, compare=False, repr=False)
    """Strings by topic, so that the next configuration rebuilds only those that changed."""


def broker_conf(catalogue: Catalogue, broker_id: int, before: BrokerConf | None, *, first_id: int) -> BrokerConf:
    """The configuration of a Broker as the records say now; `before` itself if they say the same as it does.

    `first_id` is the confId when there was none before; each change has the next one.
    """
    base = catalogue.broker_props(broker_id)
    limit = catalogue.cluster.max_message_bytes
    known = before.made_of if before is not None and before.base == (base, limit) else {}
    made_of: dict[str, TopicStrings] = {}
    for deploy in catalogue.deployed_on(broker_id):
        size, strings = catalogue.max_message_bytes(deploy.topic), known.get(deploy.topic)
        if strings is None or (strings.props, strings.status, strings.max_message_bytes) != (
            deploy.props,
            deploy.topic_status,
            size,
        ):
            strings = _strings_of(deploy, base, size, limit)
        made_of[deploy.topic] = strings
    carried = [strings for strings in made_of.values() if not strings.status.removed]
    kept = tuple(strings.text for strings in carried)
    removed = tuple(strings.text for strings in made_of.values() if strings.status.removed)
    durability = tuple(strings.durability for strings in carried if strings.durability is not None)
    retention = tuple(strings.retention for strings in carried if strings.retention is not None)
    defaults = format_broker_default_conf(_default_conf(base))
    said = (defaults, *sorted(kept), *sorted(durability), *sorted(retention))
    checksum = crc32("".join(said).encode()) & 0x7FFFFFFF
    made = BrokerConf(
        SyncId(first_id, checksum), defaults, kept, removed, durability, retention, (base, limit), made_of
    )
    if before is None:
        return made
    same = replace(made, sync_id=before.sync_id, removed=before.removed) == before
    made = replace(made, sync_id=before.sync_id if same else SyncId(before.sync_id.conf_id + 1, checksum))
    return before if made == before else made


def _strings_of(deploy: DeployRecord, base: TopicProps, size: int, limit: int) -> TopicStrings:
    props = deploy.props.over(base)
    beyond_original = props.delete_policy and original_form(props.delete_policy) != props.delete_policy
    return TopicStrings(
        deploy.props,
        deploy.topic_status,
        size,
        text=format_broker_topic_conf(_conf_of(deploy, base, size, limit)),
        durability=None if props.durability is None else format_topic_value(deploy.topic, props.durability.value),
        retention=format_topic_value(deploy.topic, props.delete_policy or "") if beyond_original else None,
    )


def _default_conf(props: TopicProps) -> BrokerDefaultConf:
    return BrokerDefaultConf(**{ours: _told(getattr(props, theirs), theirs) for ours, theirs in PROPS.items()})


def _conf_of(deploy: DeployRecord, base: TopicProps, size: int, limit: int) -> BrokerTopicConf:
    """Blank is what the topic leaves to the Broker, or has as the Broker has it."""
    values = {
        ours: None if (value := getattr(deploy.props, theirs)) == getattr(base, theirs) else _told(value, theirs)
        for ours, theirs in PROPS.items()
    }
    return BrokerTopicConf(
        topic=deploy.topic,
        status=int(deploy.topic_status),
        max_message_bytes=None if size == limit else size,
        **values,
    )


def _told(value: Any, prop: str) -> Any:
    """A property's value as the strings tell it."""
    return original_form(value) if prop == "delete_policy" and value else value


def reported_topics(
    defaults: str | None, topics: Sequence[str], known: Mapping[str, TopicConfig] | None = None
) -> dict[str, TopicConfig]:
    """Return the topics that a Broker reports, by the string that reports each.

    `known` is what this returned for the same `defaults` before: a report mostly repeats the last one.

    Raises:
        FormatError: a string is not a configuration, a topic is named twice, or has more partitions than a Broker has
            of a topic.
    """
    base = parse_broker_default_conf(defaults) if defaults and defaults.strip() else DEFAULTS
    known = known or {}
    found = {}
    for text in topics:
        if (same := known.get(text)) is not None:
            found[text] = same
            continue
        found[text] = _reported(parse_broker_topic_conf(text), base)
    check_reported_once(topics, found)
    return found


def check_reported_once(texts: Sequence[str], found: Mapping[str, TopicConfig]) -> None:
    """Refuse a report of a topic twice, in the same words or in others.

    Raises:
        FormatError: a topic is reported twice.
    """
    names = Counter(map(attrgetter("name"), map(found.__getitem__, texts)))
    if len(names) != len(texts):
        raise FormatError(f"topic {names.most_common(1)[0][0]} is reported twice", hint="report each topic once")


async def read_report(defaults: str | None, topics: Sequence[str]) -> dict[str, TopicConfig]:
    """Return what `reported_topics` does, read in slices between which the loop runs. Raises FormatError."""
    found: dict[str, TopicConfig] = {}
    for at in range(0, len(topics), REPORT_SLICE):
        found.update(reported_topics(defaults, topics[at : at + REPORT_SLICE]))
        await asyncio.sleep(0)
    check_reported_once(topics, found)
    return found


def reported_surplus(
    topics: Iterable[TopicConfig], placed: Callable[[str], TopicConfig | None], *, held: Container[str] | None = None
) -> int:
    """Return how many partitions a Broker reports of some topics beyond those that the records place there.

    Topics without a record count in full, except for `held` ones, which are counted elsewhere; None is all of them.
    """
    surplus = 0
    for topic in topics:
        if (record := placed(topic.name)) is None:
            surplus += 0 if held is None or topic.name in held else topic.partitions * topic.stores
        else:
            shared = within_record(topic, record)
            surplus += topic.partitions * topic.stores - shared.partitions * shared.stores
    return surplus


def within_record(reported: TopicConfig, record: TopicConfig) -> TopicConfig:
    """Return the reported topic with the partitions that the record has as well.

    A record's partitions only become more. A Broker that reports more has them from a record that was lost (as when an
    older backup is restored): they stay on its disk, and count again once the record has them.
    """
    if reported.partitions <= record.partitions and reported.stores <= record.stores:
        return reported
    partitions = min(reported.partitions, record.partitions)
    return replace(reported, partitions=partitions, stores=min(reported.stores, record.stores))


def check_surplus(surplus: int) -> None:
    """Refuse more partitions beyond the records than a change of these explains.

    Raises:
        FormatError: there are more.
    """
    if surplus > MAX_STRAY_PARTITIONS:
        raise FormatError(
            f"{surplus} more partitions are reported than the topics have",
            hint="apply and report the configuration that the Master sent",
        )


def _reported(conf: BrokerTopicConf, base: BrokerDefaultConf) -> TopicConfig:
    partitions = base.partitions if conf.partitions is None else conf.partitions
    stores = base.stores if conf.stores is None else conf.stores
    check_layout(conf.topic, partitions, stores)
    return TopicConfig(
        conf.topic,
        partitions,
        stores,
        base.accept_publish if conf.accept_publish is None else conf.accept_publish,
        base.accept_subscribe if conf.accept_subscribe is None else conf.accept_subscribe,
        base.delete_policy if conf.delete_policy is None else conf.delete_policy,
        DEFAULT_MAX_MESSAGE_BYTES if conf.max_message_bytes is None else conf.max_message_bytes,
    )


def reported_removals(topics: Iterable[str]) -> frozenset[str]:
    """The topics whose data a Broker says it has removed: names; a whole configuration counts for its topic."""
    return frozenset(filter(is_served_topic, (text.partition(":")[0].strip() for text in topics)))
