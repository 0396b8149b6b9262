"""The topics this Broker serves, as the Master's configuration describes them.

The invariant: a topic is served only with a name that can name a directory and with partitions within bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

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
    from collections.abc import Iterable, Iterator, Mapping

_Item = TypeVar("_Item", str, TopicConfig)

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

    An unchanged topic stays the same object. A Master appends the topics that it adds, so where the previous
    configuration is the beginning of the next one, nothing is looked up for the topics that it has.
    """

    def __init__(self) -> None:
        self._config = MasterConfig()
        """The configuration read last."""
        self._durability: dict[str, str] = {}
        self._retention: dict[str, str] = {}
        self._read: dict[_TopicText, TopicConfig] = {}
        self._by_name: dict[str, TopicConfig] = {}
        self._partitions = 0
        """The partitions of all these topics."""

    def topics(self, config: MasterConfig) -> list[TopicConfig]:
        """Return the topics that a configuration describes. Raises the errors of `MasterConfig.topics`."""
        if not config.has_topics:
            return []
        if not self._append(config):
            self._read_all(config)
        return list(self._by_name.values())

    def _append(self, config: MasterConfig) -> bool:
        """Read what a configuration adds to the last one; return False if it changes anything else."""
        last = self._config
        texts = _appended(last.topic_confs, config.topic_confs)
        durable = _appended(last.topic_durability, config.topic_durability)
        kept = _appended(last.topic_retention, config.topic_retention)
        if texts is None or durable is None or kept is None or _common(last) != _common(config):
            return False
        durability, retention = _durability(durable), _retention(kept)
        names = {_name(text) for text in texts}
        # A second string of a topic, or a value for one that is there already, changes that one.
        if any(name in before for name in names for before in (self._by_name, self._durability, self._retention)):
            return False
        if not (durability.keys() | retention.keys()) <= names:
            return False
        read, partitions = self._parse(config, texts, durability, retention, partitions=self._partitions)
        self._config, self._partitions = config, partitions
        self._durability |= durability
        self._retention |= retention
        self._read |= read
        self._by_name |= {topic.name: topic for topic in read.values()}
        return True

    def _read_all(self, config: MasterConfig) -> None:
        durability, retention = _durability(config.topic_durability), _retention(config.topic_retention)
        read, partitions = self._parse(config, config.topic_confs, durability, retention, partitions=0)
        self._config, self._partitions = config, partitions
        self._durability, self._retention = durability, retention
        self._read = read
        self._by_name = {topic.name: topic for topic in read.values()}

    def _parse(
        self,
        config: MasterConfig,
        texts: Iterable[str],
        durability: Mapping[str, str],
        retention: Mapping[str, str],
        *,
        partitions: int,
    ) -> tuple[dict[_TopicText, TopicConfig], int]:
        """Return topics by their texts, and their partitions with those that are there already.

        Raises:
            FormatError: a string is not in the form of the protocol, or there are too many partitions.
        """
        default = parse_broker_default_conf(config.default_conf)
        before = self._read if _common(self._config) == _common(config) else {}
        read: dict[_TopicText, TopicConfig] = {}
        for text in texts:
            name = _name(text)
            key = text, durability.get(name), retention.get(name)
            topic = before.get(key)
            if topic is None:
                topic = _topic(parse_broker_topic_conf(text), default, config.max_message_bytes)
                topic = _beyond(topic, durability.get(topic.name), retention.get(topic.name))
            read[key] = topic
            partitions += topic.partitions * topic.stores
            if partitions > MAX_PARTITIONS_PER_BROKER:
                raise FormatError(
                    f"the topics up to {topic.name} have {partitions} partitions on this Broker",
                    hint=f"a Broker takes {MAX_PARTITIONS_PER_BROKER} in all: delete topics, or spread them",
                )
        return read, partitions


def _common(config: MasterConfig) -> tuple[str, int]:
    """Return the settings that all topics share."""
    return config.default_conf, config.max_message_bytes


def _name(text: str) -> str:
    return text.partition(":")[0].strip()


def _durability(texts: Iterable[str]) -> dict[str, str]:
    return parse_topic_values(texts, "a topic's durability")


def _retention(texts: Iterable[str]) -> dict[str, str]:
    return parse_topic_values(texts, "a topic's retention")


def _appended(before: tuple[_Item, ...], now: tuple[_Item, ...]) -> tuple[_Item, ...] | None:
    """Return the rest of `now` after `before`; None if it does not begin with `before`."""
    # Compared in C, a few nanoseconds an item, as it is done for all topics with each that is created.
    return now[len(before) :] if now[: len(before)] == before else None


class TopicChanges(NamedTuple):
    """The difference between the topics that are served and those to serve."""

    topics: tuple[TopicConfig, ...]
    """The topics to serve."""
    changed: tuple[TopicConfig, ...]
    """The topics to serve that are new or have other settings."""
    gone: frozenset[str]
    """Names of topics that are served and no longer to be."""


class TopicTable:
    """Topics by name. Event loop only."""

    def __init__(self) -> None:
        self._configs: tuple[TopicConfig, ...] = ()
        self._topics: dict[str, ServedTopic] = {}

    def __len__(self) -> int:
        return len(self._topics)

    def __iter__(self) -> Iterator[ServedTopic]:
        return iter(self._topics.values())

    def get(self, name: str) -> ServedTopic | None:
        """Return the topic, None if it is not served here."""
        return self._topics.get(name)

    def compare(self, configs: Iterable[TopicConfig]) -> TopicChanges:
        """Return what is to be changed so that these and no others are served."""
        topics, before = tuple(configs), self._topics
        if (added := _appended(self._configs, topics)) is not None and len(before) == len(self._configs):
            return TopicChanges(topics, added, frozenset())
        changed = tuple(
            [config for config in topics if (known := before.get(config.name)) is None or known.config is not config]
        )
        return TopicChanges(topics, changed, frozenset(before.keys() - {config.name for config in topics}))

    def apply(self, changes: TopicChanges) -> None:
        """Serve the topics of what `compare` returned."""
        # A new table and no change of the old one, which somebody may just be going through.
        after = dict(self._topics)
        for name in changes.gone:
            del after[name]
        after |= {config.name: served(config) for config in changes.changed}
        self._configs, self._topics = changes.topics, after

    def replace(self, configs: Iterable[TopicConfig]) -> None:
        """Serve these and no others."""
        self.apply(self.compare(configs))


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
