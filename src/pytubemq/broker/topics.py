"""The topics this Broker serves, as the Master's configuration describes them.

The invariant: a topic is served only with a name that can name a directory and with partitions within bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import msgspec

from pytubemq.errors import BadRequestError, FormatError
from pytubemq.model.durability import parse_durability
from pytubemq.model.ids import UNDEFINED
from pytubemq.model.limits import (
    ATTRIBUTE_ALLOWANCE_BYTES,
    DEFAULT_MAX_MESSAGE_BYTES,
    MAX_MESSAGE_BYTES,
    MAX_PARTITIONS_PER_BROKER,
)
from pytubemq.model.policy import parse_delete_policy, understood_policy
from pytubemq.model.topic import TopicConfig
from pytubemq.wire.text.configuration import (
    BrokerDefaultConf,
    BrokerTopicConf,
    check_layout,
    parse_broker_default_conf,
    parse_broker_topic_conf,
    parse_topic_values,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

READABLE_STATUS: Final = 1
"""The last status (soft deleted) with which a topic is read; only status 0 is written."""


@dataclass(frozen=True, slots=True)
class ServedTopic:
    """A topic with the values that handlers need per request."""

    config: TopicConfig
    partition_ids: frozenset[int]
    max_payload_bytes: int

    @property
    def writable(self) -> bool:
        """True if messages are accepted."""
        return self.config.status == 0

    @property
    def readable(self) -> bool:
        """True if messages are served."""
        return self.config.status <= READABLE_STATUS


class MasterConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration as the Master wrote it: its own strings, which are reported back to it unchanged."""

    conf_id: int = 0
    check_sum: int = 0
    default_conf: str = ""
    topic_confs: tuple[str, ...] = ()
    topic_durability: tuple[str, ...] = ()
    topic_retention: tuple[str, ...] = ()
    """Settings that the original's strings have no room for, as `topic:value`; a Master of the original sends none."""
    cluster_id: int = UNDEFINED
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    flow_check_id: int = UNDEFINED
    flow_rules: str = ""
    """The cluster's flow-control rules in their normal form; empty for none."""
    qry_priority_id: int = UNDEFINED

    @property
    def has_topics(self) -> bool:
        """True if a Master has sent the topics, even if there are none; False while only the rest is known."""
        return bool(self.default_conf.strip())

    def topics(self) -> list[TopicConfig]:
        """Return the topics that it describes.

        Raises:
            FormatError: a string is not in the form of the protocol; names it.
        """
        return TopicReader().topics(self)


_TopicText = tuple[str, str | None, str | None]
"""A topic's configuration string, its durability and its retention."""


class TopicReader:
    """A reader of successive configurations that parses only the topics that changed.

    An unchanged topic stays the same object, so a new topic costs the same however many there are.
    """

    def __init__(self) -> None:
        self._common: tuple[str, int] | None = None
        """The settings that all topics share."""
        self._read: dict[_TopicText, TopicConfig] = {}

    def topics(self, config: MasterConfig) -> list[TopicConfig]:
        """Return the topics that a configuration describes. Raises the errors of `MasterConfig.topics`."""
        if not config.has_topics:
            return []
        default = parse_broker_default_conf(config.default_conf)
        durability = parse_topic_values(config.topic_durability, "a topic's durability")
        retention = parse_topic_values(config.topic_retention, "a topic's retention")
        common = config.default_conf, config.max_message_bytes
        before = self._read if self._common == common else {}
        read: dict[_TopicText, TopicConfig] = {}
        count = 0
        for text in config.topic_confs:
            name = text.partition(":")[0].strip()
            key = text, durability.get(name), retention.get(name)
            topic = before.get(key)
            if topic is None:
                topic = _topic(parse_broker_topic_conf(text), default, config.max_message_bytes)
                topic = _beyond(topic, durability.get(topic.name), retention.get(topic.name))
            read[key] = topic
            count += topic.partitions * topic.stores
            if count > MAX_PARTITIONS_PER_BROKER:
                raise FormatError(
                    f"the topics up to {topic.name} have {count} partitions on this Broker",
                    hint=f"a Broker takes {MAX_PARTITIONS_PER_BROKER} in all: delete topics, or spread them",
                )
        self._common, self._read = common, read
        return list({topic.name: topic for topic in read.values()}.values())


class TopicTable:
    """Topics by name. Event loop only."""

    def __init__(self) -> None:
        self._topics: dict[str, ServedTopic] = {}

    def __len__(self) -> int:
        return len(self._topics)

    def __iter__(self) -> Iterator[ServedTopic]:
        return iter(self._topics.values())

    def get(self, name: str) -> ServedTopic | None:
        """Return the topic, None if it is not served here."""
        return self._topics.get(name)

    def replace(self, configs: Iterable[TopicConfig]) -> None:
        """Serve these and no others."""
        before = self._topics
        self._topics = {}
        for config in configs:
            known = before.get(config.name)
            self._topics[config.name] = known if known is not None and known.config is config else served(config)


def _topic(conf: BrokerTopicConf, default: BrokerDefaultConf, max_message_bytes: int) -> TopicConfig:
    """Return one topic's settings with the Broker's defaults filled in.

    Raises:
        FormatError: a number of partitions out of bounds.
    """
    partitions = default.partitions if conf.partitions is None else conf.partitions
    stores = default.stores if conf.stores is None else conf.stores
    check_layout(conf.topic, partitions, stores)
    return TopicConfig(
        name=conf.topic,
        partitions=partitions,
        stores=stores,
        accept_publish=default.accept_publish if conf.accept_publish is None else conf.accept_publish,
        accept_subscribe=default.accept_subscribe if conf.accept_subscribe is None else conf.accept_subscribe,
        delete_policy=conf.delete_policy or default.delete_policy,
        max_message_bytes=max_message_bytes if conf.max_message_bytes is None else conf.max_message_bytes,
        status=conf.status,
    )


def _beyond(topic: TopicConfig, durability: str | None, policy: str | None) -> TopicConfig:
    """Return a topic with the settings that our Master sends beyond the original's strings.

    Raises:
        FormatError: this version does not know the value; nothing is deleted by a guess.
    """
    try:
        return replace(
            topic,
            durability=None if durability is None else parse_durability(durability),
            delete_policy=policy or topic.delete_policy,
            retention=understood_policy(topic.delete_policy) if policy is None else parse_delete_policy(policy),
        )
    except BadRequestError as error:
        raise FormatError(
            f"topic {topic.name}: {error.message}", hint="run a Broker that is as new as its Master"
        ) from error


def served(config: TopicConfig) -> ServedTopic:
    """Return a topic with its limits, with the original's bounds for the size of a message."""
    size = min(max(config.max_message_bytes, DEFAULT_MAX_MESSAGE_BYTES), MAX_MESSAGE_BYTES)
    return ServedTopic(config, frozenset(config.partition_ids()), size + ATTRIBUTE_ALLOWANCE_BYTES)
