"""A Broker's configuration on its way down, and what it reports on its way up.

The invariants: a Broker is in sync when the pair (confId, checksum) it reports is the pair it was given, so it gets
the strings until then and only the pair after; what a Broker carries is what it has reported, never what it was told.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar
from zlib import crc32

from pytubemq.model.ids import UNDEFINED
from pytubemq.model.limits import DEFAULT_MAX_MESSAGE_BYTES
from pytubemq.model.topic import TopicConfig
from pytubemq.wire.confstrings import (
    BrokerDefaultConf,
    BrokerTopicConf,
    format_broker_default_conf,
    format_broker_topic_conf,
    parse_broker_default_conf,
    parse_broker_topic_conf,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

T = TypeVar("T")

DEFAULTS = BrokerDefaultConf(partitions=1)
"""The original's built-in defaults for a Broker."""


@dataclass(frozen=True, slots=True)
class SyncId:
    """A version of a Broker's configuration; the Broker only echoes it."""

    conf_id: int = UNDEFINED
    checksum: int = UNDEFINED


@dataclass(frozen=True, slots=True)
class BrokerConf:
    """What a Broker must carry, in the strings that tell it."""

    sync_id: SyncId
    defaults: str
    topics: tuple[str, ...]


def make_conf(conf_id: int, topics: Iterable[TopicConfig], *, cluster_max_message_bytes: int) -> BrokerConf:
    """The configuration of a Broker that carries `topics`."""
    defaults = format_broker_default_conf(DEFAULTS)
    strings = tuple(
        format_broker_topic_conf(_to_string(topic, cluster_max_message_bytes)) for topic in topics if topic.status < 2
    )
    text = defaults + "".join(sorted(strings))
    return BrokerConf(SyncId(conf_id, crc32(text.encode()) & 0x7FFFFFFF), defaults, strings)


def renewed(conf: BrokerConf, topics: Iterable[TopicConfig], *, cluster_max_message_bytes: int) -> BrokerConf:
    """The configuration after a change; the same one if nothing changed for this Broker."""
    fresh = make_conf(conf.sync_id.conf_id, topics, cluster_max_message_bytes=cluster_max_message_bytes)
    if fresh == conf:
        return conf
    return replace(fresh, sync_id=SyncId(conf.sync_id.conf_id + 1, fresh.sync_id.checksum))


def _to_string(topic: TopicConfig, cluster_max_message_bytes: int) -> BrokerTopicConf:
    """Blank is what equals the Broker's defaults."""
    size = topic.max_message_bytes
    return BrokerTopicConf(
        topic=topic.name,
        partitions=_unless(topic.partitions, DEFAULTS.partitions),
        accept_publish=_unless(topic.accept_publish, DEFAULTS.accept_publish),
        accept_subscribe=_unless(topic.accept_subscribe, DEFAULTS.accept_subscribe),
        delete_policy=_unless(topic.delete_policy, DEFAULTS.delete_policy),
        stores=_unless(topic.stores, DEFAULTS.stores),
        status=topic.status,
        max_message_bytes=None if size == cluster_max_message_bytes else size,
    )


def _unless(value: T, default: T) -> T | None:
    return None if value == default else value


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
