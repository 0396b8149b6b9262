"""The client for metadata of topics and partitions, without a producer or a group.

The invariant: its requests change nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pytubemq.client.partition_state import PartitionLook
from pytubemq.client.session.call_with_retry import call_with_retry
from pytubemq.client.session.routes import RouteDiscovery, TopicRoutes, known_topics
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
from pytubemq.model.missing_topic import topic_missing
from pytubemq.model.names import check_topic
from pytubemq.wire.protocol.extensions import Capability
from pytubemq.wire.protocol.messages.extension import (
    PartitionEnds,
    PartitionOffsetsRequest,
    PartitionOffsetsResponse,
    TopicPartition,
)
from pytubemq.wire.rpc.methods import Method

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytubemq.client.session.cluster_connection import Cluster
    from pytubemq.net.client.connection import RpcConnection


MAX_NAMED = 100_000
"""Partitions that are remembered; beyond that they are forgotten and requested again."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
REFRESH_S = 1.0
"""Shortest period of requests for the Brokers' addresses, however many partitions wait for one."""


class MetadataClient:
    """The client that requests partitions from the Master and offsets from the Brokers."""

    def __init__(self, cluster: Cluster, *, retry_for_s: float) -> None:
        """`retry_for_s` bounds the retries while a Master or Broker is away."""
        self._cluster = cluster
        self._retry_for_s = retry_for_s
        self._discovery = RouteDiscovery(cluster, ())
        self._registered = False
        self._lock = asyncio.Lock()
        self._refreshed_s = float("-inf")
        self._untried = set(cluster.brokers)
        """Brokers known from another process that were not used yet."""
        self._named: set[Partition] = set()
        """Partitions that the Master has named, to distinguish one not there yet from one that does not exist."""
        self.client_id = self._discovery.client_id

    async def close(self) -> None:
        """Leave the Master, if registered."""
        if self._registered:
            self._registered = False
            await self._discovery.goodbye()

    async def partitions(self, topic: str) -> list[Partition]:
        """Return all partitions of a topic, sorted, those of Brokers that are away included.

        Raises:
            NotFoundError: there is no such topic.
        """
        check_topic(topic)
        return await call_with_retry(lambda: self._partitions(topic), for_s=self._retry_for_s, rng=self._cluster.rng)

    async def partitions_of(self, topics: Sequence[str]) -> dict[str, list[Partition]]:
        """Return all partitions of several topics, sorted; a topic that does not exist is left out."""
        for topic in topics:
            check_topic(topic)
        return await call_with_retry(
            lambda: self._partitions_of(topics), for_s=self._retry_for_s, rng=self._cluster.rng
        )

    async def topic_names(self) -> tuple[str, ...]:
        """Return the names of all topics, sorted.

        Raises:
            ConfigError: the Master does not name them (Java Masters).
        """
        return await call_with_retry(self._topic_names, for_s=self._retry_for_s, rng=self._cluster.rng)

    async def _topic_names(self) -> tuple[str, ...]:
        async with self._lock:
            try:
                await self._enter()
                return await self._discovery.list_topics()
            except NotRegisteredError:
                self._registered = False
                raise

    async def refresh(self, topic: str) -> None:
        """Refresh the Brokers' addresses from the Master, unless that was done within `REFRESH_S`.

        Raises:
            TubeError: the Master does not say.
        """
        loop = asyncio.get_running_loop()
        async with self._lock:
            if loop.time() - self._refreshed_s < REFRESH_S:
                return
            self._refreshed_s = loop.time()
            await self._request_routes(topic)

    async def renew_token(self, topic: str) -> None:
        """Refresh the visit token from the Master; the present one stays if that fails."""
        with contextlib.suppress(TubeError):
            await self.refresh(topic)

    async def offsets(
        self, partitions: Iterable[Partition], *, at: datetime | None = None
    ) -> dict[Partition, tuple[int, int]]:
        """Return the first readable offset of each partition, and the one its next message gets.

        With `at` the first one is that of the first message appended then or later, or the next one if there is none.

        Raises:
            ConfigError: a Broker cannot say, or not by time.
            NotFoundError: a Broker does not have one of them.
            UnavailableError: a Broker is not known to the Master.
            UnreachableError: a Broker is away; the text names it.
        """
        states = await self.partition_states(partitions, at=at)
        return {
            partition: (state.min_offset if state.at_offset is None else state.at_offset, state.max_offset)
            for partition, state in states.items()
        }

    async def partition_states(
        self, partitions: Iterable[Partition], *, at: datetime | None = None, group: str | None = None
    ) -> dict[Partition, PartitionLook]:
        """Return the state of partitions at their Brokers; with `at` by time, with `group` with its position.

        Raises: as `offsets`.
        """
        by_broker: dict[int, list[Partition]] = {}
        for partition in partitions:
            by_broker.setdefault(partition.broker_id, []).append(partition)
        at_ms = None if at is None else time_ms(at)
        responses = await asyncio.gather(
            *(self._broker_states(broker, theirs, at_ms, group) for broker, theirs in by_broker.items())
        )
        return {partition: state for response in responses for partition, state in response.items()}

    async def capabilities(self, partitions: Iterable[Partition]) -> dict[int, Capability]:
        """Return the capabilities of each Broker of these partitions.

        Raises:
            UnavailableError: a Broker is not known to the Master.
            UnreachableError: a Broker is away; the text names it.
        """
        topics = {partition.broker_id: partition.topic for partition in partitions}

        async def capabilities_of(broker_id: int) -> Capability:
            topic = topics[broker_id]
            try:
                address = await self._address(broker_id, topic)
                return (await self._cluster.get_probed(address, client_id=self.client_id)).capabilities
            except TransportError as error:
                raise _away_error(broker_id, topic, error) from error

        return dict(zip(topics, await asyncio.gather(*map(capabilities_of, topics)), strict=True))

    async def connection(self, broker_id: int, topic: str, needed: Capability, what: str) -> RpcConnection:
        """Return a connection to a Broker that has the capability `needed`."""
        connection = await self._cluster.get_probed(await self._address(broker_id, topic), client_id=self.client_id)
        if needed not in connection.capabilities:
            raise ConfigError(
                f"the Broker {broker_id} at {connection.peer} cannot {what}: it is not a pytubemq Broker",
                hint="read it with a consumer group instead:  tube.consumer(group, topic)",
            )
        return connection

    async def _partitions(self, topic: str) -> list[Partition]:
        found = await self._partitions_of((topic,))
        if topic not in found:
            raise topic_missing(topic, known=await known_topics(self._discovery))
        return found[topic]

    async def _partitions_of(self, topics: Sequence[str]) -> dict[str, list[Partition]]:
        async with self._lock:
            routes = await self._request_routes(*topics)
        found = {topic: list(routes[topic].partitions) for topic in topics if topic in routes}
        if len(self._named) + sum(map(len, found.values())) > MAX_NAMED:
            self._named.clear()
        self._named.update(*found.values())
        return found

    async def _request_routes(self, *topics: str) -> dict[str, TopicRoutes]:
        self._discovery.topics = topics
        try:
            await self._enter()
            return await self._discovery.request_routes(deployed=True)
        except NotRegisteredError:
            self._registered = False  # forgotten between two questions: nobody sends heartbeats for this one
            raise

    async def _enter(self) -> None:
        if not self._registered:
            await self._discovery.register()
            self._registered = True

    async def _address(self, broker_id: int, topic: str) -> Address:
        """Return the address of a Broker; after a dead connection ask the Master again, for it may have moved."""
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

    async def _broker_states(
        self, broker_id: int, partitions: list[Partition], at_ms: int | None, group: str | None
    ) -> dict[Partition, PartitionLook]:
        named = self._named.issuperset(partitions)
        try:
            return await call_with_retry(
                lambda: self._request_states(broker_id, partitions, at_ms, group),
                for_s=self._retry_for_s,
                rng=self._cluster.rng,
                # what the Master has named, its Broker will have in a moment
                briefly_too=named,
                renew_token=lambda: self.renew_token(partitions[0].topic),
            )
        except TransportError as error:
            raise _away_error(broker_id, partitions[0].topic, error) from error

    async def _request_states(
        self, broker_id: int, partitions: list[Partition], at_ms: int | None, group: str | None
    ) -> dict[Partition, PartitionLook]:
        connection = await self.connection(
            broker_id, partitions[0].topic, Capability.PARTITION_OFFSETS, "report offsets"
        )
        if at_ms is not None and Capability.OFFSET_BY_TIME not in connection.capabilities:
            raise ConfigError(
                f"the Broker {broker_id} at {connection.peer} cannot find offsets by time",
                hint="upgrade it to this version, or give an offset",
            )
        response = await self._cluster.call_broker(
            connection,
            PartitionOffsetsRequest(
                client_id=self.client_id,
                partitions=tuple(
                    TopicPartition(topic_name=partition.topic, partition_id=partition.partition_id)
                    for partition in partitions
                ),
                group_names=() if group is None else (group,),
                not_before_ms=at_ms,
                auth_info=self._cluster.auth_info_of(self.client_id),
            ),
            PartitionOffsetsResponse,
            Method.PARTITION_OFFSETS,
        )
        groups = {(one.topic_name, one.partition_id): one for one in response.groups}
        found: dict[Partition, PartitionLook] = {}
        for ends in response.partitions:
            position = groups.get((ends.topic_name, ends.partition_id))
            found[Partition(broker_id, ends.topic_name, ends.partition_id)] = PartitionLook(
                ends.min_offset,
                ends.max_offset,
                size_bytes=ends.size_bytes,
                at_offset=None if at_ms is None else _by_time(ends),
                position=None if position is None else position.confirmed_offset,
                held_by=None if position is None else position.consumer_id,
            )
        for partition in partitions:
            if partition not in found:
                raise NotFoundError(f"partition {partition} does not exist", code=Code.NOT_FOUND)
        return {partition: found[partition] for partition in partitions}


def _away_error(broker_id: int, topic: str, error: TransportError) -> UnreachableError:
    return UnreachableError(
        f"Broker {broker_id}, which has partitions of topic {topic!r}, is away: {error.message}",
        hint="start it again; until then only part of the topic can be read",
    )


def time_ms(time: datetime) -> int:
    """Return milliseconds since 1970, rounded up; a time without a zone is one of this machine's clock."""
    return -((_EPOCH - with_zone(time)) // timedelta(milliseconds=1))


def _by_time(ends: PartitionEnds) -> int:
    if ends.offset_by_time is None:
        raise UnavailableError(
            f"the Broker did not return the offset by time of partition {ends.partition_id} of {ends.topic_name}",
            code=Code.SERVICE_UNAVAILABLE,
        )
    return max(ends.offset_by_time, ends.min_offset)
