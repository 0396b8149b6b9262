"""Messages that come one behind the other: they go together, and each ends as one on its own does."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq import Partition, connect
from pytubemq.client.producer.broker_sender import EAGER_SINGLES
from pytubemq.client.producer.messages.gathered_batch import GatheredBatch, Route
from pytubemq.client.producer.messages.record_batch import PLAIN, Header, RecordBatch
from pytubemq.client.producer.send_queue import SendQueue
from pytubemq.client.producer.single_sender import MAX_SINGLES_IN_FLIGHT
from pytubemq.core import retry
from pytubemq.errors import BufferFullError, Code, RefusedError, TubeError
from pytubemq.model.filters import filter_code
from pytubemq.model.message import Receipt
from pytubemq.testing.mock_broker import SILENCE, MockBroker
from pytubemq.wire.batch.record_batch import read_columns
from pytubemq.wire.protocol.messages.broker import SendMessageResponseB2P
from pytubemq.wire.rpc.methods import Method

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

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


async def test_a_token_that_is_refused_after_an_outage_has_the_time_of_every_refusal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retry, "BRIEF_S", 0.3)
    began_s, refused = time.monotonic(), []

    def refuse(_call: object, _request: object) -> SendMessageResponseB2P | None:
        if time.monotonic() - began_s < 0.5:
            return SendMessageResponseB2P(success=False, err_code=int(Code.SERVICE_UNAVAILABLE), err_msg="starting")
        refused.append(1)
        if len(refused) == 1:
            return SendMessageResponseB2P(success=False, err_code=int(Code.CERTIFICATE_FAILURE), err_msg="old token")
        return None

    async with sending(batching=False) as (mock, producer):
        mock.respond_fn(SEND, refuse)
        await producer.send(b"through")
        assert mock.bodies("demo")[1:] == [b"through"]


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


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """Yield the loop that futures belong to, closed whatever becomes of a test."""
    made = asyncio.new_event_loop()
    yield made
    made.close()


def batch_of(
    loop: asyncio.AbstractEventLoop,
    order: int,
    count: int,
    *,
    partition: Partition = PLACE,
    route: Route = Route.ANY,
    header: Header = PLAIN,
    deadline_s: float = 100.0,
) -> GatheredBatch:
    batch = GatheredBatch(partition, route, deadline_s, order, max_messages=count, room_bytes=10_000)
    for number in range(count):
        key = b"%d" % number if route is Route.KEY else None
        batch.add(b"%d-%d" % (order, number), header, key, loop.create_future())
    batch.complete()
    return batch


def contents(batch: RecordBatch) -> list[tuple[bytes, Header]]:
    payloads, headers = batch.payloads_and_headers()
    return list(zip(payloads, headers or [PLAIN] * len(payloads), strict=True))


def test_the_parts_of_a_batch_have_its_state(loop: asyncio.AbstractEventLoop) -> None:
    whole = batch_of(loop, 10, 9, route=Route.KEY, header=(5, "kind", None))
    whole.sequence, whole.tries, whole.uncertain, whole.cause = 50, 2, True, TubeError("lost")
    for start, stop in ((0, 4), (4, 9), (8, 9)):
        part = whole.part(start, stop)
        assert contents(part) == contents(whole)[start:stop]
        assert part.futures == whole.futures[start:stop]
        assert (part.sequence, part.order, part.count) == (50 + start, 10 + start, stop - start)
        assert part.size_bytes == sum(map(len, part.payloads)) == whole.bytes_between(start, stop)
        for name in ("partition", "route", "deadline_s", "tries", "uncertain", "cause"):
            assert getattr(part, name) == getattr(whole, name), name
        assert [one.key for one in part.split_by_key()] == [b"%d" % number for number in range(start, stop)]


@given(
    st.lists(
        st.tuples(st.sampled_from([PLAIN, (0, "kind", None), (1, "kind", "202501020304")]), st.binary(max_size=9)),
        min_size=1,
    )
)
def test_a_batch_is_encoded_as_its_messages_are(
    loop: asyncio.AbstractEventLoop, messages: list[tuple[Header, bytes]]
) -> None:
    batch = GatheredBatch(PLACE, Route.ANY, 1.0, 1, max_messages=100, room_bytes=0)
    for header, payload in messages:
        batch.add(payload, header, None, loop.create_future())
    batch.complete()
    found = read_columns(batch.columns())
    assert list(found.payloads()) == [payload for _, payload in messages]
    assert [found.flag_of(number) for number in range(found.count)] == [flag for (flag, _, _), _ in messages]
    codes = [filter_code(kind) if kind else -1 for (_, kind, _), _ in messages]
    assert ([found.key_code] * found.count if found.codes is None else [*found.codes]) == codes
    assert contents(batch) == [(payload, header) for header, payload in messages]


@pytest.mark.parametrize("headers", [(PLAIN, PLAIN), (PLAIN, (1, None, None)), ((1, None, None), PLAIN)])
def test_neighbours_that_are_alike_are_merged(loop: asyncio.AbstractEventLoop, headers: tuple[Header, Header]) -> None:
    first, second = batch_of(loop, 1, 3, header=headers[0]), batch_of(loop, 9, 2, header=headers[1], deadline_s=99.98)
    first.sequence, second.sequence = 7, 10
    expected = contents(first) + contents(second)
    futures = first.futures + second.futures
    assert first.merge(second)
    assert (contents(first), first.futures, first.count, first.sequence) == (expected, futures, 5, 7)
    assert first.size_bytes == sum(len(payload) for payload, _ in expected)
    assert first.deadline_s == 99.98


@pytest.mark.parametrize(
    "change",
    [
        {"route": Route.FIXED},
        {"tries": 1},
        {"uncertain": True},
        {"sequence": 11},
        {"sequence": None},
        {"deadline_s": 99},
    ],
)
def test_neighbours_that_differ_are_not_merged(loop: asyncio.AbstractEventLoop, change: dict[str, Any]) -> None:
    first, second = batch_of(loop, 1, 3), batch_of(loop, 9, 2)
    first.sequence, second.sequence = 7, 10
    for name, value in change.items():
        setattr(second, name, value)
    before = contents(first)
    assert not first.merge(second)
    assert contents(first) == before


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["put", "put", "put", "messages", "request", "expire", "cancel", "back"]),
            st.integers(1, 12),
        ),
        max_size=25,
    )
)
def test_a_queue_counts_what_it_holds_and_keeps_the_order(
    loop: asyncio.AbstractEventLoop, steps: list[tuple[str, int]]
) -> None:
    queue = SendQueue()
    held: dict[Partition, list[asyncio.Future[Receipt]]] = {Partition(1, "demo", n): [] for n in range(2)}
    order = 0

    def left(batches: Sequence[RecordBatch]) -> None:
        """Check that these are the first ones of their partitions."""
        for batch in batches:
            assert isinstance(batch, GatheredBatch)
            assert batch.futures == held[batch.partition][: batch.count]
            del held[batch.partition][: batch.count]

    def messages() -> int:
        return sum(map(len, held.values()))

    for step, number in steps:
        if step == "put":
            order += 100
            batch = batch_of(loop, order, number, partition=Partition(1, "demo", number % 2))
            queue.append(batch)
            held[batch.partition] += batch.futures
        elif step == "cancel" and messages():
            futures = [future for some in held.values() for future in some]
            futures[number % len(futures)].cancel()
        elif step == "expire":
            gone = queue.take_all(lambda batch: batch.is_unwanted)
            assert sum(batch.count for batch in gone) == sum(one.done() for some in held.values() for one in some)
            held = {place: [one for one in some if not one.done()] for place, some in held.items()}
        elif step in ("messages", "request", "back"):
            before = messages()
            taken = queue.take_request() if step == "request" else queue.take_messages(number)
            assert all(batch.is_unwanted for batch in taken.unwanted)
            assert not any(batch.is_partly_unwanted for batch in taken.ready)
            count = sum(batch.count for batch in taken.ready)
            if step != "request":
                assert count == min(number, before - sum(batch.count for batch in taken.unwanted))
            # Merged neighbours may have had an unwanted message between them.
            dropped = [future for batch in taken.unwanted for future in batch.futures]  # type: ignore[attr-defined]
            held = {place: [one for one in some if one not in dropped] for place, some in held.items()}
            if step == "back":
                queue.put_back(taken.ready)
            else:
                left(taken.ready)
        assert queue.messages == messages() == sum(batch.count for batch in queue)
        assert queue.size_bytes == sum(batch.size_bytes for batch in queue)
