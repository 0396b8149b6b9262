"""A real Broker on loopback with its disk in memory, and a bare connection to it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytubemq.broker.service import BrokerService, BrokerSettings
from pytubemq.model.ids import Address
from pytubemq.model.topic import TopicConfig
from pytubemq.net.client.connection import RpcConnection
from pytubemq.storage.store.store import StoreSettings
from pytubemq.testing.disk import FaultyDisk
from pytubemq.wire.batch import stored
from pytubemq.wire.fast import sends
from pytubemq.wire.protocol.extensions import OURS, Capability
from pytubemq.wire.protocol.messages.broker import (
    CommitOffsetRequestC2B,
    CommitOffsetResponseB2C,
    GetMessageRequestC2B,
    GetMessageResponseB2C,
    HeartBeatRequestC2B,
    HeartBeatResponseB2C,
    RegisterRequestC2B,
    RegisterResponseB2C,
    SendMessageResponseB2P,
)
from pytubemq.wire.protocol.messages.extension import (
    PartitionOffsetsRequest,
    PartitionOffsetsResponse,
    ReadRangeRequestC2B,
    ReadRangeResponseB2C,
    SendBatchResponseB2P,
    TopicPartition,
)
from pytubemq.wire.rpc.methods import Method
from pytubemq.wire.serialization.message_bytes import decode, encode
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

LOOPBACK = Address("127.0.0.1", 0)
TIMEOUT_S = 20.0


def service(disk: FaultyDisk | None = None, **settings: Any) -> BrokerService:
    """A Broker that is not started; its disk is in memory unless given."""
    options: dict[str, Any] = {
        "broker_id": 1,
        "listen": LOOPBACK,
        "data_dir": Path("/data"),
        "topics": (TopicConfig("demo", 3),),
        "store": StoreSettings(reserve_bytes=0, journal_padding_bytes=0),
    }
    return BrokerService(BrokerSettings(**{**options, **settings}), disk=disk or FaultyDisk())


@contextlib.asynccontextmanager
async def running(disk: FaultyDisk | None = None, **settings: Any) -> AsyncIterator[BrokerService]:
    """A Broker that serves."""
    broker = service(disk, **settings)
    await broker.start()
    try:
        yield broker
    finally:
        await broker.close()


def apply_now(broker: BrokerService) -> None:
    """Have messages carried from the journal into their partitions' logs, which begins soon."""
    assert broker._applier is not None
    broker._applier._wake.set()


async def applied(broker: BrokerService) -> None:
    """The same, to its end: all messages are read from the disk now."""
    apply_now(broker)
    await until(lambda: broker.health()["unapplied_bytes"] == 0)


@contextlib.asynccontextmanager
async def connected(broker: BrokerService, *, capabilities: Capability = OURS) -> AsyncIterator[Peer]:
    """A connection to it."""
    connection = await RpcConnection.connect(broker.address, capabilities=capabilities)
    try:
        yield Peer(connection)
    finally:
        await connection.close()


@dataclass(slots=True)
class Peer:
    """Says to a Broker what a client would say."""

    connection: RpcConnection
    client_id: str = "g_127.0.0.1-1-1-1-Pull-1.0"
    group: str = "g"
    topic: str = "demo"

    async def send(
        self, payload: bytes = b"hello", partition_id: int = 0, *, msg_type: str | None = None, topic: str | None = None
    ) -> SendMessageResponseB2P:
        template = sends.SendTemplate(self.client_id, topic or self.topic, 0x7F000001)
        body = template.encode(partition_id, payload, 0, msg_type)
        response = await self.connection.call(Method.SEND_MESSAGE_P2B, 3, body, timeout_s=TIMEOUT_S)
        return decode(SendMessageResponseB2P, response.body)

    async def send_batch(
        self, items: Sequence[sends.BatchItem], *, timeout_s: float = TIMEOUT_S, refusals_seen: int | None = None
    ) -> SendBatchResponseB2P:
        body = sends.encode_send_batch(self.client_id, self.topic, 0x7F000001, items, refusals_seen=refusals_seen)
        response = await self.connection.call(Method.SEND_BATCH_P2B, 3, body, timeout_s=timeout_s)
        return decode(SendBatchResponseB2P, response.body)

    async def register(self, partition_id: int = 0, *, op_type: int = 31, **fields: Any) -> RegisterResponseB2C:
        request = RegisterRequestC2B(
            op_type=op_type,
            client_id=self.client_id,
            group_name=self.group,
            topic_name=self.topic,
            partition_id=partition_id,
            read_status=fields.pop("read_status", 0),
            **fields,
        )
        return await self.connection.request(
            request, RegisterResponseB2C, Method.CONSUMER_REGISTER_C2B, 2, timeout_s=TIMEOUT_S
        )

    async def heartbeat(self, *items: str) -> HeartBeatResponseB2C:
        request = HeartBeatRequestC2B(
            client_id=self.client_id, group_name=self.group, read_status=0, partition_info=items
        )
        return await self.connection.request(
            request, HeartBeatResponseB2C, Method.CONSUMER_HEARTBEAT_C2B, 2, timeout_s=TIMEOUT_S
        )

    async def get(
        self, partition_id: int = 0, **fields: Any
    ) -> tuple[GetMessageResponseB2C, list[stored.StoredMessage]]:
        request = GetMessageRequestC2B(
            client_id=self.client_id,
            partition_id=partition_id,
            group_name=self.group,
            topic_name=self.topic,
            **fields,
        )
        response = await self.connection.call(Method.GET_MESSAGE_C2B, 2, encode(request), timeout_s=TIMEOUT_S)
        return stored.decode_get_message(response.body)

    async def commit(self, partition_id: int = 0, **fields: Any) -> CommitOffsetResponseB2C:
        request = CommitOffsetRequestC2B(
            client_id=self.client_id,
            topic_name=self.topic,
            partition_id=partition_id,
            group_name=self.group,
            **fields,
        )
        return await self.connection.request(
            request, CommitOffsetResponseB2C, Method.CONSUMER_COMMIT_C2B, 2, timeout_s=TIMEOUT_S
        )

    async def read_range(
        self, offset: int, partition_id: int = 0, **fields: Any
    ) -> tuple[ReadRangeResponseB2C, list[stored.StoredMessage]]:
        request = ReadRangeRequestC2B(
            client_id=self.client_id, topic_name=self.topic, partition_id=partition_id, offset=offset, **fields
        )
        response = await self.connection.call(Method.READ_RANGE_C2B, 2, encode(request), timeout_s=TIMEOUT_S)
        return stored.decode_read_range(response.body)

    async def offsets(self, *partitions: tuple[str, int], **fields: Any) -> PartitionOffsetsResponse:
        request = PartitionOffsetsRequest(
            client_id=self.client_id,
            partitions=tuple(TopicPartition(topic_name=topic, partition_id=number) for topic, number in partitions),
            **fields,
        )
        return await self.connection.request(
            request, PartitionOffsetsResponse, Method.PARTITION_OFFSETS, 2, timeout_s=TIMEOUT_S
        )


def item(payload: bytes = b"x", partition_id: int = 0, msg_type: str | None = None) -> sends.BatchItem:
    """One message of a batch."""
    return sends.BatchItem(partition_id, payload, 0, msg_type, None, None)
