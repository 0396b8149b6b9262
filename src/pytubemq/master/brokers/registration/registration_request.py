"""A Broker's registration, read before anything changes.

The invariant: it is read in slices between which the event loop runs, as it may name 100,000 topics.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytubemq.master.brokers.leases import read_leases
from pytubemq.master.brokers.registration.changed_settings import log_changes
from pytubemq.master.brokers.registration.unknown_topics import unknown_topics
from pytubemq.master.brokers.reported_topics import check_surplus, read_report, surplus_on
from pytubemq.master.brokers.slices import slices

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytubemq.master.brokers.broker_run import BrokerRun, HeldTopic
    from pytubemq.master.brokers.registration.claims import BrokerIdentity
    from pytubemq.master.catalogue.catalogue import Catalogue
    from pytubemq.model.topic import TopicConfig
    from pytubemq.wire.protocol.messages.master import RegisterRequestB2M
    from pytubemq.wire.text.partition_strings import SubscribeInfo


@dataclass(frozen=True, slots=True)
class Registration:
    """A registration with its texts parsed."""

    request: RegisterRequestB2M
    who: BrokerIdentity
    report: dict[str, TopicConfig]
    """Its topics, by the string that reports each."""
    topics: dict[str, TopicConfig]
    """The same by name."""
    unknown: dict[str, HeldTopic]
    """Topics that no record placed there when it was read."""
    surplus: int
    """The partitions beyond those of the records."""
    readers: tuple[SubscribeInfo, ...]

    @classmethod
    async def read(
        cls, request: RegisterRequestB2M, who: BrokerIdentity, catalogue: Catalogue, runs: Mapping[int, BrokerRun]
    ) -> Registration:
        """Read a request.

        Raises:
            FormatError: a text is not in its form, or more partitions are reported than the records explain.
            Refused: 400, there are more topics without a record than a Master keeps.
        """
        broker_id = who.broker_id
        report = await read_report(request.broker_default_conf_info, request.broker_topic_set_conf_info)
        unknown = await unknown_topics(request, broker_id, report, catalogue, runs)
        if not unknown:  # else it gets no orders, so nothing changes
            await log_changes(request, broker_id, report, catalogue)
        surplus = 0
        topics: dict[str, TopicConfig] = {}
        async for some in slices(report.values()):
            surplus += surplus_on(catalogue, broker_id, some)
            topics.update([(topic.name, topic) for topic in some])
        check_surplus(surplus)
        readers = await read_leases(request.leases)
        return cls(request, who, report, topics, unknown, surplus, readers)
