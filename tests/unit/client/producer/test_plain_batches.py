"""Plain messages that come one behind the other: they go together, and each ends as one by itself does."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq import Partition, connect
from pytubemq.client.producer.broker_sender import EAGER_SINGLES
from pytubemq.client.producer.messages.pending_message import PendingMessage
from pytubemq.client.producer.messages.plain_batch import PlainBatch
from pytubemq.client.producer.send_queue import SendQueue
from pytubemq.client.producer.single_sender import MAX_SINGLES_IN_FLIGHT
from pytubemq.errors import BufferFullError, Code, RefusedError, TubeError
from pytubemq.model.message import Receipt
from pytubemq.testing.mock_broker import SILENCE, MockBroker
from pytubemq.wire.protocol.messages.broker import SendMessageResponseB2P
from pytubemq.wire.rpc.methods import Method

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pytubemq import Producer

pytestmark = pytest.mark.anyio

SEND = Method.SEND_MESSAGE_P2B
PLACE = Partition(1, "demo", 0)


@contextlib.asynccontextmanager
async def sending(
    partitions: int = 1, *, timeout_s: float = 30.0, **options: Any
) -> AsyncIterator[tuple[MockBroker, Producer]]:
    """A cluster, and a producer that knows what its Broker takes."""
    async with (
        MockBroker(topics={"demo": partitions}) as mock,
        connect(mock.masters, request_timeout_s=timeout_s) as tube,
        tube.producer("demo", **options) as producer,
    ):
        await producer.send(b"first", partition=0)
        yield mock, producer


def bodies(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


@pytest.mark.parametrize("batching", [True, False])
async def test_what_comes_together_goes_to_one_partition_and_what_comes_next_to_another(batching: bool) -> None:
    async with sending(2, batching=batching) as (mock, producer):
        before = len(mock.bodies("demo"))
        first = await asyncio.gather(*[producer.submit(body) for body in bodies(20)])
        second = await asyncio.gather(*[producer.submit(body) for body in bodies(20)])
        assert len({receipt.partition for receipt in first}) == len({receipt.partition for receipt in second}) == 1
        assert first[0].partition != second[0].partition
        for receipts in (first, second):
            offsets = [receipt.offset or 0 for receipt in receipts]
            assert offsets == sorted(set(offsets))
            place = receipts[0].partition.partition_id
            assert mock.bodies("demo", place)[-20:] == bodies(20)
        assert len(mock.bodies("demo")) == before + 40
        assert producer.stats.delivered == producer.stats.submitted == 41
        assert producer.stats.buffered_bytes == 0


async def test_more_than_may_be_on_the_way_leave_in_order_each_once() -> None:
    async with sending(batching=False) as (mock, producer):
        many = bodies(MAX_SINGLES_IN_FLIGHT + 3 * EAGER_SINGLES + 7)
        futures = [producer.submit(body) for body in many]
        assert producer.stats.submitted == len(many) + 1
        receipts = await asyncio.gather(*futures)
        assert mock.bodies("demo") == [b"first", *many]
        assert len({receipt.offset for receipt in receipts}) == len(many)
        numbers = [request.sequence for request in mock.received(SEND)]
        assert numbers == list(range(len(many) + 1))


@pytest.mark.parametrize("batching", [True, False])
async def test_a_message_that_was_cancelled_before_it_left_is_not_sent(batching: bool) -> None:
    async with sending(batching=batching) as (mock, producer):
        futures = [producer.submit(body) for body in bodies(6)]
        futures[0].cancel()
        futures[4].cancel()
        assert sum(isinstance(one, Receipt) for one in await asyncio.gather(*futures, return_exceptions=True)) == 4
        await producer.flush()
        assert mock.bodies("demo") == [b"first", b"1", b"2", b"3", b"5"]
        assert producer.stats.delivered == 5
        assert producer.stats.buffered_messages == producer.stats.buffered_bytes == 0


async def test_one_that_is_refused_harms_no_other() -> None:
    def refuse_some(_call: object, request: Any) -> SendMessageResponseB2P | None:
        if request.data in (b"3", b"7"):
            return SendMessageResponseB2P(success=False, err_code=int(Code.PARAMETER_BODY_NULL), err_msg="no")
        return None

    async with sending(batching=False) as (mock, producer):
        mock.respond_fn(SEND, refuse_some)
        ends = await asyncio.gather(*[producer.submit(body) for body in bodies(40)], return_exceptions=True)
        refused = [number for number, end in enumerate(ends) if isinstance(end, RefusedError)]
        assert refused == [3, 7]
        assert sum(isinstance(end, Receipt) for end in ends) == 38
        assert mock.bodies("demo")[1:] == [body for body in bodies(40) if body not in (b"3", b"7")]
        assert producer.stats.failed == 2
        assert producer.stats.buffered_messages == producer.stats.buffered_bytes == 0


async def test_one_without_an_answer_is_sent_again_with_its_number() -> None:
    silent = [b"5"]

    def now_and_then(_call: object, request: Any) -> object:
        if request.data in silent:
            silent.clear()
            return SILENCE
        return None

    async with sending(timeout_s=0.3, batching=False) as (mock, producer):
        mock.respond_fn(SEND, now_and_then)
        await asyncio.gather(*[producer.submit(body) for body in bodies(20)])
        sent = [request.sequence for request in mock.received(SEND) if request.data == b"5"]
        assert len(sent) >= 2
        assert set(sent) == {6}
        assert producer.stats.retried >= 1
        assert sorted(mock.bodies("demo")[1:]) == sorted(bodies(20))


@pytest.mark.parametrize("batching", [True, False])
async def test_a_connection_that_breaks_under_them_loses_none(batching: bool) -> None:
    method = Method.SEND_PACKS_P2B if batching else SEND
    async with sending(batching=batching) as (mock, producer):
        mock.drop_on(method)
        receipts = await asyncio.gather(*[producer.submit(body) for body in bodies(300)])
        assert mock.bodies("demo")[1:] == bodies(300)
        assert len({receipt.offset for receipt in receipts}) == 300
        assert producer.stats.buffered_messages == 0


async def test_they_keep_their_place_among_messages_of_other_kinds() -> None:
    async with sending(batching=False) as (mock, producer):
        many = [
            producer.submit(
                b"%d" % number, key=b"k" if number % 7 == 3 else None, attrs={"a": "b"} if number % 5 == 2 else None
            )
            for number in range(100)
        ]
        await asyncio.gather(*many)
        assert mock.bodies("demo")[1:] == bodies(100)


async def test_the_buffer_takes_no_more_of_them_than_it_may() -> None:
    async with sending(max_buffer_messages=10, max_buffer_bytes=1000) as (mock, producer):
        futures = [producer.submit(b"x" * 90) for _ in range(10)]
        with pytest.raises(BufferFullError):
            producer.submit(b"x")
        await asyncio.gather(*futures)
        futures = [producer.submit(b"x" * 400) for _ in range(2)]
        with pytest.raises(BufferFullError):
            producer.submit(b"x" * 400)
        await asyncio.gather(*futures)
        await producer.send(b"x" * 5000)  # one fits into an empty buffer, whatever its size
        assert len(mock.bodies("demo")) == 14


async def test_they_end_when_the_producer_is_closed_before_they_left() -> None:
    async with sending(close_timeout_s=0.05) as (mock, producer):
        await mock.stop_broker()
        futures = [producer.submit(body) for body in bodies(5)]
    ends = await asyncio.gather(*futures, return_exceptions=True)
    assert all(isinstance(end, TubeError) for end in ends)
    assert producer.stats.failed == 5
    assert producer.stats.buffered_messages == 0


def plain_batch_of(loop: asyncio.AbstractEventLoop, first: int, count: int) -> PlainBatch:
    made = PlainBatch(PLACE, 100.0, first, max_messages=count, room_bytes=0)
    made.payloads = [b"x" * (number % 5 + 1) for number in range(first, first + count)]
    made.futures = [loop.create_future() for _ in range(count)]
    made.size_bytes = sum(map(len, made.payloads))
    return made


def test_the_parts_of_a_plain_batch_are_of_the_same_standing() -> None:
    loop = asyncio.new_event_loop()
    whole = plain_batch_of(loop, 10, 9)
    whole.sequence, whole.tries, whole.uncertain, whole.cause = 50, 2, True, TubeError("lost")
    singles = whole.messages()
    first = whole.split(4)
    for part, at in ((first, 0), (whole, 4)):
        assert part.size_bytes == sum(map(len, part.payloads))
        for one, wanted in zip(part.messages(), singles[at:], strict=False):
            for name in ("payload", "future", "order", "sequence", "tries", "uncertain", "cause", "deadline_s"):
                assert getattr(one, name) == getattr(wanted, name), name
    assert (first.count, whole.count) == (4, 5)
    loop.close()


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("plain"), st.integers(1, 12)),
            st.tuples(st.just("one"), st.just(1)),
            st.tuples(st.sampled_from(["singles", "batch", "packs", "first", "expire", "cancel"]), st.integers(1, 9)),
        ),
        max_size=25,
    )
)
def test_a_queue_counts_what_it_holds_and_keeps_the_order(steps: list[tuple[str, int]]) -> None:
    loop = asyncio.new_event_loop()
    queue = SendQueue(loop)
    held: list[tuple[int, asyncio.Future[Receipt]]] = []
    added = 0

    def left(units: Any) -> None:
        for unit in units:
            for one in unit.messages() if isinstance(unit, PlainBatch) else (unit,):
                order, future = held.pop(0)
                assert (one.order, one.future) == (order, future)

    for step, number in steps:
        if step == "plain":
            batch = plain_batch_of(loop, added, number)
            queue.append(batch)
            held += [(added + at, future) for at, future in enumerate(batch.futures)]
            added += number
        elif step == "one":
            future: asyncio.Future[Receipt] = loop.create_future()
            queue.append(PendingMessage((b"y", 0, None, None), future, PLACE, None, 100.0, added))
            held.append((added, future))
            added += 1
        elif step == "cancel" and held:
            held[number % len(held)][1].cancel()
        elif step == "expire":
            gone = queue.take_all(lambda unit: unit.unwanted)
            assert [one.order for one in gone] == [order for order, future in held if future.done()]
            held = [(order, future) for order, future in held if not future.done()]
        elif step == "first" and queue:
            left([queue.take_one()])
        elif step in ("singles", "batch", "packs") and queue:
            if step == "singles":
                taken, dropped = queue.take_singles(number)
                assert sum(unit.count for unit in (*taken, *dropped)) == min(number, len(held))
            elif step == "batch":
                taken, dropped = queue.take_for_send_batch()  # type: ignore[assignment]
            else:
                taken, dropped = queue.take_for_batches()  # type: ignore[assignment]
            assert all(unit.unwanted for unit in dropped)
            left(sorted((*taken, *dropped), key=lambda unit: unit.order))
        assert queue.messages == len(held) == sum(unit.count for unit in queue)
        assert queue.size_bytes == sum(unit.size_bytes for unit in queue)
    loop.close()
