"""Confirms whose Broker is away, refuses, or gives the partition to somebody else."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq import ConfirmFailed, Partition, Start, connect
from pytubemq.client.consumer import confirms as confirms_module
from pytubemq.client.consumer import consumer_base as base_module
from pytubemq.errors import Code, RefusedError, StaleBatchError
from pytubemq.testing.mock_broker import MockBroker
from pytubemq.wire.rpc.methods import Method
from tests.support.events import kept_events
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pytubemq.client.consumer.consumer import Consumer
    from pytubemq.client.received.batch import Batch
    from pytubemq.client.tube import Tube

pytestmark = pytest.mark.anyio
DEMO = {"demo": 1}
P0 = Partition(1, "demo", 0)
REQUEST_TIMEOUT_S = 0.3


@contextlib.asynccontextmanager
async def scene(*bodies: bytes) -> AsyncIterator[tuple[MockBroker, Tube, Consumer]]:
    """A consumer at a Broker that holds `bodies`, one in a batch."""
    async with (
        MockBroker(topics=DEMO) as mock,
        connect(mock.masters, request_timeout_s=REQUEST_TIMEOUT_S) as tube,
        asyncio.timeout(30),
    ):
        mock.store("demo", *bodies)
        async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
            consumer.batches(max_messages=1, max_wait_s=0.05)
            yield mock, tube, consumer


async def taken(consumer: Consumer) -> Batch:
    batch = await consumer.next_batch()
    assert batch is not None
    return batch


async def confirm_fails(consumer: Consumer) -> None:
    with pytest.raises(RefusedError):
        await (await taken(consumer)).confirm()


def fetches(mock: MockBroker) -> int:
    return len(mock.received(Method.GET_MESSAGE_C2B))


async def test_a_confirm_outlasts_a_broker_that_is_away_for_longer_than_a_request_may_take() -> None:
    async with scene(b"a", b"b") as (mock, _, consumer):
        batch = await taken(consumer)
        await mock.stop_broker()
        confirm = asyncio.create_task(batch.confirm())
        await asyncio.wait([confirm], timeout=4 * REQUEST_TIMEOUT_S)
        assert not confirm.done()
        await mock.start_broker()
        await confirm
        assert mock.confirmed("g", "demo") == 1
        assert (await taken(consumer)).messages[0].body == b"b"


async def test_a_confirm_ends_when_its_partition_is_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base_module, "RELEASE_WAIT_S", 0.1)
    async with scene(b"a") as (mock, _, consumer):
        batch = await taken(consumer)
        await mock.stop_broker()
        confirm = asyncio.create_task(batch.confirm())
        mock.push_event(consumer.client_id, 2, [P0])
        with pytest.raises(StaleBatchError, match="its Broker could not be reached"):
            await confirm


async def test_a_confirm_ends_when_its_consumer_is_closed() -> None:
    async with scene(b"a") as (mock, _, consumer):
        batch = await taken(consumer)
        await mock.stop_broker()
        confirm = asyncio.create_task(batch.confirm())
        await asyncio.sleep(0)
        await consumer.close()
        with pytest.raises(StaleBatchError):
            await confirm


async def test_a_confirm_that_waits_is_not_sent_once_its_place_was_left() -> None:
    async with scene(b"a", b"b") as (mock, _, consumer):
        batch = await taken(consumer)
        await mock.stop_broker()
        confirm = asyncio.create_task(batch.confirm())
        await asyncio.sleep(0)
        consumer._partitions[P0].go_to_newest()
        await mock.start_broker()
        with pytest.raises(StaleBatchError, match="sent to the newest"):
            await confirm
        assert mock.received(Method.CONSUMER_COMMIT_C2B) == []


@pytest.mark.parametrize("code", [Code.SERVER_RECEIVE_OVERFLOW, Code.SERVICE_UNAVAILABLE])
async def test_a_confirm_that_is_refused_for_now_is_sent_again(code: Code) -> None:
    async with scene(b"a", b"b") as (mock, _, consumer):
        batch = await taken(consumer)
        for _ in range(2):
            mock.fail_next(Method.CONSUMER_COMMIT_C2B, code=code)
        await batch.confirm()
        assert len(mock.received(Method.CONSUMER_COMMIT_C2B)) == 3
        again = await taken(consumer)
        assert again.messages[0].body == b"b", "nothing came twice"


async def test_refused_confirms_are_followed_by_pauses_that_grow_an_event_and_a_line(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    delays: list[int] = []
    monkeypatch.setattr(confirms_module, "REFETCH_BACKOFF", Delays(delays))
    caplog.set_level(logging.WARNING)
    async with scene(b"a") as (mock, tube, consumer):
        mock.respond_fn(Method.CONSUMER_COMMIT_C2B, lambda _call, _request: refusal(mock))
        for failures in range(1, 6):
            await confirm_fails(consumer)
            await until(lambda failures: len(delays) == failures, failures)
        assert delays == [1, 2, 3, 4, 5]
        failed = [event for event in so_far(tube) if isinstance(event, ConfirmFailed)]
        assert [(one.partition, one.messages, one.failures) for one in failed] == [(P0, 1, 1)], "not one each time"
        assert "closed" in failed[0].reason.message
        assert sum("the confirm of 1 messages failed" in line for line in caplog.messages) == 1
        mock.respond_fn(Method.CONSUMER_COMMIT_C2B, None)
        await (await taken(consumer)).confirm()
        mock.store("demo", b"b")
        mock.respond_fn(Method.CONSUMER_COMMIT_C2B, lambda _call, _request: refusal(mock))
        await confirm_fails(consumer)
        assert delays[-1] == 1, "a confirm that was taken ends it"


async def test_a_batch_whose_confirms_are_refused_comes_again_a_few_times_a_second() -> None:
    async with scene(b"a") as (mock, _, consumer):
        mock.respond_fn(Method.CONSUMER_COMMIT_C2B, lambda _call, _request: refusal(mock))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                while True:
                    await confirm_fails(consumer)
        assert fetches(mock) < 12, "0.05, 0.1, 0.2, 0.4, … s between them at least"


class Delays:
    """A backoff without delay that notes for which failure it was asked."""

    def __init__(self, asked: list[int]) -> None:
        self._asked = asked

    def delay_s(self, attempt: int, rng: Any) -> float:
        """Return nothing to wait for."""
        self._asked.append(attempt)
        return 0.0


def refusal(mock: MockBroker) -> Any:
    return mock._handlers.refusal(Method.CONSUMER_COMMIT_C2B, Code.FORBIDDEN, "closed")


def so_far(tube: Tube) -> list[Any]:
    return kept_events(tube)
