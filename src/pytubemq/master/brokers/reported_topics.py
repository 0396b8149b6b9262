"""The topics that a Broker reports, read and held against the records.

The invariant: a Broker is taken to carry only what it has reported.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING

from pytubemq.errors import FormatError
from pytubemq.master.brokers.configuration import DEFAULTS
from pytubemq.master.brokers.slices import slices
from pytubemq.model.limits import DEFAULT_MAX_MESSAGE_BYTES, MAX_STRAY_PARTITIONS
from pytubemq.model.names import is_served_topic
from pytubemq.model.topic import TopicConfig
from pytubemq.wire.text.configuration import (
    BrokerDefaultConf,
    BrokerTopicConf,
    check_layout,
    parse_broker_default_conf,
    parse_broker_topic_conf,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence

    from pytubemq.master.catalogue.catalogue import Catalogue


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
    # A report mostly has one topic behind those of the last one, which are compared in C and not looked up.
    is_longer = known and tuple(topics[: len(known)]) == tuple(known)
    found = dict(known) if is_longer else {}
    for text in topics[len(found) :]:
        same = known.get(text)
        found[text] = same or _reported(parse_broker_topic_conf(text), base)
    check_reported_once(topics, found)
    return found


def check_reported_once(texts: Sequence[str], found: Mapping[str, TopicConfig]) -> None:
    """Refuse a report of a topic twice, in the same words or in others.

    Raises:
        FormatError: a topic is reported twice.
    """
    name_of = attrgetter("name")
    # Counted only where one is there twice: this runs for all topics with each that is created.
    if len(set(map(name_of, found.values()))) != len(texts):
        names = Counter(map(name_of, map(found.__getitem__, texts)))
        raise FormatError(f"topic {names.most_common(1)[0][0]} is reported twice", hint="report each topic once")


def added_topics(report: Mapping[str, TopicConfig], known: Mapping[str, TopicConfig]) -> list[TopicConfig]:
    """Return the topics of a report that are not in the one before, `known`."""
    texts = list(report)
    if texts[: len(known)] == list(known):
        return [report[text] for text in texts[len(known) :]]
    return [topic for text, topic in report.items() if text not in known]


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
