"""A real Broker on loopback with its disk in memory, and a bare connection to it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pytubemq.broker.service import BrokerService, BrokerSettings
from pytubemq.errors import Code
from pytubemq.model.filters import NO_FILTER_CODE, filter_code
from pytubemq.model.ids import Address
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.model.topic import TopicConfig
from pytubemq.net.client.connection import RpcConnection
from pytubemq.storage.store_settings import StoreSettings
from pytubemq.testing.disk import FaultyDisk
from pytubemq.wire.batch import stored
from pytubemq.wire.batch.record_batch import encode_columns
from pytubemq.wire.batch.send_batches import decode_send_packs_response, encode_send_packs
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
    TopicPartition,
)
from pytubemq.wire.rpc.methods import Method
from pytubemq.wire.serialization.message_bytes import decode, encode
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

LOOPBACK = Address("127.0.0.1", 0)
TIMEOUT_S = 20.0
SINGLY = OURS & ~Capability.PACKS
"""Capabilities of a client to which record batches are given message by message."""


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


class Item(NamedTuple):
    """One message of several that are sent together."""

    partition_id: int
    payload: bytes
    flag: int = 0
    msg_type: str | None = None
    sequence: int | None = None


class ManyResults(NamedTuple):
    """The response to several messages; the three lists by position, empty where one code holds for all."""

    success: bool
    err_code: int
    err_msg: str
    err_codes: tuple[int, ...] = ()
    message_ids: tuple[int, ...] = ()
    offsets: tuple[int, ...] = ()


class Many:
    """Messages for any partitions as one request: a record batch for each partition, and another one wherever their
    sequence numbers do not follow each other."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._batches: list[list[tuple[int, Item]]] = []
        filling: dict[int, list[tuple[int, Item]]] = {}
        for at, one in enumerate(items):
            batch = filling.get(one.partition_id)
            follows = batch is not None and (one.sequence is None or one.sequence == (batch[-1][1].sequence or 0) + 1)
            if batch is None or not follows:
                batch = filling[one.partition_id] = []
                self._batches.append(batch)
            batch.append((at, one))

    def encode(
        self,
        client_id: str,
        topic: str,
        *,
        producer_id: int | None = None,
        epoch: int | None = None,
        refusals_seen: int | None = None,
    ) -> bytes:
        """Return the request."""
        packs = [
            (
                batch[0][1].partition_id,
                encode_columns(
                    [one.payload for _, one in batch],
                    [one.flag for _, one in batch],
                    [filter_code(one.msg_type) if one.msg_type else NO_FILTER_CODE for _, one in batch],
                ),
                batch[0][1].sequence,
            )
            for batch in self._batches
        ]
        return b"".join(
            encode_send_packs(client_id, topic, 0x7F000001, packs, producer_id, epoch, refusals_seen=refusals_seen)
        )

    def results(self, body: bytes) -> ManyResults:
        """Return the results that a response has for them."""
        response = decode_send_packs_response(body)
        found: dict[int, tuple[int, int, int]] = {}
        for batch, spans in zip(self._batches, response.results, strict=bool(response.results)):
            positions = iter(batch)
            for span in spans:
                for number in range(span.messages):
                    taken = span.code == Code.SUCCESS and span.first_offset >= 0
                    step = number if taken else 0
                    found[next(positions)[0]] = (
                        span.code,
                        span.first_message_id + step,
                        span.first_offset + step * OFFSET_UNIT,
                    )
        columns = tuple(zip(*[found[at] for at in sorted(found)], strict=True))
        return ManyResults(response.success, response.err_code, response.err_msg, *columns)


@dataclass(slots=True)
class Peer:
    """Says to a Broker what a client would say."""

    connection: RpcConnection
    client_id: str = "g_127.0.0.1-1-1-1-Pull-1.0"
    group: str = "g"
    topic: str = "demo"

    async def send(
        self,
        payload: bytes = b"hello",
        partition_id: int = 0,
        *,
        flag: int = 0,
        msg_type: str | None = None,
        topic: str | None = None,
    ) -> SendMessageResponseB2P:
        template = sends.SendTemplate(self.client_id, topic or self.topic, 0x7F000001)
        body = template.encode(partition_id, payload, flag, msg_type)
        response = await self.connection.call(Method.SEND_MESSAGE_P2B, 3, body, timeout_s=TIMEOUT_S)
        return decode(SendMessageResponseB2P, response.body)

    async def send_each(self, items: Sequence[Item]) -> ManyResults:
        """Send messages one after the other, so that each is stored on its own."""
        found = [await self.send(one.payload, one.partition_id, flag=one.flag, msg_type=one.msg_type) for one in items]
        refused = next((one for one in found if not one.success), None)
        return ManyResults(
            refused is None,
            Code.SUCCESS if refused is None else refused.err_code,
            "OK!" if refused is None else refused.err_msg,
            tuple(one.err_code for one in found),
            tuple(-1 if one.message_id is None else one.message_id for one in found),
            tuple(-1 if one.append_offset is None else one.append_offset for one in found),
        )

    async def send_many(
        self, items: Sequence[Item], *, timeout_s: float = TIMEOUT_S, **fields: int | None
    ) -> ManyResults:
        """Send messages with one request, as record batches."""
        many = Many(items)
        body = many.encode(self.client_id, self.topic, **fields)
        response = await self.connection.call(Method.SEND_PACKS_P2B, 3, body, timeout_s=timeout_s)
        return many.results(response.body)

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


def item(payload: bytes = b"x", partition_id: int = 0, msg_type: str | None = None) -> Item:
    """One message of several."""
    return Item(partition_id, payload, 0, msg_type)
