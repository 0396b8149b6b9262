"""The next fetch leaves with a confirm: what that changes when the confirm has no answer yet, or a bad one."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq import Partition, Start, connect
from pytubemq.client.consumer.partition_fetcher import Fetch
from pytubemq.client.options import FetchOptions
from pytubemq.errors import Code, ConnectionLostError, NotAllowedError, RequestTimeoutError, StaleBatchError
from pytubemq.testing.mock_broker import MockBroker
from pytubemq.wire.protocol.extensions import OURS, Capability
from pytubemq.wire.rpc.methods import Method
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pytubemq.client.consumer.consumer import Consumer
    from pytubemq.client.received.batch import Batch

pytestmark = pytest.mark.anyio
DEMO = {"demo": 1}
P0 = Partition(1, "demo", 0)


class SlowConfirms:
    """Does what confirms ask for, or refuses it, and answers when it is let."""

    def __init__(self, mock: MockBroker) -> None:
        self.mock = mock
        self.go = asyncio.Event()
        self.refuse = False
        self.came = 0
        mock.respond_fn(Method.CONSUMER_COMMIT_C2B, self._answer)

    def fail(self) -> None:
        """What was taken is refused after all."""
        self.refuse = True
        self.go.set()

    async def _answer(self, call: Any, request: Any) -> Any:
        self.came += 1
        answer = None if self.refuse else self.mock.work(call, request)
        await self.go.wait()
        if self.refuse or answer is None:
            return self.mock._handlers.refusal(Method.CONSUMER_COMMIT_C2B, Code.FORBIDDEN, "closed")
        return answer


@contextlib.asynccontextmanager
async def scene(
    *bodies: bytes, capabilities: Capability = OURS, **options: Any
) -> AsyncIterator[tuple[MockBroker, Consumer, SlowConfirms]]:
    """A consumer at a Broker that holds `bodies`, one in a batch."""
    async with (
        MockBroker(topics=DEMO, capabilities=capabilities) as mock,
        connect(mock.masters, **options) as tube,
        asyncio.timeout(30),
    ):
        mock.store("demo", *bodies)
        async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
            consumer.batches(max_messages=1, max_wait_s=0.05)
            yield mock, consumer, SlowConfirms(mock)


async def taken(consumer: Consumer) -> Batch:
    batch = await consumer.next_batch()
    assert batch is not None
    return batch


def body(batch: Batch) -> bytes:
    return batch.messages[0].body


async def test_the_next_batch_comes_while_a_confirm_has_no_answer_yet() -> None:
    async with scene(b"a", b"b") as (mock, consumer, slow):
        first = await taken(consumer)
        confirm = asyncio.create_task(first.confirm())
        second = await taken(consumer)
        assert body(second) == b"b"
        assert not confirm.done()
        assert not first.held
        assert consumer.lag() == {P0: 2}, "nothing counts as confirmed before its answer"
        slow.go.set()
        await confirm
        assert consumer.lag() == {P0: 1}
        await second.confirm()
        assert mock.confirmed("g", "demo") == 2


async def test_confirms_of_a_partition_go_one_after_the_other() -> None:
    async with scene(b"a", b"b") as (mock, consumer, slow):
        confirms = [asyncio.create_task((await taken(consumer)).confirm())]
        confirms.append(asyncio.create_task((await taken(consumer)).confirm()))
        await until(lambda: slow.came == 1)
        assert await consumer.next_batch(timeout_s=0.1) is None
        assert slow.came == 1
        slow.go.set()
        await asyncio.gather(*confirms)
        assert mock.confirmed("g", "demo") == 2
        assert consumer.stats.confirmed == 2


@pytest.mark.parametrize("handed_out", [True, False])
async def test_a_refused_confirm_takes_the_batch_behind_it_along(handed_out: bool) -> None:
    async with scene(b"a", b"b") as (mock, consumer, slow):
        # The Broker has taken it, so the next batch comes, and then its disk has not.
        first = await taken(consumer)
        confirm = asyncio.create_task(first.confirm())
        second = await taken(consumer) if handed_out else None
        await mock.until(lambda: len(mock.received(Method.GET_MESSAGE_C2B)) >= 2)
        mock.partitions["demo", 0].confirmed["g"] = 0
        mock.respond_fn(Method.CONSUMER_COMMIT_C2B, None)
        slow.fail()
        with pytest.raises(NotAllowedError, match="closed"):
            await confirm
        if second is not None:
            assert not second.held
            with pytest.raises(StaleBatchError, match="the confirm of the batch before it failed"):
                await second.confirm()
        assert mock.confirmed("g", "demo") == 0
        for expected in (b"a", b"b"):
            again = await taken(consumer)
            assert body(again) == expected
            await again.confirm()
        assert mock.confirmed("g", "demo") == 2


async def test_a_confirm_that_waits_behind_a_refused_one_is_not_sent() -> None:
    async with scene(b"a", b"b") as (mock, consumer, slow):
        first = asyncio.create_task((await taken(consumer)).confirm())
        second = asyncio.create_task((await taken(consumer)).confirm())
        await until(lambda: slow.came == 1)
        mock.partitions["demo", 0].confirmed["g"] = 0
        slow.fail()
        with pytest.raises(NotAllowedError):
            await first
        with pytest.raises(StaleBatchError, match="before it failed"):
            await second
        assert slow.came == 1
        assert mock.confirmed("g", "demo") == 0


async def test_a_batch_that_comes_again_before_its_confirm_is_refused_is_not_handed_out_twice() -> None:
    async with scene(b"a", b"b") as (mock, consumer, slow):
        slow.refuse = True
        confirm = asyncio.create_task((await taken(consumer)).confirm())
        await mock.until(lambda: len(mock.received(Method.GET_MESSAGE_C2B)) == 2)
        assert await consumer.next_batch(timeout_s=0.2) is None
        assert len(mock.received(Method.GET_MESSAGE_C2B)) == 2, "none leaves before the outcome is known"
        slow.go.set()
        with pytest.raises(NotAllowedError):
            await confirm
        assert body(await taken(consumer)) == b"a"


async def test_a_confirm_that_is_given_up_takes_the_batch_behind_it_along() -> None:
    async with scene(b"a", b"b") as (_, consumer, slow):
        first = await taken(consumer)
        confirm = asyncio.create_task(first.confirm())
        second = await taken(consumer)
        confirm.cancel()
        with pytest.raises(asyncio.CancelledError):
            await confirm
        with pytest.raises(StaleBatchError, match="before it failed"):
            await second.confirm()
        slow.go.set()
        assert body(await taken(consumer)) == b"b", "this Broker had taken the confirm"


async def test_a_confirm_that_nobody_answers_ends_and_reading_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytubemq.client.consumer.confirms.CONFIRM_RETRY_S", 1.0)
    async with scene(b"a", b"b", request_timeout_s=0.5) as (_, consumer, slow):
        confirm = asyncio.create_task((await taken(consumer)).confirm())
        second = await taken(consumer)
        with pytest.raises(RequestTimeoutError):
            await confirm
        assert not second.held
        slow.go.set()
        again = await taken(consumer)
        assert body(again) == b"b"
        await again.confirm()


async def test_a_registration_lost_between_a_confirm_and_its_answer_changes_nothing() -> None:
    async with scene(b"a", b"b", b"c") as (mock, consumer, _):
        first = await taken(consumer)
        confirm = asyncio.create_task(first.confirm())
        second = await taken(consumer)
        mock.respond_fn(Method.CONSUMER_COMMIT_C2B, None)
        mock.partitions["demo", 0].confirmed["g"] = 0  # it was not durable yet
        await mock.stop_broker()
        await mock.start_broker()
        await confirm
        assert mock.confirmed("g", "demo") == 1, "it was asked again"
        assert second.held
        await second.confirm()
        assert body(await taken(consumer)) == b"c"
        assert mock.confirmed("g", "demo") == 2


async def test_nothing_is_fetched_in_a_new_registration_before_the_confirm_was_sent_in_it() -> None:
    async with scene(b"a", b"b") as (mock, consumer, slow):
        first = await taken(consumer)
        mock.drop_on(Method.CONSUMER_COMMIT_C2B)
        slow.go.set()
        await first.confirm()
        second = await taken(consumer)
        assert body(second) == b"b"
        # Heartbeats to the Master come at any time.
        sent = [recorded.method for recorded in mock.requests]
        methods = [method for method in sent if method.name.endswith("_C2B")]
        registered = len(methods) - methods[::-1].index(Method.CONSUMER_REGISTER_C2B)
        assert methods[registered : registered + 2] == [Method.CONSUMER_COMMIT_C2B, Method.GET_MESSAGE_C2B]


async def test_at_a_java_broker_the_next_fetch_waits_for_the_answer() -> None:
    async with scene(b"a", capabilities=Capability(0)) as (mock, consumer, slow):
        first = await taken(consumer)
        fetches = len(mock.received(Method.GET_MESSAGE_C2B))
        mock.store("demo", b"b")
        confirm = asyncio.create_task(first.confirm())
        await until(lambda: slow.came == 1)
        assert await consumer.next_batch(timeout_s=0.1) is None
        assert len(mock.received(Method.GET_MESSAGE_C2B)) == fetches
        slow.go.set()
        await confirm
        assert body(await taken(consumer)) == b"b"


async def test_the_rest_of_what_was_fetched_follows_a_confirm_at_once() -> None:
    async with scene(capabilities=OURS) as (mock, consumer, slow), connect(mock.masters) as tube:
        async with tube.producer("demo") as producer:
            await producer.send_many([b"%d" % n for n in range(3)])
        confirms = []
        for n in range(2):
            batch = await taken(consumer)
            assert body(batch) == b"%d" % n
            confirms.append(asyncio.create_task(batch.confirm()))
        slow.go.set()
        await asyncio.gather(*confirms)
        assert body(await taken(consumer)) == b"2"


async def test_a_partition_to_give_away_waits_for_the_confirm_under_way() -> None:
    async with scene(b"a", b"b") as (mock, consumer, slow):
        confirm = asyncio.create_task((await taken(consumer)).confirm())
        await until(lambda: slow.came == 1)
        await mock.until(lambda: len(mock.acknowledged) == 1)
        mock.push_event(consumer.client_id, 2, [P0])
        beats = len(mock.received(Method.CONSUMER_HEARTBEAT_C2M))
        await mock.until(lambda: len(mock.received(Method.CONSUMER_HEARTBEAT_C2M)) > beats)
        slow.go.set()
        await confirm
        await mock.until(lambda: len(mock.acknowledged) == 2)
        assert mock.confirmed("g", "demo") == 1


async def test_seek_waits_for_the_confirm_under_way_and_wins() -> None:
    async with scene(b"a", b"b", b"c") as (_, consumer, slow):
        confirm = asyncio.create_task((await taken(consumer)).confirm())
        second = await taken(consumer)
        seek = asyncio.create_task(consumer.seek(P0, 56))
        await until(lambda: slow.came == 1)
        slow.go.set()
        await confirm
        assert await seek == 56
        assert not second.held
        assert body(await taken(consumer)) == b"c"


async def test_a_fetch_that_failed_before_anybody_waited_for_it_is_forgotten_without_a_trace() -> None:
    left: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: left.append(context))
    async with scene(b"a") as (_mock, consumer, _slow):
        await taken(consumer)
        (held,) = consumer._partitions.values()
        failed: asyncio.Future[Any] = loop.create_future()
        failed.set_exception(ConnectionLostError("the connection broke"))
        held._fetcher.in_flight = Fetch(failed, FetchOptions(), True, loop.time())
        held._fetcher.forget()
        del failed
        gc.collect()
    assert left == []
