"""Topics that Brokers hold and this Master does not know, as after a loss of its metadata.

The invariants: a Broker that holds such topics gets no configuration and no removals, so it goes on as it is until an
operator decides; a topic that is taken over has the settings that the Broker reported.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytubemq.errors import BadRequestError, Code, MessageError
from pytubemq.master.answers import SYSTEM_TOPIC, RefusalError
from pytubemq.master.broker_sync import DEFAULTS, PROPS
from pytubemq.master.views import TopicsAdopted, UnknownTopic
from pytubemq.model.durability import parse_durability
from pytubemq.model.limits import MAX_UNKNOWN_TOPICS, REPORT_SLICE
from pytubemq.model.names import check_topic
from pytubemq.model.policy import KEEP
from pytubemq.model.records import DeployRecord, Stamp, TopicProps, TopicRecord, TopicStatus
from pytubemq.wire.confstrings import (
    check_layout,
    parse_broker_default_conf,
    parse_broker_topic_conf,
    parse_topic_values,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from pytubemq.master.broker_run import BrokerRun
    from pytubemq.master.brokers import Brokers
    from pytubemq.master.catalogue import Catalogue
    from pytubemq.model.records import Record
    from pytubemq.model.topic import TopicConfig
    from pytubemq.net.clock import Clock
    from pytubemq.wire.confstrings import BrokerDefaultConf, BrokerTopicConf
    from pytubemq.wire.messages.master import RegisterRequestB2M

logger = logging.getLogger(__name__)

ADOPTED_BY = "adopted"
"""The user name in the records of topics that are taken over from a Broker."""


@dataclass(frozen=True, slots=True)
class HeldTopic:
    """A topic as a Broker reported it; `max_message_bytes` None is the cluster's."""

    name: str
    status: TopicStatus
    props: TopicProps
    max_message_bytes: int | None


async def unknown_topics(
    request: RegisterRequestB2M,
    broker_id: int,
    report: Mapping[str, TopicConfig],
    catalogue: Catalogue,
    runs: Mapping[int, BrokerRun],
) -> dict[str, HeldTopic]:
    """Return the topics of a Broker's registration that no record places there, by name.

    They are read in slices between which the loop runs.

    Raises:
        RefusalError: 400, Brokers hold more of them than the Master keeps.
        FormatError: a string is not in the form of the protocol.
    """
    texts = [text for text, topic in report.items() if broker_id not in catalogue.deployed(topic.name)]
    others = sum(len(run.unknown) for run in runs.values() if run.broker_id != broker_id)
    _check_room(broker_id, len(texts), others)
    text = request.broker_default_conf_info
    defaults = parse_broker_default_conf(text) if text and text.strip() else DEFAULTS
    durability = parse_topic_values(request.held_durability, "a topic's durability")
    retention = parse_topic_values(request.held_retention, "a topic's retention")
    found = {}
    for number, text in enumerate(texts, 1):
        if number % REPORT_SLICE == 0:
            await asyncio.sleep(0)
        conf = parse_broker_topic_conf(text)
        if conf.topic == SYSTEM_TOPIC:
            continue
        try:
            check_topic(conf.topic)
            props = _props(conf, defaults, durability.get(conf.topic), retention.get(conf.topic))
            found[conf.topic] = HeldTopic(conf.topic, TopicStatus(conf.status), props, conf.max_message_bytes)
        except (MessageError, BadRequestError, ValueError) as error:
            logger.warning("a topic in a Broker's registration cannot be read and is ignored: %s", error)
    stored = await _stored_topics(request.stored_topics, {deploy.topic for deploy in catalogue.deployed_on(broker_id)})
    held = stored | found
    _check_room(broker_id, len(held), others)
    return held


def _check_room(broker_id: int, count: int, others: int) -> None:
    """Refuse more topics that no record has than a Master keeps. Raises RefusalError."""
    if count and others + count > MAX_UNKNOWN_TOPICS:
        raise RefusalError(
            Code.BAD_REQUEST,
            f"broker {broker_id} reports {count} topics that no record has, other Brokers {others}, and "
            f"{MAX_UNKNOWN_TOPICS} are allowed; take these over or discard them first",
        )


