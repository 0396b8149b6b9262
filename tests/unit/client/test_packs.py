"""Packs, numbers against repeats, and many messages with one call, against a scripted cluster."""

from __future__ import annotations

import asyncio
import pickle
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq import Message, Partition, Producer, Receipt, Receipts, Start, connect
from pytubemq.errors import (
    BufferFullError,
    ClosedError,
    ConfigError,
    CorruptError,
    MessageError,
    PartialSendError,
    ServerOverflowError,
    TubeError,
)
from pytubemq.model.limits import MAX_RECORD_BATCH_BYTES, MAX_RECORD_BATCH_MESSAGES
from pytubemq.testing.mock_broker import SILENCE, MockBroker
from pytubemq.testing.mock_state import APPEND_TIME_MS, MockPartition
from pytubemq.wire.batch.record_batch import read_columns
from pytubemq.wire.protocol.extensions import OURS, Capability
from pytubemq.wire.protocol.messages.extension import PackResult, PackSpan, SendPacksResponseB2P
from pytubemq.wire.rpc.methods import Method

if TYPE_CHECKING:
    from pytubemq.net.server.call import Call

pytestmark = pytest.mark.anyio

DEMO = {"demo": 1}
PACKS = Method.SEND_PACKS_P2B


def packs_of(mock: MockBroker) -> list[list[bytes]]:
    """The payloads of each pack that came, in order."""
    return [read_columns(entry.data).payloads() for request in mock.received(PACKS) for entry in request.packs]


def sequences(mock: MockBroker, partition_id: int = 0) -> list[tuple[int, int]]:
    """First sequence and number of messages of each pack that came for a partition."""
    return [
        (entry.first_sequence, read_columns(entry.data).count)
        for request in mock.received(PACKS)
        for entry in request.packs
        if entry.partition_id == partition_id
    ]


async def warm(producer: Producer) -> None:
    """Have the producer know what its Broker takes."""
    await producer.send(b"first", partition=0)


async def test_what_one_loop_turn_submits_leaves_as_one_pack() -> None:
    async with MockBroker(topics={"demo": 3}) as mock, connect(mock.masters) as tube, tube.producer("demo") as producer:
        await warm(producer)
        receipts = await asyncio.gather(*[producer.submit(b"%d" % n) for n in range(100)])
        assert packs_of(mock) == [[b"%d" % n for n in range(100)]]
        assert len({receipt.partition for receipt in receipts}) == 1
        assert [receipt.offset for receipt in receipts] == [receipts[0].offset + 28 * n for n in range(100)]  # type: ignore[operator]


async def test_packs_go_round_the_partitions() -> None:
    async with MockBroker(topics={"demo": 3}) as mock, connect(mock.masters) as tube, tube.producer("demo") as producer:
        await warm(producer)
        seen = []
        for _ in range(6):
            receipts = await asyncio.gather(*[producer.submit(b"x") for _ in range(10)])
            seen.append({receipt.partition.partition_id for receipt in receipts})
        assert all(len(partitions) == 1 for partitions in seen)
        assert sorted(next(iter(partitions)) for partitions in seen) == [0, 0, 1, 1, 2, 2]


async def test_keys_and_partitions_make_packs_of_their_own_in_one_request() -> None:
    async with MockBroker(topics={"demo": 3}) as mock, connect(mock.masters) as tube, tube.producer("demo") as producer:
        await warm(producer)
        await asyncio.gather(*[producer.submit(b"%d" % n, partition=n % 3) for n in range(9)])
        (request,) = mock.received(PACKS)
        assert [entry.partition_id for entry in request.packs] == [0, 1, 2]
        assert mock.bodies("demo", 1) == [b"1", b"4", b"7"]


async def test_attributes_and_types_travel_in_the_columns() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube, tube.producer("demo") as producer:
        await warm(producer)
        futures = [producer.submit(b"a"), producer.submit(b"b", msg_type="AA"), producer.submit(b"c", attrs={"k": "v"})]
        await asyncio.gather(*futures)
        (entry,) = mock.received(PACKS)[0].packs
        columns = read_columns(entry.data)
        assert columns.codes is not None
        assert [*columns.codes] == [-1, 2080, -1]
        assert [columns.flag_of(n) for n in range(3)] == [0, 1, 1]
        async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
            async for batch in consumer.batches():
                assert [one.body for one in batch] == [b"first", b"a", b"b", b"c"]
                assert [one.msg_type for one in batch] == [None, None, "AA", None]
                assert batch.messages[3].attributes == {"k": "v"}
                break


