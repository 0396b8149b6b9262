"""A partition that another member has taken meanwhile: what was fetched of it is not ours any more."""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING

import pytest

from pytubemq import Partition, Start, connect
from pytubemq.errors import NotFoundError, StaleBatchError
from pytubemq.testing.mock_broker import SILENCE, MockBroker
from pytubemq.wire.protocol.messages.broker import RegisterResponseB2C
from pytubemq.wire.rpc.methods import Method
from tests.support.waiting import until

if TYPE_CHECKING:
    from pytubemq import BalanceConsumer, Tube

pytestmark = pytest.mark.anyio

DEMO = {"demo": 1}
P0 = Partition(1, "demo", 0)
TAKEN = RegisterResponseB2C(success=False, err_code=410, err_msg="held by another one")


def cluster() -> MockBroker:
    """One with two messages."""
    mock = MockBroker(topics=DEMO)
    mock.store("demo", b"a", b"b")
    return mock


def manual(tube: Tube) -> BalanceConsumer:
    """A consumer that connects to nothing by itself."""
    return tube.balance_consumer("g", "demo", manual=True, start=Start.EARLIEST)


async def taken_away(mock: MockBroker, consumer: BalanceConsumer) -> None:
    """The connection breaks, and before it is back another member has the partition."""
    mock.respond_fn(Method.CONSUMER_REGISTER_C2B, lambda _call, _request: TAKEN)
    mock.drop_connections()
    await until(lambda: not consumer.connected)


async def test_a_batch_that_waits_is_not_handed_out() -> None:
    async with cluster() as mock, connect(mock.masters) as tube, manual(tube) as consumer:
        await consumer.connect(P0)
        consumer.batches(max_messages=1)
        await until(lambda: consumer.stats.fetched)
        await taken_away(mock, consumer)
        assert await consumer.next_batch(timeout_s=0.05) is None


async def test_what_is_fetched_anew_takes_the_place_of_what_was_lost() -> None:
    async with cluster() as mock, connect(mock.masters) as tube, manual(tube) as consumer:
        await consumer.connect(P0)
        consumer.batches(max_messages=1)
        await until(lambda: consumer.stats.fetched)
        for _ in range(3):
            fetched = consumer.stats.fetched
            mock.drop_connections()
            await until(functools.partial(lambda before: consumer.stats.fetched > before, fetched))
        assert len(consumer._ready) == 1  # however long nobody takes it
        batch = await consumer.next_batch(timeout_s=10)
        assert batch is not None
        await batch.confirm()
        await consumer.disconnect(P0)
        assert not consumer._ready


async def test_a_batch_in_hand_says_so_at_once() -> None:
    async with (
        cluster() as mock,
        connect(mock.masters, request_timeout_s=60.0) as tube,
        manual(tube) as consumer,
        asyncio.timeout(30),
    ):
        await consumer.connect(P0)
        batch = await anext(consumer.batches(max_messages=1))
        await taken_away(mock, consumer)
        with pytest.raises(StaleBatchError, match="held by another one"):
            await batch.confirm()
        with pytest.raises(StaleBatchError):
            await batch.reject()
        with pytest.raises(NotFoundError):
            await consumer.seek(P0, 0)


async def test_a_confirm_under_way_ends_at_once() -> None:
    async with (
        cluster() as mock,
        connect(mock.masters, request_timeout_s=60.0) as tube,
        manual(tube) as consumer,
        asyncio.timeout(30),
    ):
        await consumer.connect(P0)
        batch = await anext(consumer.batches(max_messages=1))
        mock.respond_fn(Method.CONSUMER_COMMIT_C2B, lambda _call, _request: SILENCE)
        confirming = asyncio.create_task(batch.confirm())
        await mock.until(lambda: mock.received(Method.CONSUMER_COMMIT_C2B))
        await taken_away(mock, consumer)
        with pytest.raises(StaleBatchError, match="held by another one"):
            await confirming


async def test_a_seek_under_way_ends_at_once() -> None:
    async with (
        cluster() as mock,
        connect(mock.masters, request_timeout_s=60.0) as tube,
        manual(tube) as consumer,
        asyncio.timeout(30),
    ):
        await consumer.connect(P0)
        mock.respond_fn(Method.CONSUMER_REGISTER_C2B, lambda _call, _request: TAKEN)
        with pytest.raises(StaleBatchError, match="held by another one"):
            await consumer.seek(P0, 0)
        assert consumer.connected == frozenset()
