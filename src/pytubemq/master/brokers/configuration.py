"""A Broker's configuration, as the Master sends it.

The invariant: a Broker is in sync when the pair (confId, checksum) it reports is the pair it was given, so it gets the
strings until then and only the pair after.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from pytubemq.model.ids import UNDEFINED
from pytubemq.model.limits import MAX_TOPIC_ENDINGS
from pytubemq.model.policy import original_form
from pytubemq.wire.text.configuration import (
    BrokerDefaultConf,
    BrokerTopicConf,
    format_broker_default_conf,
    format_broker_topic_conf,
    format_topic_value,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytubemq.master.catalogue.catalogue import Catalogue
    from pytubemq.model.records import DeployRecord, TopicProps, TopicStatus

DEFAULTS = BrokerDefaultConf()
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
"""The fields of the configuration strings, and the properties that they carry."""
_CHECKSUM_MASK: Final = 0x7FFFFFFF
"""A checksum is a sum, so that a change of one topic changes it in the same time however many there are."""


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
    checksum: int

    @property
    def texts(self) -> tuple[str, str | None, str | None]:
        """Return the strings that the Broker is sent for the topic."""
        return self.text, self.durability, self.retention

    def is_of(self, deploy: DeployRecord, size: int) -> bool:
        """True if these are the strings of a place with this largest message, under the same defaults."""
        return (
            (self.props is deploy.props or self.props == deploy.props)
            and self.status is deploy.topic_status
            and self.max_message_bytes == size
        )


class TopicFormatter:
    """The strings of the topics of Brokers with the same defaults; topics with the same settings share the work."""

    def __init__(self, base: TopicProps, limit: int) -> None:
        self.base = base
        self.limit = limit
        """The cluster's largest message."""
        self.defaults = format_broker_default_conf(_default_conf(base))
        self._endings: dict[tuple[TopicProps, TopicStatus, int], _Ending] = {}

    def strings(self, deploy: DeployRecord, size: int) -> TopicStrings:
        """Return the strings of a place whose topic's largest message has `size` bytes."""
        key = deploy.props, deploy.topic_status, size
        if (ending := self._endings.get(key)) is None:
            if len(self._endings) >= MAX_TOPIC_ENDINGS:
                self._endings.clear()
            ending = self._endings[key] = self._ending(deploy, size)
        topic = deploy.topic
        text = topic + ending.text
        durability = None if ending.durability is None else format_topic_value(topic, ending.durability)
        retention = None if ending.retention is None else format_topic_value(topic, ending.retention)
        checksum = crc32("\n".join((text, durability or "", retention or "")).encode())
        return TopicStrings(deploy.props, deploy.topic_status, size, text, durability, retention, checksum)

    def _ending(self, deploy: DeployRecord, size: int) -> _Ending:
        props = deploy.props.over(self.base)
        policy = props.delete_policy or ""
        text = format_broker_topic_conf(_conf_of(deploy, self.base, size, self.limit))
        return _Ending(
            text[len(deploy.topic) :],
            None if props.durability is None else props.durability.value,
            policy if policy and original_form(policy) != policy else None,
        )


@dataclass(frozen=True, slots=True)
class _Ending:
    """The strings of a topic without its name, which comes first in each of them."""

    text: str
    durability: str | None
    retention: str | None


@dataclass(frozen=True, slots=True)
class BrokerConf:
    """A Broker's topics, and those that it must remove, in the strings that say so.

    `durability` and `retention` are beside the strings, which have no room for them. Topics that leave the durability
    to the Broker's own setting are not there; a Broker of the original goes by the ages in the strings.
    """

    sync_id: SyncId
    formatter: TopicFormatter = field(compare=False, repr=False)
    defaults: str
    carried: Mapping[str, TopicStrings]
    leaving: Mapping[str, TopicStrings] = field(default_factory=dict)
    """Topics to be removed. They are not part of what is in sync: every heartbeat names them until the Broker has
    reported that they are gone."""

    def with_id(self, conf_id: int) -> BrokerConf:
        """Return the same configuration under another id."""
        return replace(self, sync_id=SyncId(conf_id, self.sync_id.checksum))

    @property
    def topics(self) -> tuple[str, ...]:
        """The strings of all topics."""
        return tuple([strings.text for strings in self.carried.values()])

    @property
    def removed(self) -> tuple[str, ...]:
        """The strings of the topics to be removed."""
        return tuple([strings.text for strings in self.leaving.values()])

    @property
    def durability(self) -> tuple[str, ...]:
        """The durability of topics that have one, as `topic:value`."""
        return tuple([strings.durability for strings in self.carried.values() if strings.durability is not None])

    @property
    def retention(self) -> tuple[str, ...]:
        """The policies that the original's form cannot say, as `topic:value`."""
        return tuple([strings.retention for strings in self.carried.values() if strings.retention is not None])


