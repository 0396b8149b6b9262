"""A Broker's configuration as the Master sends it, and the report that the Broker sends back.

The invariants: a Broker is in sync when the pair (confId, checksum) it reports is the pair it was given, so it gets
the strings until then and only the pair after; a Broker is taken to carry only what it has reported.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from pytubemq.errors import FormatError
from pytubemq.master.slices import slices
from pytubemq.model.ids import UNDEFINED
from pytubemq.model.limits import DEFAULT_MAX_MESSAGE_BYTES, MAX_STRAY_PARTITIONS, MAX_TOPIC_ENDINGS
from pytubemq.model.names import is_served_topic
from pytubemq.model.policy import original_form
from pytubemq.model.topic import TopicConfig
from pytubemq.wire.text.configuration import (
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

    from pytubemq.master.catalogue.catalogue import Catalogue
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
    made = making.conf(first_id=first_id)
    same = before is not None and made.defaults == before.defaults and _texts(made) == _texts(before)
    return _next(before, made, same=same)


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


def _next(before: BrokerConf | None, made: BrokerConf, *, same: bool) -> BrokerConf:
    """Return a configuration with the id that follows the previous one, or the previous one if nothing changed.

    `same` says that the two have the same strings for the topics that the Broker carries.
    """
    if before is None:
        return made
    if same and made.formatter is before.formatter and made.removed == before.removed:
        return before
    conf_id = before.sync_id.conf_id + (not same)
    return made.with_id(conf_id)


def _formatter(catalogue: Catalogue, broker_id: int, before: BrokerConf | None) -> TopicFormatter:
    base, limit = catalogue.broker_props(broker_id), catalogue.cluster.max_message_bytes
    if before is not None and (before.formatter.base, before.formatter.limit) == (base, limit):
        return before.formatter
    return TopicFormatter(base, limit)


def _default_conf(props: TopicProps) -> BrokerDefaultConf:
    return BrokerDefaultConf(**{ours: _told(getattr(props, theirs), theirs) for ours, theirs in PROPS.items()})


def _conf_of(deploy: DeployRecord, base: TopicProps, size: int, limit: int) -> BrokerTopicConf:
    """Return a topic's configuration string; blank is what it leaves to the Broker or has as the Broker has it."""
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
    """Return a property's value in the form of the configuration strings."""
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
    if known and len(topics) == len(known) and known.keys() == set(topics):
        return dict(known)
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
    async for texts in slices(topics):
        found.update(reported_topics(defaults, texts))
    check_reported_once(topics, found)
    await asyncio.sleep(0)
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


def surplus_on(
    catalogue: Catalogue, broker_id: int, topics: Iterable[TopicConfig], *, held: Container[str] | None = None
) -> int:
    """Return `reported_surplus` of some topics of a Broker, measured by the records."""

    def placed(topic: str) -> TopicConfig | None:
        deploy = catalogue.deployed(topic).get(broker_id)
        return None if deploy is None else catalogue.config(deploy)

    return reported_surplus(topics, placed, held=held)


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
    """Return the topics whose data a Broker reports as removed: names; a whole configuration counts for its topic."""
    return frozenset(filter(is_served_topic, (text.partition(":")[0].strip() for text in topics)))
