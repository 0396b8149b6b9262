"""A Broker's configuration on its way down, and what it reports on its way up.

The invariants: a Broker is in sync when the pair (confId, checksum) it reports is the pair it was given, so it gets
the strings until then and only the pair after; what a Broker carries is what it has reported, never what it was told.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from zlib import crc32

from pytubemq.model.ids import UNDEFINED
from pytubemq.model.limits import DEFAULT_MAX_MESSAGE_BYTES
from pytubemq.model.policy import original_form
from pytubemq.model.topic import TopicConfig
from pytubemq.wire.confstrings import (
    BrokerDefaultConf,
    BrokerTopicConf,
    format_broker_default_conf,
    format_broker_topic_conf,
    format_topic_value,
    parse_broker_default_conf,
    parse_broker_topic_conf,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytubemq.master.catalogue import Catalogue
    from pytubemq.model.records import DeployRecord, TopicProps

DEFAULTS = BrokerDefaultConf(partitions=1)
"""The original's built-in defaults for a Broker."""

_PROPS = {
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


def broker_conf(catalogue: Catalogue, broker_id: int, before: BrokerConf | None, *, first_id: int) -> BrokerConf:
    """The configuration of a Broker as the records say now; `before` itself if they say the same as it does.

    `first_id` is the confId when there was none before; each change has the next one.
    """
    base = catalogue.broker_props(broker_id)
    limit = catalogue.cluster.max_message_bytes
    kept: list[str] = []
    removed: list[str] = []
    durability: list[str] = []
    retention: list[str] = []
    for deploy in catalogue.deployed_on(broker_id):
        text = format_broker_topic_conf(_conf_of(deploy, base, catalogue.max_message_bytes(deploy.topic), limit))
        if deploy.topic_status.removed:
            removed.append(text)
            continue
        kept.append(text)
        props = deploy.props.over(base)
        if props.durability is not None:
            durability.append(format_topic_value(deploy.topic, props.durability.value))
        if props.delete_policy and original_form(props.delete_policy) != props.delete_policy:
            retention.append(format_topic_value(deploy.topic, props.delete_policy))
    defaults = format_broker_default_conf(_default_conf(base))
    said = (defaults, *sorted(kept), *sorted(durability), *sorted(retention))
    checksum = crc32("".join(said).encode()) & 0x7FFFFFFF
    made = BrokerConf(
        SyncId(first_id, checksum), defaults, tuple(kept), tuple(removed), tuple(durability), tuple(retention)
    )
    if before is None:
        return made
    same = replace(made, sync_id=before.sync_id, removed=before.removed) == before
    made = replace(made, sync_id=before.sync_id if same else SyncId(before.sync_id.conf_id + 1, checksum))
    return before if made == before else made


def _default_conf(props: TopicProps) -> BrokerDefaultConf:
    return BrokerDefaultConf(**{ours: _told(getattr(props, theirs), theirs) for ours, theirs in _PROPS.items()})


def _conf_of(deploy: DeployRecord, base: TopicProps, size: int, limit: int) -> BrokerTopicConf:
    """Blank is what the topic leaves to the Broker, or has as the Broker has it."""
    values = {
        ours: None if (value := getattr(deploy.props, theirs)) == getattr(base, theirs) else _told(value, theirs)
        for ours, theirs in _PROPS.items()
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


def reported_topics(defaults: str | None, topics: Sequence[str]) -> dict[str, TopicConfig]:
    """What a Broker says it carries.

    Raises:
        FormatError: a string is not a configuration.
    """
    base = parse_broker_default_conf(defaults) if defaults and defaults.strip() else DEFAULTS
    found = {}
    for text in topics:
        conf = parse_broker_topic_conf(text)
        found[conf.topic] = TopicConfig(
            conf.topic,
            base.partitions if conf.partitions is None else conf.partitions,
            base.stores if conf.stores is None else conf.stores,
            base.accept_publish if conf.accept_publish is None else conf.accept_publish,
            base.accept_subscribe if conf.accept_subscribe is None else conf.accept_subscribe,
            base.delete_policy if conf.delete_policy is None else conf.delete_policy,
            DEFAULT_MAX_MESSAGE_BYTES if conf.max_message_bytes is None else conf.max_message_bytes,
        )
    return found


def reported_removals(topics: Iterable[str]) -> frozenset[str]:
    """The topics whose data a Broker says it has removed: names; a whole configuration counts for its topic."""
    return frozenset(text.partition(":")[0].strip() for text in topics) - {""}
