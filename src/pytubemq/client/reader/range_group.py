"""One partition registered for a group of its own: the way to read a range from Brokers without READ_RANGE.

Java Brokers hand out messages to registered consumers only, give no message's offset and take no end. What they do give
is where a fetch began and, when it is confirmed, where the next one will begin. That is all that is used here.

The invariant: one `GroupRange` lives on one connection, under one client id. So a fetch that arrives late from an
earlier try is refused (412) instead of moving this one's place, and a Broker that restarted meanwhile, and may have
lost messages, is never taken for the one that answered before.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytubemq.client.options import ConnectOptions
from pytubemq.client.session.cluster_connection import Cluster, check
from pytubemq.client.session.metadata import MetadataClient
from pytubemq.client.session.registration_requests import UNREGISTER_TIMEOUT_S
from pytubemq.client.session.requests import DISCARD, REGISTER, UNREGISTER
from pytubemq.errors import ClosedError, Code, CorruptError, TransportError, TubeError
from pytubemq.model.limits import DEFAULT_REQUEST_TIMEOUT_S
from pytubemq.wire.batch.fetch_batches import decode_get_message
from pytubemq.wire.batch.stored import StoredMessage
from pytubemq.wire.protocol.messages.broker import (
    CommitOffsetRequestC2B,
    CommitOffsetResponseB2C,
    GetMessageRequestC2B,
    RegisterRequestC2B,
    RegisterResponseB2C,
)
from pytubemq.wire.rpc.methods import Method, Service
from pytubemq.wire.serialization.message_bytes import encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.client.partition_state import Known
    from pytubemq.model.cluster_address import ClusterAddress
    from pytubemq.model.ids import Address, Partition
    from pytubemq.net.client.connection import RpcConnection

EVERYTHING: Final = 301
"""`qryPriorityId`: also messages that the Broker has in memory only (its level 3)."""
FLUSHED: Final = 101
"""`qryPriorityId`: only messages that the Broker has flushed to disk (its level 1)."""
READ_STATUS_STORED: Final = 0
"""`readStatus` of a registration with an offset."""


@dataclass(frozen=True, slots=True)
class PartitionPosition:
    """The offset at which a registration begins, and the one that the partition's next message gets."""

    at: int
    newest: int


@dataclass(frozen=True, slots=True)
class FetchedRange:
    """The result of one fetch: the partition's messages in [start, end), in order.

    `newest` is the offset that the next message gets; `flushed` where what is on disk ends, if the Broker said so;
    `wait_s` how long the Broker wants no further fetch (its flow control), 0 if it does not mind.
    """

    records: tuple[StoredMessage, ...]
    start: int
    end: int
    newest: int
    flushed: int | None = None
    wait_s: float = 0.0


class GroupRanges:
    """A connection to a cluster that registers single partitions; `open` it, then `hold`."""

    def __init__(
        self,
        masters: Sequence[Address] | ClusterAddress,
        *,
        client_name: str = "",
        retry_for_s: float = DEFAULT_REQUEST_TIMEOUT_S,
        known: Known | None = None,
    ) -> None:
        """`known`: state that another process has passed on; then no Master is asked before that is needed."""
        self._cluster = Cluster(ConnectOptions(masters, client_name=client_name, known=known))
        self._metadata = MetadataClient(self._cluster, retry_for_s=retry_for_s)

    async def open(self) -> None:
        """Connect to a Master.

        Raises:
            UnreachableError: none answers.
        """
        await self._cluster.open()

    async def close(self) -> None:
        """Leave the Master and close every connection. Idempotent, bounded in time."""
        if self._cluster.closed:
            return
        try:
            with contextlib.suppress(TubeError, TimeoutError):
                await self._metadata.close()
        finally:
            await self._cluster.close()

    def hold(
        self, partition: Partition, *, group: str, flushed_only: bool = False, filters: Sequence[str] = ()
    ) -> GroupRange:
        """Return a partition to be registered for `group`; nothing is sent yet."""
        return GroupRange(self, partition, group, flushed_only=flushed_only, filters=tuple(filters))

    async def renew_token(self, topic: str) -> None:
        """Refresh the visit token from the Master, for a Broker that refused the present one (415)."""
        await self._metadata.renew_token(topic)

    @property
    def cluster(self) -> Cluster:
        """The connections and addresses."""
        return self._cluster

    async def connection(self, partition: Partition) -> RpcConnection:
        """Return a connection to a partition's Broker, at the address that the Master reports now.

        Raises:
            TubeError: the Master does not name it, or it cannot be reached.
        """
        cluster = self._cluster
        cluster.check_usable()
        address = cluster.brokers.get(partition.broker_id)
        if address is None:
            await self._metadata.refresh(partition.topic)
            return await cluster.pool.get(cluster.address_of(partition.broker_id))
        try:
            return await cluster.pool.get(address)
        except TransportError:
            with contextlib.suppress(TubeError):
                await self._metadata.refresh(partition.topic)  # perhaps it is somewhere else now
            if cluster.address_of(partition.broker_id) == address:
                raise
        return await cluster.pool.get(cluster.address_of(partition.broker_id))


