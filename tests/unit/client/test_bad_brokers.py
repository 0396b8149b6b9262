"""Producers at Brokers of the original's ways, some of which fail: they are left out, and come back by themselves."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest

from pytubemq import connect
from pytubemq.core import routing
from pytubemq.core.retry import Backoff
from pytubemq.errors import MessageError
from pytubemq.testing.mock_broker import SILENCE, MockBroker
from pytubemq.wire.protocol.extensions import Capability
from pytubemq.wire.protocol.messages.broker import SendMessageResponseB2P
from pytubemq.wire.rpc.methods import Method

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pytubemq import Producer

pytestmark = pytest.mark.anyio

JAVA = Capability(0)
HOUR_S = 3600.0


@pytest.fixture
def long_shield(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Broker that failed is left out until it answers to something else."""
    monkeypatch.setattr(routing, "SHIELD", Backoff(first_s=HOUR_S, most_s=HOUR_S, jitter=0.0))


@pytest.fixture
def short_shield(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "SHIELD", Backoff(first_s=0.02, most_s=0.05, jitter=0.0))


@contextlib.asynccontextmanager
async def two(**options: float) -> AsyncIterator[tuple[MockBroker, MockBroker, Producer]]:
    """Two Brokers of one cluster, and a producer that has sent to both."""
    async with (
        MockBroker(topics={"demo": 1}, capabilities=JAVA, broker_id=1) as one,
        MockBroker(topics={"demo": 1}, capabilities=JAVA, broker_id=2) as other,
    ):
        one.peers.append(other)
        async with connect(one.masters, **options) as tube, tube.producer("demo") as producer:  # type: ignore[arg-type]
            await asyncio.gather(*(producer.send(b"first") for _ in range(2)))
            assert one.bodies("demo") == other.bodies("demo") == [b"first"]
            yield one, other, producer


def closed(_call: object, _request: object) -> SendMessageResponseB2P:
    """What a Broker answers that takes nothing now."""
    return SendMessageResponseB2P(success=False, err_code=503, err_msg="write is stopped")


@pytest.mark.usefixtures("long_shield")
async def test_a_broker_that_refuses_to_serve_is_left_out() -> None:
    async with two() as (one, other, producer):
        other.respond_fn(Method.SEND_MESSAGE_P2B, closed)
        before = len(other.received(Method.SEND_MESSAGE_P2B))
        for number in range(10):
            await producer.send(b"%d" % number)
        assert sorted(one.bodies("demo")) == sorted([b"first", *(b"%d" % number for number in range(10))])
        assert len(other.received(Method.SEND_MESSAGE_P2B)) == before + 1, "asked once, then left out"


@pytest.mark.usefixtures("long_shield")
async def test_a_broker_that_does_not_answer_is_left_out() -> None:
    async with two(request_timeout_s=0.2) as (one, other, producer):
        other.respond_fn(Method.SEND_MESSAGE_P2B, lambda _call, _request: SILENCE)
        for number in range(10):
            await producer.send(b"%d" % number)
        assert len(one.bodies("demo")) == 11
        assert other.bodies("demo") == [b"first"]


@pytest.mark.usefixtures("short_shield")
async def test_a_broker_that_serves_again_is_used_again() -> None:
    async with two() as (_, other, producer):
        other.respond_fn(Method.SEND_MESSAGE_P2B, closed)
        for number in range(4):
            await producer.send(b"%d" % number)
        assert other.bodies("demo") == [b"first"]
        other.respond_fn(Method.SEND_MESSAGE_P2B, None)
        async with asyncio.timeout(30):
            while len(other.bodies("demo")) < 3:
                await producer.send(b"again")


@pytest.mark.usefixtures("short_shield")
async def test_a_broker_that_comes_back_is_connected_to_again() -> None:
    async with two() as (one, other, producer):
        await other.stop_broker()
        for number in range(4):
            await producer.send(b"%d" % number)
        assert len(one.bodies("demo")) == 5
        await other.start_broker()
        async with asyncio.timeout(30):
            while len(other.bodies("demo")) < 2:
                await producer.send(b"again")


@pytest.mark.usefixtures("long_shield")
async def test_when_all_are_bad_none_is_left_out() -> None:
    async with two() as (one, other, producer):
        for mock in (one, other):
            mock.fail_next(Method.SEND_MESSAGE_P2B, code=503, times=2)
        await asyncio.gather(*(producer.send(b"%d" % number) for number in range(4)))
        assert len(one.bodies("demo")) + len(other.bodies("demo")) == 6


async def test_single_messages_are_under_way_together() -> None:
    async with (
        MockBroker(topics={"demo": 1}, capabilities=JAVA) as mock,
        connect(mock.masters) as tube,
        tube.producer("demo") as producer,
    ):
        await producer.send(b"first")
        waiting = asyncio.Event()
        arrived: list[object] = []

        async def together(call: object, request: object) -> None:
            arrived.append(request)
            if len(arrived) == 50:
                waiting.set()
            await waiting.wait()

        mock.respond_fn(Method.SEND_MESSAGE_P2B, together)
        async with asyncio.timeout(30):
            receipts = await asyncio.gather(*(producer.send(b"%d" % number) for number in range(50)))
        assert sorted(receipt.offset or 0 for receipt in receipts) == [28 * number for number in range(1, 51)]


async def test_clients_of_one_tube_share_one_connection_per_peer() -> None:
    async with MockBroker(topics={"demo": 1, "other": 1}) as mock, connect(mock.masters) as tube:
        async with tube.producer("demo") as one, tube.producer("other") as two_, tube.consumer("g", "demo") as consumer:
            await asyncio.gather(one.send(b"a"), two_.send(b"b"))
            await consumer.next_batch(timeout_s=0.05)
        peers: dict[bool, set[str]] = {True: set(), False: set()}
        for recorded in mock.requests:
            peers[recorded.method in (Method.SEND_MESSAGE_P2B, Method.CONSUMER_REGISTER_C2B)].add(recorded.peer)
        assert len(peers[True]) == 1, "one connection to the Broker"


async def test_two_tubes_share_no_connection() -> None:
    async with (
        MockBroker(topics={"demo": 1}) as mock,
        connect(mock.masters) as one,
        connect(mock.masters) as other,
        one.producer("demo") as producer,
        other.producer("demo") as second,
    ):
        await asyncio.gather(producer.send(b"a"), second.send(b"b"))
        peers = {recorded.peer for recorded in mock.requests if recorded.method is Method.SEND_MESSAGE_P2B}
        assert len(peers) == 2


async def test_the_topics_own_maximum_is_checked_before_anything_is_sent() -> None:
    async with MockBroker(topics={"demo": 1}, capabilities=JAVA) as mock, connect(mock.masters) as tube:
        mock.max_message_bytes = 10
        async with tube.producer("demo") as producer:
            await producer.send(b"x" * 10)
            with pytest.raises(MessageError, match="the topic takes at most 10") as caught:
                await producer.send(b"x" * 11)
        assert caught.value.code == 445
        assert len(mock.received(Method.SEND_MESSAGE_P2B)) == 1