async def test_a_repeat_is_dropped_and_gets_the_receipt_of_the_first() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube, tube.producer("demo") as producer:
        await warm(producer)
        mock.drop_on(PACKS, after=True)
        receipts = await asyncio.gather(*[producer.submit(body) for body in (b"a", b"b")])
        assert mock.bodies("demo") == [b"first", b"a", b"b"]
        assert [receipt.offset for receipt in receipts] == [28, 56]
        assert receipts[1].repeated  # the first one went alone, as long as it was not known what the Broker takes
        assert producer.stats.retried == 2


@pytest.mark.parametrize("fault", ["broken", "silent"])
async def test_what_may_be_there_stays_with_its_partition_and_number(fault: str) -> None:
    """Another Broker serves meanwhile, and gets the newer messages."""
    async with (
        MockBroker(topics=DEMO) as mock,
        MockBroker(topics=DEMO, broker_id=2) as other,
    ):
        mock.peers.append(other)
        async with (
            connect(mock.masters, request_timeout_s=0.3) as tube,
            tube.producer("demo") as producer,
        ):
            for partition in producer.partitions:
                await producer.send(b"first", partition=partition)
            if fault == "broken":
                mock.drop_on(PACKS, times=3, after=True)
            else:
                mock.script(PACKS, *[_work_and_say_nothing(mock)] * 2)
            home = Partition(1, "demo", 0)
            receipts: list[Receipt] = []
            while not any(receipt.partition == home for receipt in receipts):
                receipts = await asyncio.gather(*[producer.submit(b"x%d" % n) for n in range(3)])
                mock_bodies = mock.bodies("demo")
            assert mock_bodies == [b"first", b"x0", b"x1", b"x2"]
            assert {receipt.partition for receipt in receipts} == {home}


def _work_and_say_nothing(mock: MockBroker) -> Any:
    def script(call: Call, request: Any) -> Any:
        mock.work(call, request)
        return SILENCE

    return script


async def test_what_was_surely_refused_may_go_to_another_broker() -> None:
    async with MockBroker(topics=DEMO) as mock, MockBroker(topics=DEMO, broker_id=2) as other:
        mock.peers.append(other)
        async with connect(mock.masters) as tube, tube.producer("demo") as producer:
            for partition in producer.partitions:
                await producer.send(b"first", partition=partition)
            mock.fail_next(PACKS, code=503, times=1_000)
            receipts = await asyncio.gather(*[producer.submit(b"x") for _ in range(10)])
            receipts += await asyncio.gather(*[producer.submit(b"y") for _ in range(10)])
            assert {receipt.partition.broker_id for receipt in receipts} == {2}


async def test_numbers_count_per_partition_and_stay_with_their_messages() -> None:
    async with MockBroker(topics={"demo": 2}) as mock, connect(mock.masters) as tube, tube.producer("demo") as producer:
        await warm(producer)
        await asyncio.gather(*[producer.submit(b"x", partition=n % 2) for n in range(10)])
        mock.fail_next(PACKS, code=419)
        await asyncio.gather(*[producer.submit(b"y", partition=0) for _ in range(4)])
        assert sequences(mock, 0) == [(1, 5), (6, 4), (6, 4)]
        assert sequences(mock, 1) == [(0, 5)]
        assert {request.producer_epoch for request in mock.received(PACKS)} == {0}
        assert len({request.producer_id for request in mock.received(PACKS)}) == 1


async def test_a_producer_that_is_not_idempotent_gives_no_numbers() -> None:
    async with (
        MockBroker(topics=DEMO) as mock,
        connect(mock.masters) as tube,
        tube.producer("demo", idempotent=False) as producer,
    ):
        await warm(producer)
        await producer.send(b"x")
        (request,) = mock.received(PACKS)
        assert (request.producer_id, request.packs[0].first_sequence) == (None, None)
        assert mock.received(Method.SEND_MESSAGE_P2B)[0].producer_id is None


async def test_an_unknown_outcome_is_said_so_in_the_last_error() -> None:
    async with (
        MockBroker(topics=DEMO) as mock,
        connect(mock.masters, request_timeout_s=0.1) as tube,
        tube.producer("demo", delivery_timeout_s=0.5) as producer,
    ):
        await warm(producer)
        mock.silence(PACKS, times=1_000)
        with pytest.raises(TubeError, match="its outcome is unknown"):
            await producer.send(b"x")
        assert producer.stats.uncertain == 1


# --- many at a time ---------------------------------------------------------------------------------------------