class GroupRange:
    """One partition, registered for a group over one connection. Made by `GroupRanges.hold`; not for concurrent use."""

    def __init__(
        self, ranges: GroupRanges, partition: Partition, group: str, *, flushed_only: bool, filters: tuple[str, ...]
    ) -> None:
        self.partition = partition
        self.group = group
        self._ranges = ranges
        self._cluster = ranges.cluster
        self._priority = FLUSHED if flushed_only else EVERYTHING
        self._filters = filters
        self._client_id = self._cluster.client_id(group=group, kind="Pull")
        self._connection: RpcConnection | None = None
        self._at = 0

    async def begin(self, offset: int) -> PartitionPosition:
        """Register the partition from `offset` on; called again it moves there, over the same connection.

        The Broker moves an offset that it does not have to the nearest one that it has: compare `PartitionPosition.at`.

        Raises:
            OccupiedError: another client holds it for this group.
            TubeError: the Broker refuses, or cannot be reached.
        """
        if self._connection is None:
            self._connection = await self._ranges.connection(self.partition)
        response = await self._cluster.call_broker(
            self._connection,
            RegisterRequestC2B(
                op_type=REGISTER,
                client_id=self._client_id,
                group_name=self.group,
                topic_name=self.partition.topic,
                partition_id=self.partition.partition_id,
                read_status=READ_STATUS_STORED,
                filter_cond_str=self._filters,
                curr_offset=offset,
                qry_priority_id=self._priority,
                auth_info=self._cluster.auth_info_of(self._client_id),
            ),
            RegisterResponseB2C,
            Method.CONSUMER_REGISTER_C2B,
        )
        self._at = self._require(response.curr_offset, "where reading begins")
        return PartitionPosition(self._at, self._require(response.max_offset, "where it ends"))

    async def fetch(self) -> FetchedRange:
        """Return the next messages and their end; no message is no error. What was fetched does not come again.

        Raises:
            NotRegisteredError, NotAllowedError: the Broker holds it for us no more.
            TubeError: the Broker refuses, or cannot be reached.
        """
        connection = self._held()
        request = GetMessageRequestC2B(
            client_id=self._client_id,
            partition_id=self.partition.partition_id,
            group_name=self.group,
            topic_name=self.partition.topic,
            last_pack_consumed=False,
            manual_commit_offset=False,
            esc_flow_ctrl=False,
        )
        timeout_s = self._cluster.options.request_timeout_s
        response = await connection.call(
            Method.GET_MESSAGE_C2B, Service.BROKER_READ, encode(request), timeout_s=timeout_s
        )
        fetched = decode_get_message(response.body)
        head = fetched.head
        started, wait_s = self._at, 0.0
        records: tuple[StoredMessage, ...] = ()
        if head.err_code == Code.SERVER_CONSUME_SPEED_LIMIT:
            wait_s = max(head.min_limit_time or 0, 1) / 1000
        elif head.err_code != Code.NOT_FOUND:
            check(head)
            records = tuple(record for record in fetched.records if isinstance(record, StoredMessage))
            started = self._require(head.curr_offset, "where a fetch began")
        settled = await self._settle(connection)
        return FetchedRange(records, started, self._at, settled, _offset_or_none(head.max_offset), wait_s)

    async def settle(self) -> int:
        """Return the offset that the partition's next message gets, by the cheapest request there is.

        Raises:
            NotRegisteredError, NotAllowedError: the Broker holds it for us no more.
            TubeError: the Broker refuses, or cannot be reached.
        """
        return await self._settle(self._held())

    async def end(self) -> None:
        """Unregister. Idempotent, bounded in time; if that fails, the registration ends with the Broker's lease (30
        s)."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        request = RegisterRequestC2B(
            op_type=UNREGISTER,
            client_id=self._client_id,
            group_name=self.group,
            topic_name=self.partition.topic,
            partition_id=self.partition.partition_id,
            read_status=DISCARD,
            auth_info=self._cluster.auth_info_of(self._client_id),
        )
        with contextlib.suppress(TubeError, TimeoutError):
            await self._cluster.call_broker(
                connection,
                request,
                RegisterResponseB2C,
                Method.CONSUMER_REGISTER_C2B,
                timeout_s=UNREGISTER_TIMEOUT_S,
            )

    async def _settle(self, connection: RpcConnection) -> int:
        response = await self._cluster.call_broker(
            connection,
            CommitOffsetRequestC2B(
                client_id=self._client_id,
                topic_name=self.partition.topic,
                partition_id=self.partition.partition_id,
                group_name=self.group,
                last_pack_consumed=True,
            ),
            CommitOffsetResponseB2C,
            Method.CONSUMER_COMMIT_C2B,
        )
        self._at = self._require(response.curr_offset, "where the next fetch begins")
        return self._require(response.max_offset, "where it ends")

    def _held(self) -> RpcConnection:
        if self._connection is None:
            raise ClosedError(f"partition {self.partition} is not registered", hint="call begin first")
        return self._connection

    def _require(self, offset: int | None, what: str) -> int:
        known = _offset_or_none(offset)
        if known is None:
            raise CorruptError(f"the Broker of {self.partition} did not return {what}")
        return known


def _offset_or_none(offset: int | None) -> int | None:
    """Return None for -1, which Brokers report for what they do not know."""
    return None if offset is None or offset < 0 else offset
