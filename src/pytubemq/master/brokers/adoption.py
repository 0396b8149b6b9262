"""The takeover of topics that Brokers hold and this Master does not know.

The invariant: a topic that is taken over has the settings that the Broker reported.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from pytubemq.master.brokers.configuration import PROPS
from pytubemq.master.views import TopicsAdopted, UnknownTopic
from pytubemq.model.records import DeployRecord, Stamp, TopicProps, TopicRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytubemq.master.brokers.broker_run import HeldTopic
    from pytubemq.master.brokers.brokers import Brokers
    from pytubemq.master.catalogue.catalogue import Catalogue
    from pytubemq.model.records import Record
    from pytubemq.net.clock import Clock

logger = logging.getLogger(__name__)

ADOPTED_BY = "adopted"
"""The user name in the records of topics that are taken over from a Broker."""


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
            self._brokers.held.wake(broker_id)
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
