"""Questions about topics and partitions that need neither a producer nor a group.

The invariant: nothing is changed by asking.
"""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pytubemq.client.look import PartitionLook
from pytubemq.client.patience import patiently
from pytubemq.client.routes import Directory, TopicRoutes, topic_missing
from pytubemq.core.reset_target import with_zone
from pytubemq.errors import (
    Code,
    ConfigError,
    NotFoundError,
    NotRegisteredError,
    TransportError,
    TubeError,
    UnavailableError,
    UnreachableError,
)
from pytubemq.model.ids import Address, Partition
from pytubemq.model.names import check_topic
from pytubemq.wire.extensions import Capability
from pytubemq.wire.messages.extension import (
    PartitionEnds,
    PartitionOffsetsRequest,
    PartitionOffsetsResponse,
    TopicPartition,
)
from pytubemq.wire.methods import Method

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytubemq.client.cluster import Cluster
    from pytubemq.net.connection import RpcConnection


MAX_NAMED = 100_000
"""Named partitions kept in mind; beyond that they are forgotten and asked for again."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
REFRESH_S = 1.0
"""The Master is asked for the Brokers' addresses at most so often, however many partitions are waiting for one."""


class Lookup:
    """Asks the Master for partitions and the Brokers for offsets."""

    def __init__(self, cluster: Cluster, *, retry_for_s: float) -> None:
        """`retry_for_s` bounds how long a Master or Broker that is away is waited for."""
        self._cluster = cluster
        self._retry_for_s = retry_for_s
        self._directory = Directory(cluster, ())
        self._registered = False
        self._one = asyncio.Lock()
        self._refreshed_s = float("-inf")
        self._untried = set(cluster.brokers)
        """Brokers that another process has told of, and nobody has tried yet."""
        self._named: set[Partition] = set()
        """What the Master has named, to tell a partition that is not there yet from one that nobody knows."""
        self.client_id = self._directory.client_id

    async def close(self) -> None:
        """Leave the Master, if it knows us."""
        if self._registered:
            self._registered = False
            await self._directory.goodbye()

    async def partitions(self, topic: str) -> list[Partition]:
        """All partitions of a topic, sorted, those of Brokers that are away included.

        Raises:
            NotFoundError: there is no such topic.
        """
        check_topic(topic)
        return await patiently(lambda: self._partitions(topic), for_s=self._retry_for_s, rng=self._cluster.rng)

    async def partitions_of(self, topics: Sequence[str]) -> dict[str, list[Partition]]:
        """All partitions of several topics, sorted; a topic that does not exist is left out."""
        for topic in topics:
            check_topic(topic)
        return await patiently(lambda: self._partitions_of(topics), for_s=self._retry_for_s, rng=self._cluster.rng)

    async def topic_names(self) -> tuple[str, ...]:
        """The names of all topics, sorted.

        Raises:
            ConfigError: the Master does not tell them (Java Masters).
        """
        return await patiently(self._topic_names, for_s=self._retry_for_s, rng=self._cluster.rng)

    async def _topic_names(self) -> tuple[str, ...]:
        async with self._one:
            try:
                await self._enter()
                return await self._directory.ask_names()
            except NotRegisteredError:
                self._registered = False
                raise

    async def refresh(self, topic: str) -> None:
        """Hear from the Master where the Brokers are now; what was heard within `REFRESH_S` will do.

        Raises:
            TubeError: the Master does not tell.
        """
        loop = asyncio.get_running_loop()
        async with self._one:
            if loop.time() - self._refreshed_s < REFRESH_S:
                return
            self._refreshed_s = loop.time()
            await self._ask(topic)

    async def renew_token(self, topic: str) -> None:
        """Hear the Master's newest visit token; the one we have stays if it does not tell."""
        with contextlib.suppress(TubeError):
            await self.refresh(topic)

    async def offsets(
        self, partitions: Iterable[Partition], *, at: datetime | None = None
    ) -> dict[Partition, tuple[int, int]]:
        """The first readable offset of each partition, and the one its next message gets.

        With `at` the first one is that of the first message appended then or later, or the next one if there is none.

        Raises:
            ConfigError: a Broker cannot tell, or not by time.
            NotFoundError: a Broker does not have one of them.
            UnavailableError: a Broker is not known to the Master.
            UnreachableError: a Broker is away; the text names it.
        """
        looks = await self.look(partitions, at=at)
        return {
            partition: (look.min_offset if look.at_offset is None else look.at_offset, look.max_offset)
            for partition, look in looks.items()
        }

    async def look(
        self, partitions: Iterable[Partition], *, at: datetime | None = None, group: str | None = None
    ) -> dict[Partition, PartitionLook]:
        """What the Brokers say about partitions; with `at` by time, with `group` how far it has confirmed.

        Raises: as `offsets`.
        """
        by_broker: dict[int, list[Partition]] = {}
        for partition in partitions:
            by_broker.setdefault(partition.broker_id, []).append(partition)
        at_ms = None if at is None else time_ms(at)
        answers = await asyncio.gather(
            *(self._look(broker, asked, at_ms, group) for broker, asked in by_broker.items())
        )
        return {partition: look for answer in answers for partition, look in answer.items()}

    async def capabilities(self, partitions: Iterable[Partition]) -> dict[int, Capability]:
        """What each Broker that has some of these partitions can do.

        Raises:
            UnavailableError: a Broker is not known to the Master.
            UnreachableError: a Broker is away; the text names it.
        """
        topics = {partition.broker_id: partition.topic for partition in partitions}

        async def ask(broker_id: int) -> Capability:
            topic = topics[broker_id]
            try:
                address = await self._address(broker_id, topic)
                return (await self._cluster.probed(address, client_id=self.client_id)).capabilities
            except TransportError as error:
                raise _away(broker_id, topic, error) from error

        return dict(zip(topics, await asyncio.gather(*map(ask, topics)), strict=True))

    async def connection(self, broker_id: int, topic: str, needed: Capability, what: str) -> RpcConnection:
        """A connection to a Broker that can do what is `needed`."""
        connection = await self._cluster.probed(await self._address(broker_id, topic), client_id=self.client_id)
        if needed not in connection.capabilities:
            raise ConfigError(
                f"the Broker {broker_id} at {connection.peer} cannot {what}: it is not a pytubemq Broker",
                hint="read it with a consumer group instead:  tube.consumer(group, topic)",
            )
        return connection

    async def _partitions(self, topic: str) -> list[Partition]:
        found = await self._partitions_of((topic,))
        if topic not in found:
            raise topic_missing(topic)
        return found[topic]

    async def _partitions_of(self, topics: Sequence[str]) -> dict[str, list[Partition]]:
        async with self._one:
            routes = await self._ask(*topics)
        found = {topic: list(routes[topic].partitions) for topic in topics if topic in routes}
        if len(self._named) + sum(map(len, found.values())) > MAX_NAMED:
            self._named.clear()
        self._named.update(*found.values())
        return found

    async def _ask(self, *topics: str) -> dict[str, TopicRoutes]:
        self._directory.topics = topics
        try:
            await self._enter()
            return await self._directory.ask(deployed=True)
        except NotRegisteredError:
            self._registered = False  # forgotten between two questions: nobody sends heartbeats for this one
            raise

    async def _enter(self) -> None:
        if not self._registered:
            await self._directory.register()
            self._registered = True

    async def _address(self, broker_id: int, topic: str) -> Address:
        """Where a Broker is now; a dead connection is reason to ask the Master again, for it may have moved."""
        known = self._cluster.brokers.get(broker_id)
        if known is not None and broker_id in self._untried:
            self._untried.discard(broker_id)
            return known
        if known is None or self._cluster.pool.peek(known) is None:
            try:
                await self._partitions(topic)
            except NotFoundError:
                if known is None:
                    raise
        return self._cluster.address_of(broker_id)

    async def _look(
        self, broker_id: int, asked: list[Partition], at_ms: int | None, group: str | None
    ) -> dict[Partition, PartitionLook]:
        named = self._named.issuperset(asked)
        try:
            return await patiently(
                lambda: self._look_once(broker_id, asked, at_ms, group),
                for_s=self._retry_for_s,
                rng=self._cluster.rng,
                # what the Master has named, its Broker will have in a moment
                briefly_too=named,
                renew_token=lambda: self.renew_token(asked[0].topic),
            )
        except TransportError as error:
            raise _away(broker_id, asked[0].topic, error) from error

    async def _look_once(
        self, broker_id: int, asked: list[Partition], at_ms: int | None, group: str | None
    ) -> dict[Partition, PartitionLook]:
        connection = await self.connection(broker_id, asked[0].topic, Capability.PARTITION_OFFSETS, "tell offsets")
        if at_ms is not None and Capability.OFFSET_BY_TIME not in connection.capabilities:
            raise ConfigError(
                f"the Broker {broker_id} at {connection.peer} cannot find offsets by time",
                hint="bring it to this version, or give an offset",
            )
        answer = await self._cluster.ask_broker(
            connection,
            PartitionOffsetsRequest(
                client_id=self.client_id,
                partitions=tuple(
                    TopicPartition(topic_name=partition.topic, partition_id=partition.partition_id)
                    for partition in asked
                ),
                group_names=() if group is None else (group,),
                not_before_ms=at_ms,
                auth_info=self._cluster.auth_info,
            ),
            PartitionOffsetsResponse,
            Method.PARTITION_OFFSETS,
        )
        groups = {(one.topic_name, one.partition_id): one for one in answer.groups}
        found: dict[Partition, PartitionLook] = {}
        for ends in answer.partitions:
            stands = groups.get((ends.topic_name, ends.partition_id))
            found[Partition(broker_id, ends.topic_name, ends.partition_id)] = PartitionLook(
                ends.min_offset,
                ends.max_offset,
                size_bytes=ends.size_bytes,
                at_offset=None if at_ms is None else _by_time(ends),
                position=None if stands is None else stands.confirmed_offset,
                held_by=None if stands is None else stands.consumer_id,
            )
        for partition in asked:
            if partition not in found:
                raise NotFoundError(f"partition {partition} does not exist", code=Code.NOT_FOUND)
        return {partition: found[partition] for partition in asked}


def _away(broker_id: int, topic: str, error: TransportError) -> UnreachableError:
    return UnreachableError(
        f"Broker {broker_id}, which has partitions of topic {topic!r}, is away: {error.message}",
        hint="start it again; until then only part of the topic can be read",
    )


def time_ms(time: datetime) -> int:
    """Milliseconds since 1970, the next whole one; a time without a zone is one of this machine's clock."""
    return -((_EPOCH - with_zone(time)) // timedelta(milliseconds=1))


def _by_time(ends: PartitionEnds) -> int:
    if ends.offset_by_time is None:
        raise UnavailableError(
            f"the Broker did not tell the offset by time of partition {ends.partition_id} of {ends.topic_name}",
            code=Code.SERVICE_UNAVAILABLE,
        )
    return max(ends.offset_by_time, ends.min_offset)