async def test_many_go_to_one_partition_in_order_and_have_receipts() -> None:
    bodies = [b"%05d" % n for n in range(MAX_RECORD_BATCH_MESSAGES + 10)]
    async with MockBroker(topics={"demo": 3}) as mock, connect(mock.masters) as tube, tube.producer("demo") as producer:
        receipts = await producer.submit_many(bodies)
        assert isinstance(receipts, Receipts)
        assert len(receipts) == len(bodies)
        assert mock.bodies("demo", receipts.partition.partition_id) == bodies
        assert receipts.first_offset == 0
        assert receipts[-1].offset == 28 * (len(bodies) - 1)
        assert [one.offset for one in receipts[1:3]] == [28, 56]
        assert [one.message_id for one in receipts] == list(range(1, len(bodies) + 1))
        with pytest.raises(IndexError):
            receipts[len(bodies)]


@pytest.mark.parametrize("can", [Capability(0), OURS & ~(Capability.PACKS | Capability.IDEMPOTENT), OURS])
async def test_many_arrive_in_order_whatever_the_broker_understands(can: Capability) -> None:
    bodies = [b"%05d" % n for n in range(3_000)]
    async with (
        MockBroker(topics={"demo": 2}, capabilities=can) as mock,
        connect(mock.masters) as tube,
        tube.producer("demo") as producer,
    ):
        before = producer.submit(b"before", partition=1)
        many = producer.submit_many(bodies, partition=1, attrs={"a": "1"})
        after = producer.submit(b"after", partition=1)
        _, receipts, _ = await asyncio.gather(before, many, after)
        assert mock.bodies("demo", 1) == [b"before", *bodies, b"after"]
        assert [one.offset for one in receipts] == [28 * n for n in range(1, len(bodies) + 1)]


