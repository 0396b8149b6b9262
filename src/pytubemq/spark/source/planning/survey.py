"""The driver's view of the topics that are read: partitions, their ends, and the Brokers' capabilities.

The invariants: an answer has all partitions of all topics or there is none, since a query would silently read a part;
nothing is changed by asking.
"""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from pytubemq.errors import ConfigError, TubeError
from pytubemq.model.limits import MAX_TOPICS_PER_CLIENT
from pytubemq.model.missing_topic import topic_missing
from pytubemq.spark.source.options import JavaReads, SourceOptions
from pytubemq.spark.source.planning.plan import BrokerKind, Ends
from pytubemq.spark.source.read.source_connection import Cluster, ends_of
from pytubemq.wire.protocol.extensions import Capability

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from pytubemq.client.partition_state import Known
    from pytubemq.model.ids import Partition
    from pytubemq.sync import Tube

PARTITIONS_KNOWN_S: Final = 2.0
"""Seconds for which the Master's response about topics and partitions holds; ends are asked of Brokers each time."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_OURS: Final = Capability.READ_RANGE | Capability.PARTITION_OFFSETS


class Survey:
    """The topics of one read, as the driver sees them."""

    def __init__(self, options: SourceOptions) -> None:
        self.cluster = Cluster(options.masters)
        self._options = options
        self._partitions: list[Partition] = []
        self._kinds: dict[int, BrokerKind] = {}
        self._asked_s: float | None = None
        self._read_before = False

    def ends(self, *, needed: Collection[Partition] = ()) -> dict[Partition, Ends]:
        """Fetch the ends of all partitions; wait for Brokers that are away, and for partitions that are `needed`.

        There is no answer without a Broker on which a topic is deployed. When a needed partition is not among the
        topics' within `OUTAGE_S`, the answer is without it.

        Raises:
            NotFoundError: a topic does not exist.
            ConfigError: a Broker cannot do what the options ask for; there are too many topics.
            TransportError: the Masters or a Broker could not be reached in time; the text names it.
        """
        found = self.cluster.retried(
            self._ask, needed=needed, read_before=self._read_before, again=self._partitions_are_old
        )
        self._read_before = True
        return found

    def kind(self, partition: Partition) -> BrokerKind:
        """Return the protocol by which the partition is read."""
        return self._kinds.get(partition.broker_id, BrokerKind.OURS)

    def kinds(self) -> dict[Partition, BrokerKind]:
        """Return the protocol by which each partition is read; waits for Brokers that are away.

        Raises:
            TubeError: as `ends`.
        """

        def ask() -> dict[Partition, BrokerKind]:
            found = self._find()
            self.cluster.reached()
            self._learn_kinds(found)
            return {partition: self.kind(partition) for partition in found}

        return self.cluster.retried(ask)

    def any_java(self) -> bool:
        """True if a Java Broker has one of the partitions; asked once, without retries.

        Raises:
            TubeError: the cluster did not answer, or cannot do what the options ask for.
        """
        found = self._find()
        self._learn_kinds(found)
        return any(self.kind(partition) is BrokerKind.JAVA for partition in found)

    def at_time(self, partitions: Collection[Partition], time_ms: int) -> dict[Partition, int | None]:
        """Find the first message appended then or later; None where there is none.

        Raises:
            ConfigError: a Broker cannot say (Java Brokers).
        """
        self._only_ours(partitions, by_time=True, what="")
        at = _EPOCH + timedelta(milliseconds=time_ms)
        looks = self.cluster.retried(lambda: self.cluster.tube().look(partitions, at=at))
        return {
            partition: None if look.at_offset is None or look.at_offset >= look.max_offset else look.at_offset
            for partition, look in looks.items()
        }

    def of_group(self, partitions: Collection[Partition], group: str) -> dict[Partition, int | None]:
        """Return the group's confirmed offset; None where it has confirmed nothing.

        Raises:
            ConfigError: a Broker cannot say (Java Brokers).
        """
        self._only_ours(partitions, what="does not report a group's position")
        looks = self.cluster.retried(lambda: self.cluster.tube().look(partitions, group=group))
        return {partition: look.position for partition, look in looks.items()}

    def known(self) -> Known:
        """Return the knowledge of the cluster that a task needs, so that it need not ask a Master."""
        return self.cluster.tube().known

    def _ask(self) -> dict[Partition, Ends]:
        if self._asked_s is None or time.monotonic() - self._asked_s > PARTITIONS_KNOWN_S:
            self._partitions = self._find()
            self._learn_kinds(self._partitions)
            self._asked_s = time.monotonic()
        ours = [one for one in self._partitions if self.kind(one) is BrokerKind.OURS]
        java = [one for one in self._partitions if self.kind(one) is BrokerKind.JAVA]
        ends = ends_of(self.cluster, ours) if ours else {}
        return {**ends, **self._java_ends(java)} if java else ends

    def _find(self) -> list[Partition]:
        tube = self.cluster.tube()
        names: Sequence[str] = self._options.topics.names
        pattern = self._options.topics.pattern
        if pattern is not None:
            wanted = re.compile(pattern)
            names = [name for name in tube.topics() if wanted.fullmatch(name)]
            self.cluster.reached()
        if len(names) > MAX_TOPICS_PER_CLIENT:
            raise ConfigError(
                f"{len(names)} topics are to be read, but at most {MAX_TOPICS_PER_CLIENT} can be",
                hint="name fewer, or make the pattern narrower",
            )
        found = tube.partitions_of(names) if names else {}
        missing = [name for name in names if name not in found]
        if missing and pattern is None:
            raise topic_missing(*missing, known=known_topics(tube))
        return [partition for name in names for partition in found.get(name, ())]

    def _learn_kinds(self, partitions: Iterable[Partition]) -> None:
        new = [one for one in partitions if one.broker_id not in self._kinds]
        if not new:
            return
        for broker_id, capabilities in self.cluster.tube().capabilities(new).items():
            ours = capabilities & _OURS == _OURS
            self._kinds[broker_id] = BrokerKind.OURS if ours else BrokerKind.JAVA
        options = self._options
        if options.filters:
            self._only_ours(new, what="cannot filter a range by message type, which the option filters needs")
        if options.limits.max_bytes is not None:
            self._only_ours(new, what="does not report the bytes that maxBytesPerTrigger counts; use maxRowsPerTrigger")
        if options.commit_group is not None:
            self._only_ours(new, what="cannot publish progress for commitGroup")

    def _only_ours(self, partitions: Iterable[Partition], *, what: str, by_time: bool = False) -> None:
        for partition in partitions:
            if self.kind(partition) is BrokerKind.OURS:
                continue
            if by_time:
                from pytubemq.spark.source.java.partition_ends import refuse_time

                raise refuse_time(partition)
            raise ConfigError(
                f"the Broker {partition.broker_id} of {partition} {what}: it is a Java Broker",
                hint="leave the option out, or read from pytubemq Brokers",
            )

    def _java_ends(self, partitions: Sequence[Partition]) -> dict[Partition, Ends]:
        from pytubemq.spark.source.java.partition_ends import java_ends

        found = java_ends(
            self._options.masters,
            partitions,
            read_group=self._options.read_group,
            flushed_only=self._options.java_reads is JavaReads.FLUSHED,
        )
        self.cluster.reached()
        return found

    def _partitions_are_old(self) -> None:
        self._asked_s = None


def known_topics(tube: Tube) -> list[str] | None:
    """Return the names of all topics for an error; None if the Master does not name them, as a Java Master."""
    try:
        return tube.topics()
    except TubeError:
        return None
