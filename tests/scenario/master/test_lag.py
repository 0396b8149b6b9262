"""Lag: asked of the Brokers, with the ones that cannot be asked named."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import NotFoundError, UnavailableError
from pytubemq.master.registry.topic_change import topic_change
from pytubemq.model.ids import Address
from pytubemq.net.server.server import RpcServer
from pytubemq.wire.protocol.extensions import Capability
from pytubemq.wire.protocol.messages.broker import HeartBeatResponseB2C
from pytubemq.wire.protocol.messages.extension import (
    GroupPosition,
    PartitionEnds,
    PartitionOffsetsRequest,
    PartitionOffsetsResponse,
)
from pytubemq.wire.protocol.messages.master import EventProto
from pytubemq.wire.rpc.methods import Method, Service
from pytubemq.wire.serialization.message_bytes import decode, encode
from tests.scenario.master.town import WAIT_MS, FakeBroker, FakeConsumer, town

if TYPE_CHECKING:
    from pytubemq.net.server.call import Call

pytestmark = pytest.mark.anyio

GONE = Address("127.0.0.9", 1)


def answer_offsets(call: Call) -> None:
    """Partition n holds messages 1 to 10; the groups g and old have confirmed up to message 4 of partition 0."""
    request = decode(PartitionOffsetsRequest, call.request.body)
    groups = ("g", "old") if request.all_groups else request.group_names
    call.reply(
        encode(
            PartitionOffsetsResponse(
                success=True,
                err_code=200,
                err_msg="OK!",
                partitions=tuple(
                    PartitionEnds(topic_name="demo", partition_id=n, min_offset=28, max_offset=280) for n in range(2)
                ),
                groups=tuple(
                    GroupPosition(group_name=name, topic_name="demo", partition_id=0, confirmed_offset=112)
                    for name in groups
                    if name in ("g", "old")
                ),
            )
        )
    )


async def test_lag_is_exact_and_a_broker_that_is_gone_is_named() -> None:
    server = RpcServer(
        {Method.PARTITION_OFFSETS: answer_offsets}, offered=frozenset({Service.BROKER_READ}), name="broker"
    )
    address = await server.start(Address("127.0.0.1", 0))
    async with town(inspect_timeout_s=5.0) as t:
        one = await t.broker(1, address=address)
        serving = [asyncio.create_task(one.serve())]
        await t.master.create_topic("demo", 2)
        consumer = await t.peer(FakeConsumer)
        await consumer.register()
        told = await consumer.heartbeat(wait_ms=WAIT_MS)
        assert told.event is not None
        balancing = await t.master.group("g")
        assert (balancing.state, balancing.member_list[0].pending) == ("balancing", "ONLY_CONNECT")
        await consumer.heartbeat(done=EventProto(rebalance_id=told.event.rebalance_id, op_type=10))

        found = await t.master.group("g")
        assert (found.state, found.members, found.lag_messages) == ("stable", 1, 6 + 9)
        assert [(line.partition, line.confirmed, line.lag_messages) for line in found.lag] == [
            ("1:demo:0", 112, 6),
            ("1:demo:1", None, 9),
        ]
        assert {line.holder for line in found.lag} == {consumer.client_id}
        assert [(group.name, group.state, group.lag_messages) for group in await t.master.groups()] == [
            ("g", "stable", 15),
            ("old", "empty", 6),
        ]
        assert (await t.master.group("old")).member_list == []
        topic = await t.master.topic("demo")
        assert (topic.messages, topic.partition_list[1].min_offset) == (18, 28)

        two = await t.broker(2, address=GONE)
        serving.append(asyncio.create_task(two.serve()))
        found = await t.master.group("g")
        assert len(found.unreachable) == 1
        assert f"broker 2 at {GONE}" in found.unreachable[0]
        assert found.lag_messages == 15, "it carries nothing of this group"
        for task in serving:
            task.cancel()
    await server.close()


@pytest.mark.parametrize("most", [1, 10_000])
async def test_a_group_with_more_positions_than_one_answer_holds_is_shown_whole(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr("pytubemq.master.broker_inspector.MAX_INSPECTED_PER_REQUEST", most)

    def answer_few(call: Call) -> None:
        asked = decode(PartitionOffsetsRequest, call.request.body).partitions
        if len(asked) != 1:
            refusal = PartitionOffsetsResponse(success=False, err_code=400, err_msg="too many positions")
            call.reply(encode(refusal))
            return
        number = asked[0].partition_id
        ends = PartitionEnds(topic_name="demo", partition_id=number, min_offset=28, max_offset=280)
        position = GroupPosition(group_name="g", topic_name="demo", partition_id=number, confirmed_offset=112)
        call.reply(
            encode(
                PartitionOffsetsResponse(
                    success=True, err_code=200, err_msg="OK!", partitions=(ends,), groups=(position,)
                )
            )
        )

    server = RpcServer({Method.PARTITION_OFFSETS: answer_few}, offered=frozenset({Service.BROKER_READ}), name="broker")
    address = await server.start(Address("127.0.0.1", 0))
    async with town(inspect_timeout_s=5.0) as t:
        broker = await t.broker(1, address=address)
        serving = asyncio.create_task(broker.serve())
        await t.master.create_topics({"demo": topic_change(partitions=5)})
        assert [line.confirmed for line in (await t.master.group("g")).lag] == [112] * 5
        assert [(group.name, group.lag_messages) for group in await t.master.groups()] == [("g", 30)]
        serving.cancel()
    await server.close()


async def test_while_brokers_are_away_no_group_is_said_not_to_be() -> None:
    async with town() as t:
        assert await t.master.groups() == []
        with pytest.raises(NotFoundError, match="no group gw"):
            await t.master.group("gw")
        broker = await t.peer(FakeBroker, broker_id=1, address=GONE)
        await broker.register()  # it is on its way, and not online yet
        named = f"broker 1 at {GONE}: it is away"
        with pytest.raises(UnavailableError, match=named):
            await t.master.group("gw")
        with pytest.raises(UnavailableError, match=named):
            await t.master.groups()
        assert (await t.master.group_resets("gw")).unreachable == [named]


async def test_a_broker_of_the_original_is_named_as_such_and_not_asked() -> None:
    def refuse_all(call: Call) -> None:
        asked.append(call.request.method)
        call.reply(encode(HeartBeatResponseB2C(success=True, err_code=200, err_msg="OK!")))

    asked: list[int] = []
    server = RpcServer(
        {Method.CONSUMER_HEARTBEAT_C2B: refuse_all, Method.PARTITION_OFFSETS: refuse_all},
        offered=frozenset({Service.BROKER_READ}),
        capabilities=Capability(0),
        name="the original's broker",
    )
    address = await server.start(Address("127.0.0.1", 0))
    async with town() as t:
        serving = asyncio.create_task((await t.broker(1, address=address)).serve())
        made = await t.master.create_topic("demo", 1)
        assert made.messages is None
        assert made.partition_list[0].max_offset is None
        assert made.unreachable == []
        assert f"broker 1 at {address} is not a pytubemq Broker" in made.unsupported[0]
        await t.master.groups()
        assert set(asked) == {Method.CONSUMER_HEARTBEAT_C2B}, "a question of ours was never asked"
        serving.cancel()
    await server.close()