async def test_a_large_pack_is_cut_by_bytes() -> None:
    bodies = [b"x" * (MAX_RECORD_BATCH_BYTES // 3) for _ in range(7)]
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube, tube.producer("demo") as producer:
        await warm(producer)
        await producer.send_many(bodies)
        assert [len(pack) for pack in packs_of(mock)] == [3, 3, 1]


async def test_send_many_goes_on_as_there_is_room() -> None:
    bodies = [b"%05d" % n for n in range(40_000)]
    async with (
        MockBroker(topics=DEMO) as mock,
        connect(mock.masters) as tube,
        tube.producer("demo", max_buffer_messages=20_000) as producer,
    ):
        with pytest.raises(BufferFullError, match="send_many"):
            producer.submit_many(bodies)
        receipts = await producer.send_many(bodies)
        assert mock.bodies("demo") == bodies
        assert receipts[-1].offset == 28 * (len(bodies) - 1)
        assert producer.stats.buffered_messages == 0


async def test_a_body_that_cannot_be_sent_is_named_and_none_is_sent() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube, tube.producer("demo") as producer:
        with pytest.raises(MessageError, match="message 2: the message body is empty"):
            producer.submit_many([b"a", b"b", b""])
        with pytest.raises(MessageError, match="message 1: a message body is bytes, not str"):
            producer.submit_many([b"a", "b"])  # type: ignore[list-item]
        with pytest.raises(MessageError, match="not a list of bodies"):
            producer.submit_many(b"abc")  # type: ignore[arg-type]
        with pytest.raises(MessageError, match="no message to send"):
            producer.submit_many([])
        assert mock.bodies("demo") == []


async def test_a_part_that_is_refused_is_told_by_position() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube, tube.producer("demo") as producer:
        await warm(producer)
        spans = (
            PackSpan(count=2, err_code=200, first_offset=28, first_message_id=7),
            PackSpan(count=1, err_code=400, first_offset=-1, first_message_id=-1, err_msg="not this one"),
            PackSpan(count=1, err_code=200, first_offset=84, first_message_id=9),
        )
        mock.respond(
            PACKS,
            SendPacksResponseB2P(
                success=False, err_code=400, err_msg="not this one", results=(PackResult(spans=spans),), append_time=5
            ),
        )
        with pytest.raises(PartialSendError, match="1 of 4 messages") as caught:
            await producer.send_many([b"a", b"b", b"c", b"d"])
        assert list(caught.value.failed) == [2]
        assert "not this one" in str(caught.value.failed[2])
        assert [one and one.offset for one in caught.value.receipts] == [28, 56, None, 84]
        assert producer.stats.buffered_messages == 0


async def test_a_part_that_is_refused_for_now_is_sent_again_alone() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube, tube.producer("demo") as producer:
        await warm(producer)
        mock.script(PACKS, _take_only(mock, 2))
        receipts = await producer.send_many([b"a", b"b", b"c", b"d"])
        assert mock.bodies("demo") == [b"first", b"a", b"b", b"c", b"d"]
        assert [one.offset for one in receipts] == [28, 56, 84, 112]
        assert sequences(mock) == [(1, 4), (3, 2)]


def _take_only(mock: MockBroker, count: int) -> Any:
    """The first messages of the only pack are stored, the rest is refused: what a disk that fills up does."""

    def script(call: Call, request: Any) -> SendPacksResponseB2P:
        (entry,) = request.packs
        columns = read_columns(entry.data)
        part = type(entry)(
            partition_id=entry.partition_id, data=columns.part(0, count), first_sequence=entry.first_sequence
        )
        fields = {name: getattr(request, name) for name in type(request).__dataclass_fields__}
        answer = mock.work(call, type(request)(**{**fields, "packs": (part,)}))
        rest = PackSpan(
            count=columns.count - count, err_code=419, first_offset=-1, first_message_id=-1, err_msg="the disk is full"
        )
        spans = (*answer.results[0].spans, rest)
        return SendPacksResponseB2P(
            success=False,
            err_code=419,
            err_msg="the disk is full",
            results=(PackResult(spans=spans),),
            append_time=answer.append_time,
        )

    return script


async def test_all_of_many_refused_for_good_is_that_error() -> None:
    async with (
        MockBroker(topics=DEMO) as mock,
        connect(mock.masters) as tube,
        tube.producer("demo", delivery_timeout_s=0.3) as producer,
    ):
        await warm(producer)
        mock.fail_next(PACKS, code=419, times=1_000)
        with pytest.raises(ServerOverflowError):
            await producer.send_many([b"a", b"b"])
        assert producer.stats.failed == 2


async def test_many_that_nobody_waits_for_any_more_are_dropped() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube, tube.producer("demo") as producer:
        await warm(producer)
        future = producer.submit_many([b"a", b"b"])
        future.cancel()
        await producer.flush()
        assert mock.bodies("demo") == [b"first"]


async def test_closing_fails_what_was_not_delivered_of_many() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        producer = tube.producer("demo", close_timeout_s=0.05)
        async with producer:
            await warm(producer)
            await mock.stop_broker()
            future = producer.submit_many([b"a", b"b"])
        with pytest.raises(ClosedError):
            await future


async def test_several_lots_of_no_partition_go_round() -> None:
    async with MockBroker(topics={"demo": 3}) as mock, connect(mock.masters) as tube, tube.producer("demo") as producer:
        lots = await asyncio.gather(*[producer.submit_many([b"x"] * 10) for _ in range(3)])
        assert {lot.partition.partition_id for lot in lots} == {0, 1, 2}


# --- fetching ---------------------------------------------------------------------------------------------------


async def test_a_pack_is_handed_out_in_batches_of_what_was_asked_for() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        async with tube.producer("demo") as producer:
            await producer.send_many([b"%d" % n for n in range(1_000)])
        async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
            sizes = []
            async for batch in consumer.batches(max_messages=300, idle_timeout_s=0.2):
                sizes.append(len(batch))
                assert batch.start_offset == batch.messages[0].offset
                await batch.confirm()
                assert mock.confirmed("g", "demo") * 28 == batch.next_offset
        assert sum(sizes) == 1_000
        assert max(sizes) <= 300


async def test_a_rejected_part_of_a_pack_comes_again_from_its_beginning() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        async with tube.producer("demo") as producer:
            await producer.send_many([b"%d" % n for n in range(100)])
        async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
            got: list[bytes] = []
            rejected = False
            async for batch in consumer.batches(max_messages=30):
                if got and not rejected:
                    rejected = True
                    await batch.reject()
                    continue
                got += [one.body for one in batch]
                await batch.confirm()
                if len(got) == 100:
                    break
        assert got == [b"%d" % n for n in range(100)]


async def test_a_batch_is_confirmed_up_to_an_offset_and_the_rest_comes_again() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        async with tube.producer("demo") as producer:
            await producer.send_many([b"%d" % n for n in range(10)])
        async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
            batch = await consumer.next_batch(timeout_s=5)
            assert batch is not None
            with pytest.raises(ConfigError, match="from 0 to 280"):
                await batch.confirm(up_to=308)
            await batch.confirm(up_to=28 * 4)
            assert mock.confirmed("g", "demo") == 4
            again = await consumer.next_batch(timeout_s=5)
            assert again is not None
            assert [one.body for one in again] == [b"%d" % n for n in range(4, 10)]
            assert consumer.stats.confirmed == 4


async def test_places_are_found_by_time() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a", b"b", b"c")
        when = datetime.fromtimestamp(APPEND_TIME_MS / 1000, UTC)
        later = when + timedelta(milliseconds=1)
        (partition,) = await tube.partitions("demo")
        assert await tube.offsets([partition], at=when) == {partition: (0, 84)}
        assert await tube.offsets([partition], at=later) == {partition: (84, 84)}
        async with tube.reader(partition, start=when - timedelta(days=1), end=later) as reader:
            assert (reader.position, reader.end) == (0, 84)
            assert [len(batch) async for batch in reader.batches()] == [3]
        async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
            await mock.until(lambda: consumer.assignment)
            assert await consumer.seek(partition, later) == 84


async def test_a_broker_that_cannot_find_places_by_time_is_named() -> None:
    async with (
        MockBroker(topics=DEMO, capabilities=OURS & ~Capability.OFFSET_BY_TIME) as mock,
        connect(mock.masters) as tube,
    ):
        partitions = await tube.partitions("demo")
        with pytest.raises(ConfigError, match="cannot find offsets by time"):
            await tube.offsets(partitions, at=datetime.now(UTC))


async def test_messages_that_are_lost_on_the_brokers_disk_end_a_range_and_are_told_to_a_consumer() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.store("demo", *[b"%d" % n for n in range(10)])
        records = MockPartition.records
        lost = {3, 4}

        def without_lost(partition: MockPartition, numbers: list[int], *, packs: bool) -> list[bytes]:
            return records(partition, [number for number in numbers if number not in lost], packs=packs)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(MockPartition, "records", without_lost)
            async with tube.reader("1:demo:0", end=Start.LATEST) as reader:
                batches = reader.batches()
                assert [one.body for one in await anext(batches)] == [b"0", b"1", b"2"]
                with pytest.raises(
                    CorruptError,
                    match=r"offset 84 to before 140 \(2 messages\) .* lost",
                ):
                    await anext(batches)
            async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
                batch = await consumer.next_batch(timeout_s=5)
                assert batch is not None
                assert len(batch) == 8
                assert consumer.stats.skipped == 2


@pytest.mark.parametrize("at", [10, -1], ids=["head", "body"])
async def test_of_a_pack_that_was_damaged_each_message_is_counted(at: int) -> None:
    records = MockPartition.records

    def damaged(partition: MockPartition, numbers: list[int], *, packs: bool) -> list[bytes]:
        found = records(partition, numbers, packs=packs)
        hit = next((n for n, record in enumerate(found) if record.endswith(b"199")), None)
        if hit is not None:
            record = bytearray(found[hit])
            record[at] ^= 1
            found[hit] = bytes(record)
        return found

    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        async with tube.producer("demo") as producer:
            for start in range(0, 300, 100):
                await producer.send_many([b"%d" % n for n in range(start, start + 100)], msg_type="AA")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(MockPartition, "records", damaged)
            async with tube.reader("1:demo:0", start=1400, end=Start.LATEST) as reader:
                batches = reader.batches()
                assert len((await anext(batches)).messages) == 50
                with pytest.raises(CorruptError, match=r"offset 2800 to before 5600 \(100 messages\)"):
                    await anext(batches)
            for filters in ({}, {"demo": ["AA"]}):
                async with tube.consumer("g", "demo", start=Start.EARLIEST, filters=filters) as consumer:
                    got = 0
                    async for batch in consumer.batches(idle_timeout_s=0.2):
                        got += len(batch)
                        await batch.reject()
                        if got >= 200:
                            break
                    assert (got, consumer.stats.skipped) == (200, 100)


async def test_a_reader_takes_a_range_that_begins_and_ends_within_packs() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        async with tube.producer("demo") as producer:
            for start in range(0, 300, 100):
                await producer.send_many([b"%d" % n for n in range(start, start + 100)])
        async with tube.reader("1:demo:0", start=28 * 50, end=28 * 250) as reader:
            got = [one async for batch in reader.batches(max_messages=70) for one in batch]
        assert [one.body for one in got] == [b"%d" % n for n in range(50, 250)]
        assert [one.offset for one in got] == [28 * n for n in range(50, 250)]


def test_a_message_cannot_be_changed_and_tells_the_same_however_it_was_made() -> None:
    partition = Partition(1, "demo", 0)
    message = Message(partition, b"body", {"a": "1"}, 28, 5, 7, "AA", None)
    with pytest.raises(AttributeError):
        message.body = b"other"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        message.other = 1  # type: ignore[attr-defined]
    assert pickle.loads(pickle.dumps(message)) == message
    assert "body=b'body'" in repr(message)
    assert hash(message) == hash(Message(partition, b"body", {"a": "1"}, 28, 5, 7, "AA", None))
    assert message != Message(partition, b"body", {"a": "2"}, 28, 5, 7, "AA", None)
