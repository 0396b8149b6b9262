"""The main way through: Broker, topic, producer, consumer."""

from __future__ import annotations

import asyncio

import pytest

from pytubemq.wire.protocol.messages.master import EventProto
from tests.scenario.master.town import WAIT_MS, FakeConsumer, FakeProducer, town

pytestmark = pytest.mark.anyio


async def test_from_nothing_to_an_assignment() -> None:
    async with town() as t:
        broker = await t.broker()
        serving = asyncio.create_task(broker.serve())
        made = await t.master.create_topic("demo", 4)
        assert (made.name, made.partitions, made.places[0].ready) == ("demo", 4, True)

        producer = await t.peer(FakeProducer)
        assert (await producer.register()).broker_infos == ("1:127.0.0.9: ",)
        assert (await producer.heartbeat("demo", wait_ms=WAIT_MS)).topic_infos == ("demo#1:4:1#",)

        consumer = await t.peer(FakeConsumer)
        assert (await consumer.register()).not_allocated
        answer = await consumer.heartbeat(wait_ms=WAIT_MS)
        assert answer.event is not None
        assert answer.event.op_type == 10
        assert answer.event.subscribe_info == tuple(
            f"{consumer.client_id}@g#1:127.0.0.9:8123#demo:{n}" for n in range(4)
        )
        done = EventProto(rebalance_id=answer.event.rebalance_id, op_type=10, status=2)
        after = await consumer.heartbeat(done=done, holds=answer.event.subscribe_info)
        assert after.event is None
        assert after.not_allocated is False
        serving.cancel()