class TopicsOfConf:
    """The topics of a configuration that is made of some topics at a time."""

    def __init__(self, formatter: TopicFormatter, known: Mapping[str, TopicStrings]) -> None:
        """Begin with none; `known` are strings that the same formatter has made before."""
        self._formatter = formatter
        self._known = known
        self._carried: dict[str, TopicStrings] = {}
        self._leaving: dict[str, TopicStrings] = {}
        self._checksum = crc32(formatter.defaults.encode())

    def add(self, catalogue: Catalogue, broker_id: int, topics: Iterable[str]) -> None:
        """Add those of these topics that the records place on a Broker."""
        for topic in topics:
            if (deploy := catalogue.deployed(topic).get(broker_id)) is None:
                continue
            size, strings = catalogue.max_message_bytes(topic), self._known.get(topic)
            if strings is None or not strings.is_of(deploy, size):
                strings = self._formatter.strings(deploy, size)
            if strings.status.removed:
                self._leaving[topic] = strings
            else:
                self._carried[topic] = strings
                self._checksum += strings.checksum

    def conf(self, *, first_id: int = 0) -> BrokerConf:
        """Return the configuration with all topics that were added."""
        sync_id = SyncId(first_id, self._checksum & _CHECKSUM_MASK)
        return BrokerConf(sync_id, self._formatter, self._formatter.defaults, self._carried, self._leaving)


def first_conf(catalogue: Catalogue, broker_id: int) -> TopicsOfConf:
    """Return the beginning of a configuration, to which the Broker's topics are to be added."""
    return TopicsOfConf(_formatter(catalogue, broker_id, None), {})


def broker_conf(catalogue: Catalogue, broker_id: int, before: BrokerConf | None, *, first_id: int) -> BrokerConf:
    """Return a Broker's configuration according to the records; `before` itself if it is that.

    `first_id` is the confId when there was none before; each change has the next one.
    """
    formatter = _formatter(catalogue, broker_id, before)
    known = {**before.carried, **before.leaving} if before is not None and before.formatter is formatter else {}
    making = TopicsOfConf(formatter, known)
    making.add(catalogue, broker_id, sorted(catalogue.topics_on(broker_id)))
    conf = making.conf(first_id=first_id)
    same = before is not None and conf.defaults == before.defaults and _texts(conf) == _texts(before)
    return _next(before, conf, same=same)


def changed_conf(catalogue: Catalogue, broker_id: int, before: BrokerConf, topics: Iterable[str]) -> BrokerConf:
    """Return what `broker_conf` does, where only these topics may have changed since `before`.

    It costs the same whatever number of other topics there is, but for a copy of a dictionary.
    """
    if _formatter(catalogue, broker_id, before) is not before.formatter:
        return broker_conf(catalogue, broker_id, before, first_id=0)
    carried, leaving = dict(before.carried), dict(before.leaving)
    checksum, same = before.sync_id.checksum, True
    for topic in topics:
        old, new = carried.pop(topic, None), None
        leaving.pop(topic, None)
        if (deploy := catalogue.deployed(topic).get(broker_id)) is not None:
            strings = before.formatter.strings(deploy, catalogue.max_message_bytes(topic))
            if strings.status.removed:
                leaving[topic] = strings
            else:
                new = carried[topic] = strings
        same = same and (None if old is None else old.texts) == (None if new is None else new.texts)
        checksum += (0 if new is None else new.checksum) - (0 if old is None else old.checksum)
    sync_id = SyncId(before.sync_id.conf_id, checksum & _CHECKSUM_MASK)
    return _next(before, BrokerConf(sync_id, before.formatter, before.defaults, carried, leaving), same=same)


def _texts(conf: BrokerConf) -> frozenset[tuple[str, str | None, str | None]]:
    """Return all that a configuration says of the topics that its Broker carries."""
    return frozenset([strings.texts for strings in conf.carried.values()])


def _next(before: BrokerConf | None, new: BrokerConf, *, same: bool) -> BrokerConf:
    """Return a configuration with the id that follows the previous one, or the previous one if nothing changed.

    `same` says that the two have the same strings for the topics that the Broker carries.
    """
    if before is None:
        return new
    if same and new.formatter is before.formatter and new.removed == before.removed:
        return before
    conf_id = before.sync_id.conf_id + (not same)
    return new.with_id(conf_id)


def _formatter(catalogue: Catalogue, broker_id: int, before: BrokerConf | None) -> TopicFormatter:
    base, limit = catalogue.broker_props(broker_id), catalogue.cluster.max_message_bytes
    if before is not None and (before.formatter.base, before.formatter.limit) == (base, limit):
        return before.formatter
    return TopicFormatter(base, limit)


def _default_conf(props: TopicProps) -> BrokerDefaultConf:
    return BrokerDefaultConf(**{ours: _wire_value(getattr(props, theirs), theirs) for ours, theirs in PROPS.items()})


def _conf_of(deploy: DeployRecord, base: TopicProps, size: int, limit: int) -> BrokerTopicConf:
    """Return a topic's configuration string; blank is what it leaves to the Broker or has as the Broker has it."""
    values = {
        ours: None if (value := getattr(deploy.props, theirs)) == getattr(base, theirs) else _wire_value(value, theirs)
        for ours, theirs in PROPS.items()
    }
    return BrokerTopicConf(
        topic=deploy.topic,
        status=int(deploy.topic_status),
        max_message_bytes=None if size == limit else size,
        **values,
    )


def _wire_value(value: Any, prop: str) -> Any:
    """Return a property's value in the form of the configuration strings."""
    return original_form(value) if prop == "delete_policy" and value else value
