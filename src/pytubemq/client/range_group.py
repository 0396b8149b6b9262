"""One partition held for a group of one's own, straight at its Broker: how a range is read where READ_RANGE is missing.

Java Brokers hand out messages to registered consumers only, tell no message's offset and take no end. What they do tell
is where a fetch began and, when it is confirmed, where the next one will begin. That is all that is used here.

The invariant: one `GroupRange` lives on one connection, under one client id. So a fetch that arrives late from an
earlier try is refused (412) instead of moving this one's place, and a Broker that restarted meanwhile, and may have
lost messages, is never taken for the one that answered before.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytubemq.client.asks import DISCARD, REGISTER, UNREGISTER
from pytubemq.client.cluster import Cluster, check
from pytubemq.client.lookup import Lookup
from pytubemq.client.options import ConnectOptions
from pytubemq.client.registration import UNREGISTER_TIMEOUT_S
from pytubemq.errors import ClosedError, Code, CorruptError, TransportError, TubeError
from pytubemq.wire.codec import encode
from pytubemq.wire.messages.broker import (
    CommitOffsetRequestC2B,
    CommitOffsetResponseB2C,
    GetMessageRequestC2B,
    RegisterRequestC2B,
    RegisterResponseB2C,
)
from pytubemq.wire.methods import Method, Service
from pytubemq.wire.pack_fetch import decode_get_message
from pytubemq.wire.stored import StoredMessage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.client.look import Known
    from pytubemq.model.ids import Address, Partition
    from pytubemq.net.connection import RpcConnection

EVERYTHING: Final = 301
"""`qryPriorityId`: also what the Broker holds in memory only (its level 3)."""
FLUSHED: Final = 101
"""`qryPriorityId`: only what the Broker has flushed to disk (its level 1)."""
READ_STATUS_STORED: Final = 0
"""`readStatus` of a registration that says where to begin."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a registration begins, and the offset that the partition's next message gets."""

    at: int
    newest: int


@dataclass(frozen=True, slots=True)
class Taken:
    """What one fetch brought: the partition's messages in [start, end), in order.

    `newest` is the offset that the next message gets; `flushed` where what is on disk ends, if the Broker told;
    `wait_s` how long the Broker wants no further fetch (its flow control), 0 if it does not mind.
    """

    records: tuple[StoredMessage, ...]
    start: int
    end: int
    newest: int
    flushed: int | None = None
    wait_s: float = 0.0


class GroupRanges:
    """The way to a cluster for those who hold single partitions; `open` it, then `hold`."""

    def __init__(
        self,
        masters: Sequence[Address],
        *,
        client_name: str = "",
        retry_for_s: float = 10.0,
        known: Known | None = None,
    ) -> None:
        """`known`: what another process has learned of the cluster; then no Master is asked before that is needed."""
        self._cluster = Cluster(masters, ConnectOptions(client_name=client_name, known=known))
        self._lookup = Lookup(self._cluster, retry_for_s=retry_for_s)

    async def open(self) -> None:
        """Reach a Master.

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
                await self._lookup.close()
        finally:
            await self._cluster.close()

    def hold(
        self, partition: Partition, *, group: str, flushed_only: bool = False, filters: Sequence[str] = ()
    ) -> GroupRange:
        """A partition to be held for `group`; nothing is asked yet."""
        return GroupRange(self, partition, group, flushed_only=flushed_only, filters=tuple(filters))

    async def renew_token(self, topic: str) -> None:
        """Hear the Master's newest visit token, for a Broker that did not know the one it was shown (415)."""
        await self._lookup.renew_token(topic)

    @property
    def cluster(self) -> Cluster:
        """Connections and addresses."""
        return self._cluster

    async def connection(self, partition: Partition) -> RpcConnection:
        """A connection to a partition's Broker, where the Master says that it is now.

        Raises:
            TubeError: the Master does not name it, or it cannot be reached.
        """
        cluster = self._cluster
        cluster.check_usable()
        address = cluster.brokers.get(partition.broker_id)
        if address is None:
            await self._lookup.refresh(partition.topic)
            return await cluster.pool.get(cluster.address_of(partition.broker_id))
        try:
            return await cluster.pool.get(address)
        except TransportError:
            with contextlib.suppress(TubeError):
                await self._lookup.refresh(partition.topic)  # perhaps it is somewhere else now
            if cluster.address_of(partition.broker_id) == address:
                raise
        return await cluster.pool.get(cluster.address_of(partition.broker_id))


class GroupRange:
    """One partition, held for one group over one connection. Made by `GroupRanges.hold`; not for concurrent use."""

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

    async def begin(self, offset: int) -> Standing:
        """Hold the partition from `offset` on; called again it moves there, over the same connection.

        The Broker moves an offset that it does not have to the nearest one that it has: compare `Standing.at`.

        Raises:
            OccupiedError: another client holds it for this group.
            TubeError: the Broker refuses, or cannot be reached.
        """
        if self._connection is None:
            self._connection = await self._ranges.connection(self.partition)
        answer = await self._cluster.ask_broker(
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
                auth_info=self._cluster.auth_info,
            ),
            RegisterResponseB2C,
            Method.CONSUMER_REGISTER_C2B,
        )
        self._at = self._told(answer.curr_offset, "where reading begins")
        return Standing(self._at, self._told(answer.max_offset, "where it ends"))

    async def fetch(self) -> Taken:
        """The next messages, and where they end; no message is no error. What was fetched does not come again.

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
            started = self._told(head.curr_offset, "where a fetch began")
        settled = await self._settle(connection)
        return Taken(records, started, self._at, settled, _known(head.max_offset), wait_s)

    async def settle(self) -> int:
        """Ask for the offset that the partition's next message gets, with the cheapest question there is.

        Raises:
            NotRegisteredError, NotAllowedError: the Broker holds it for us no more.
            TubeError: the Broker refuses, or cannot be reached.
        """
        return await self._settle(self._held())

    async def end(self) -> None:
        """Hold it no more. Idempotent, bounded in time; what cannot be told ends with the Broker's lease (30 s)."""
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
            auth_info=self._cluster.auth_info,
        )
        with contextlib.suppress(TubeError, TimeoutError):
            await self._cluster.ask_broker(
                connection,
                request,
                RegisterResponseB2C,
                Method.CONSUMER_REGISTER_C2B,
                timeout_s=UNREGISTER_TIMEOUT_S,
            )

    async def _settle(self, connection: RpcConnection) -> int:
        answer = await self._cluster.ask_broker(
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
        self._at = self._told(answer.curr_offset, "where the next fetch begins")
        return self._told(answer.max_offset, "where it ends")

    def _held(self) -> RpcConnection:
        if self._connection is None:
            raise ClosedError(f"partition {self.partition} is not held", hint="call begin first")
        return self._connection

    def _told(self, offset: int | None, what: str) -> int:
        known = _known(offset)
        if known is None:
            raise CorruptError(f"the Broker of {self.partition} did not tell {what}")
        return known


def _known(offset: int | None) -> int | None:
    """Brokers say -1 for what they do not know."""
    return None if offset is None or offset < 0 else offset