async def _stored_topics(texts: Iterable[str], known: Collection[str]) -> dict[str, HeldTopic]:
    """Return the topics of a Broker's store, whose settings nobody knows: nothing of them is deleted by a guess."""
    found = {}
    for number, text in enumerate(texts, 1):
        if number % REPORT_SLICE == 0:
            await asyncio.sleep(0)
        conf = parse_broker_topic_conf(text)
        if conf.topic in known or conf.topic == SYSTEM_TOPIC:
            continue
        check_layout(conf.topic, conf.partitions or 1, conf.stores or 1)
        props = replace(_props(conf, DEFAULTS, None, KEEP), num_partitions=conf.partitions or 1)
        found[conf.topic] = HeldTopic(conf.topic, TopicStatus.NORMAL, props, None)
    return found


def _props(
    conf: BrokerTopicConf, defaults: BrokerDefaultConf, durability: str | None, retention: str | None
) -> TopicProps:
    values = {}
    for ours, theirs in PROPS.items():
        own = getattr(conf, ours)
        values[theirs] = getattr(defaults, ours) if own is None else own
    props = TopicProps(**values)
    return replace(
        props,
        delete_policy=retention or props.delete_policy,
        durability=None if durability is None else parse_durability(durability),
    )


class Adoption:
    """The takeover of topics from the Brokers that hold them, or their discard."""

    def __init__(self, catalogue: Catalogue, brokers: Brokers, clock: Clock) -> None:
        self._catalogue = catalogue
        self._brokers = brokers
        self._clock = clock

    async def adopt(self, *, discard: bool = False) -> TopicsAdopted:
        """Enter the unknown topics of all registered Brokers, and send these Brokers their configuration again.

        With `discard` nothing is entered: the Brokers stop serving the topics and keep their files.

        Raises:
            StorageError: the records cannot be written; nothing has changed.
        """
        async with self._catalogue.lock:
            runs = [run for run in self._brokers.runs.values() if run.unknown]
            held = {run.broker_id: dict(run.unknown) for run in runs}
            if held and not discard:
                await self._catalogue.apply(self._records(held))
            for run in runs:
                run.unknown = {}
        for broker_id in held:
            self._brokers.waiting.wake(broker_id)
        found = [
            UnknownTopic(
                topic=name,
                broker=broker_id,
                partitions=topic.props.num_partitions or 1,
                retention=topic.props.delete_policy or "",
            )
            for broker_id, topics in sorted(held.items())
            for name, topic in sorted(topics.items())
        ]
        if found:
            logger.warning("%d topics on Brokers were %s", len(found), "discarded" if discard else "taken over")
        return TopicsAdopted(adopted=[] if discard else found, discarded=found if discard else [])

    def _records(self, held: Mapping[int, Mapping[str, HeldTopic]]) -> list[Record]:
        now_ms = self._clock.wall_ms()
        stamp = Stamp(ADOPTED_BY, now_ms, ADOPTED_BY, now_ms)
        topics: dict[str, Record] = {}
        places: list[Record] = []
        for broker_id, found in held.items():
            base = self._catalogue.broker_props(broker_id)
            for name, topic in found.items():
                if name not in self._catalogue.topics:
                    size = topic.max_message_bytes or self._catalogue.cluster.max_message_bytes
                    topics.setdefault(name, TopicRecord(name, max_message_bytes=size, stamp=stamp))
                places.append(DeployRecord(name, broker_id, topic.status, _own(topic.props, base), stamp))
        return [*topics.values(), *places]


def _own(props: TopicProps, base: TopicProps) -> TopicProps:
    """Return only the properties that differ from the Broker's, so that the topic follows later changes of those."""
    same = {name: None for name in PROPS.values() if getattr(props, name) == getattr(base, name)}
    return replace(props, **same)
