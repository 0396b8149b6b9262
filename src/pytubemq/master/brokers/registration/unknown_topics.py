"""Topics that a Broker's registration reports and this Master does not know, as after a loss of its metadata.

The invariant: a Broker that holds such topics gets no configuration and no removals, so it goes on as it is until an
operator decides.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from pytubemq.core.refusal import Refused
from pytubemq.errors import BadRequestError, Code, MessageError
from pytubemq.master.brokers.broker_run import HeldTopic
from pytubemq.master.brokers.configuration import DEFAULTS, PROPS
from pytubemq.master.brokers.slices import slices
from pytubemq.model.durability import parse_durability
from pytubemq.model.limits import MAX_UNKNOWN_TOPICS
from pytubemq.model.names import check_topic
from pytubemq.model.policy import KEEP
from pytubemq.model.records import TopicProps, TopicStatus
from pytubemq.model.topic import HISTORY_TOPIC
from pytubemq.wire.text.configuration import (
    check_layout,
    parse_broker_default_conf,
    parse_broker_topic_conf,
    parse_topic_values,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pytubemq.master.brokers.broker_run import BrokerRun
    from pytubemq.master.catalogue.catalogue import Catalogue
    from pytubemq.model.topic import TopicConfig
    from pytubemq.wire.protocol.messages.master import RegisterRequestB2M
    from pytubemq.wire.text.configuration import BrokerDefaultConf, BrokerTopicConf

logger = logging.getLogger(__name__)


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
        Refused: 400, Brokers hold more of them than the Master keeps.
        FormatError: a string is not in the form of the protocol.
    """
    texts: list[str] = []
    async for some in slices(report.items()):
        texts += [text for text, topic in some if broker_id not in catalogue.deployed(topic.name)]
    _check_room(broker_id, len(texts), runs)
    text = request.broker_default_conf_info
    defaults = parse_broker_default_conf(text) if text and text.strip() else DEFAULTS
    durability = parse_topic_values(request.held_durability, "a topic's durability")
    retention = parse_topic_values(request.held_retention, "a topic's retention")
    found = {}
    problem, unreadable = "", 0
    async for some_texts in slices(texts):
        for conf in map(parse_broker_topic_conf, some_texts):
            if conf.topic == HISTORY_TOPIC:
                continue
            try:
                check_topic(conf.topic)
                props = _props(conf, defaults, durability.get(conf.topic), retention.get(conf.topic))
                found[conf.topic] = HeldTopic(conf.topic, TopicStatus(conf.status), props, conf.max_message_bytes)
            except (MessageError, BadRequestError, ValueError) as error:
                problem, unreadable = problem or str(error), unreadable + 1
    if unreadable:  # one line for all, since there may be very many
        logger.warning(
            "broker %d reports %d topics that cannot be read and are ignored, the first because %s",
            broker_id,
            unreadable,
            problem,
        )
    stored = await _stored_topics(request.stored_topics, lambda topic: broker_id in catalogue.deployed(topic))
    held = stored | found
    _check_room(broker_id, len(held), runs)
    return held


def _check_room(broker_id: int, count: int, runs: Mapping[int, BrokerRun]) -> None:
    """Refuse more topics that no record has than a Master keeps. Raises Refused."""
    if not count:
        return
    others = sum(len(run.unknown) for run in runs.values() if run.broker_id != broker_id)
    if others + count > MAX_UNKNOWN_TOPICS:
        raise Refused(
            Code.BAD_REQUEST,
            f"broker {broker_id} reports {count} topics that no record has, other Brokers {others}, and "
            f"{MAX_UNKNOWN_TOPICS} are allowed; take these over or discard them first",
        )


async def _stored_topics(texts: Iterable[str], is_known: Callable[[str], bool]) -> dict[str, HeldTopic]:
    """Return the topics of a Broker's store, whose settings nobody knows: nothing of them is deleted by a guess."""
    found = {}
    async for some in slices(texts):
        for conf in map(parse_broker_topic_conf, some):
            if is_known(conf.topic) or conf.topic == HISTORY_TOPIC:
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
