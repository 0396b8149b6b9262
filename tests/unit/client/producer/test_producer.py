"""The producer against a scripted cluster."""

from __future__ import annotations

import asyncio
import gc
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq import Connected, Lost, Partition, Producer, connect
from pytubemq.client.producer.in_flight_window import MAX_IN_FLIGHT
from pytubemq.client.producer.messages.message_checks import find_partition
from pytubemq.client.session.cluster_connection import Cluster
from pytubemq.errors import (
    BadRequestError,
    BufferFullError,
    ClosedError,
    ConfigError,
    MessageError,
    NotFoundError,
    ServerOverflowError,
    UnreachableError,
)
from pytubemq.model.ids import Address
from pytubemq.model.limits import MAX_BATCH_MESSAGES
from pytubemq.testing.mock_broker import SILENCE, MockBroker
from pytubemq.wire.batch.record_batch import read_columns
from pytubemq.wire.protocol.extensions import OURS, Capability
from pytubemq.wire.protocol.messages.extension import PackResult, PackSpan, SendPacksResponseB2P
from pytubemq.wire.rpc.methods import Method
from tests.support.events import event_of
from tests.support.waiting import until

if TYPE_CHECKING:
    from pytubemq.net.client.connection import RpcConnection
    from pytubemq.net.server.call import Call

pytestmark = pytest.mark.anyio

DEMO = {"demo": 1}
BATCHES = OURS & ~Capability.IDEMPOTENT
"""Capabilities of a Broker that takes record batches and does not detect duplicates."""


async def test_a_message_gets_its_receipt() -> None:
    async with MockBroker(topics={"demo": 3}) as mock, connect(mock.masters) as tube, tube.producer("demo") as producer:
        first = await producer.send(b"one", partition=2)
        second = await producer.send(b"two", partition=2)
        assert first.partition == Partition(1, "demo", 2)
        assert (first.offset, second.offset) == (0, 28)
        assert first.message_id != second.message_id
        assert mock.bodies("demo", 2) == [b"one", b"two"]


async def test_attributes_type_and_time_travel_in_the_payload_and_beside_it() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube, tube.producer("demo") as producer:
        await producer.send(b"x", attrs={"a": "1"}, msg_type="AA", msg_time=datetime(2013, 1, 2, 3, 4, 59))
        (sent,) = mock.received(Method.SEND_MESSAGE_P2B)
        assert (sent.msg_type, sent.msg_time) == ("AA", "201301020304")
        assert sent.data[4:].decode() == "$msgType$=AA,$msgTime$=201301020304,a=1x"
        assert sent.flag == 1


async def test_one_loop_turn_makes_one_batch_once_the_broker_has_shown_that_it_takes_them() -> None:
    async with (
        MockBroker(topics=DEMO, capabilities=BATCHES) as mock,
        connect(mock.masters) as tube,
        tube.producer("demo") as producer,
    ):
        await producer.send(b"first")
        await asyncio.gather(*[producer.submit(b"%d" % n) for n in range(100)])
        assert len(mock.received(Method.SEND_MESSAGE_P2B)) == 1
        (batch,) = mock.received(Method.SEND_PACKS_P2B)
        (entry,) = batch.packs
        assert read_columns(entry.data).count == 100
        assert mock.bodies("demo") == [b"first", *(b"%d" % n for n in range(100))]


async def test_a_broker_without_extensions_gets_single_messages_in_order() -> None:
    async with (
        MockBroker(topics=DEMO, capabilities=Capability(0)) as mock,
        connect(mock.masters) as tube,
        tube.producer("demo") as producer,
    ):
        await asyncio.gather(*[producer.submit(b"%d" % n) for n in range(50)])
        assert not mock.received(Method.SEND_PACKS_P2B)
        assert mock.bodies("demo") == [b"%d" % n for n in range(50)]


async def test_linger_gathers_over_several_turns() -> None:
    async with (
        MockBroker(topics=DEMO, capabilities=BATCHES) as mock,
        connect(mock.masters) as tube,
        tube.producer("demo", linger_s=0.05) as producer,
    ):
        await producer.send(b"first")
        futures = []
        for n in range(5):
            futures.append(producer.submit(b"%d" % n))
            await asyncio.sleep(0)
        await asyncio.gather(*futures)
        assert len(mock.received(Method.SEND_PACKS_P2B)) == 1


async def test_no_message_lingers_for_more_than_a_quarter_of_its_delivery_time() -> None:
    async with (
        MockBroker(topics=DEMO) as mock,
        connect(mock.masters) as tube,
        tube.producer("demo", linger_s=10.0, delivery_timeout_s=2.0) as producer,
    ):
        await producer.send(b"a")
        await producer.send(b"b", key="k")
        assert mock.bodies("demo") == [b"a", b"b"]


@pytest.mark.parametrize("code", [419, 503, 500])
async def test_a_refusal_that_may_mend_is_tried_again_in_order(code: int) -> None:
    async with (
        MockBroker(topics=DEMO, capabilities=BATCHES) as mock,
        connect(mock.masters) as tube,
        tube.producer("demo") as producer,
    ):
        await producer.send(b"first")
        mock.fail_next(Method.SEND_PACKS_P2B, code=code, times=2)
        futures = [producer.submit(b"%d" % n) for n in range(10)]
        await asyncio.sleep(0)
        late = producer.submit(b"late")
        await asyncio.gather(*futures, late)
        assert mock.bodies("demo") == [b"first", *(b"%d" % n for n in range(10)), b"late"]
        assert producer.stats.retried == 10 + 11  # the late one had joined the second try
        assert producer.stats.failed == 0


async def test_part_of_a_batch_is_refused_and_only_that_part_goes_again() -> None:
    async with (
        MockBroker(topics=DEMO, capabilities=BATCHES) as mock,
        connect(mock.masters) as tube,
        tube.producer("demo") as producer,
    ):
        await producer.send(b"first")
        mock.respond(
            Method.SEND_PACKS_P2B,
            SendPacksResponseB2P(
                success=False,
                err_code=419,
                err_msg="the second is too much",
                results=(
                    PackResult(
                        spans=(
                            PackSpan(count=1, err_code=200, first_offset=28, first_message_id=7),
                            PackSpan(count=1, err_code=419, first_offset=-1, first_message_id=-1),
                            PackSpan(count=1, err_code=400, first_offset=-1, first_message_id=-1),
                        )
                    ),
                ),
                append_time=5,
            ),
        )
        futures = [producer.submit(body) for body in (b"a", b"b", b"c")]
        results = await asyncio.gather(*futures, return_exceptions=True)
        assert results[0].message_id == 7  # type: ignore[union-attr]
        assert results[1].offset == 28  # type: ignore[union-attr]  # the mock itself stored only the repeat
        assert isinstance(results[2], BadRequestError)
        assert "too much" in str(results[2])
        assert mock.bodies("demo") == [b"first", b"b"]


async def test_a_lost_connection_sends_again_and_may_send_twice() -> None:
    async with (
        MockBroker(topics=DEMO, capabilities=BATCHES) as mock,
        connect(mock.masters) as tube,
        tube.producer("demo") as producer,
    ):
        await producer.send(b"first")
        mock.drop_on(Method.SEND_PACKS_P2B, after=True)
        await asyncio.gather(*[producer.submit(body) for body in (b"a", b"b")])
        assert mock.bodies("demo") == [b"first", b"a", b"b", b"a", b"b"]


async def test_a_broker_that_restarts_gets_everything_in_order() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube, tube.producer("demo") as producer:
        await producer.send(b"first")
        await mock.stop()
        futures = [producer.submit(b"%d" % n) for n in range(20)]
        await event_of(tube, Lost)
        await mock.start()
        await asyncio.gather(*futures)
        assert mock.bodies("demo") == [b"first", *(b"%d" % n for n in range(20))]
        await event_of(tube, Connected)


async def test_a_timeout_of_one_request_is_not_the_end() -> None:
    async with (
        MockBroker(topics=DEMO) as mock,
        connect(mock.masters, request_timeout_s=0.3) as tube,
        tube.producer("demo") as producer,
    ):
        await producer.send(b"first")
        mock.silence(Method.SEND_PACKS_P2B)
        receipt = await producer.send(b"second")
        assert receipt.offset == 28


@pytest.mark.slow
@pytest.mark.parametrize("silent", [1, 2, 4])
async def test_several_batches_are_under_way_again_after_some_were_not_answered(silent: int) -> None:
    under_way, go_on = 0, asyncio.Event()

    async def hold(_call: Call, _request: Any) -> None:
        nonlocal under_way
        under_way += 1
        mock.touch()
        await go_on.wait()

    bodies = [b"%06d" % number * 100 for number in range(8 * MAX_BATCH_MESSAGES)]
    half = len(bodies) // 2
    async with (
        MockBroker(topics=DEMO, capabilities=BATCHES) as mock,
        connect(mock.masters, request_timeout_s=1.0) as tube,
        tube.producer("demo") as producer,
    ):
        await producer.send(b"so that it is known what the Broker takes")
        mock.silence(Method.SEND_PACKS_P2B, times=silent)
        await asyncio.gather(*[producer.submit(body) for body in bodies[:half]])
        producer._context.request_timeout_s = 60.0  # what is held now is not to run out of time on a slow machine
        mock.respond_fn(Method.SEND_PACKS_P2B, hold)
        futures = [producer.submit(body) for body in bodies[half:]]
        await mock.until(lambda: under_way == MAX_IN_FLIGHT)
        go_on.set()
        await asyncio.gather(*futures)
        stored = mock.bodies("demo")[1:]
        assert list(dict.fromkeys(stored)) == bodies  # more may run out of time: this Broker knows no repeats
        assert len({one.peer for one in mock.requests if one.method is Method.SEND_PACKS_P2B}) == 1


class Unanswered:
    """Keeps batches of messages without an answer until `go_on`."""

    def __init__(self, mock: MockBroker) -> None:
        self.mock = mock
        self.go_on = asyncio.Event()
        self.sizes: list[int] = []
        """Messages in each."""
        mock.respond_fn(Method.SEND_PACKS_P2B, self._hold)

    async def _hold(self, _call: Call, request: Any) -> None:
        self.sizes.append(sum(read_columns(entry.data).count for entry in request.packs))
        self.mock.touch()
        await self.go_on.wait()


async def test_behind_a_batch_that_is_under_way_others_are_gathered() -> None:
    async with (
        MockBroker(topics=DEMO) as mock,
        connect(mock.masters) as tube,
        tube.producer("demo") as producer,
        asyncio.timeout(30),
    ):
        await producer.send(b"so that it is known what the Broker takes")
        held = Unanswered(mock)
        futures = [producer.submit(b"first")]
        await mock.until(lambda: len(held.sizes) == 1)
        futures += [producer.submit(b"later") for _ in range(3)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(held.sizes) == 1
        held.go_on.set()
        await asyncio.gather(*futures)
        assert held.sizes == [1, 3]


async def test_the_delivery_time_ends_with_the_cause() -> None:
    async with (
        MockBroker(topics=DEMO, capabilities=BATCHES) as mock,
        connect(mock.masters) as tube,
        tube.producer("demo", delivery_timeout_s=0.3) as producer,
    ):
        mock.fail_next(Method.SEND_MESSAGE_P2B, code=419, text="the disk is full")
        mock.fail_next(Method.SEND_PACKS_P2B, code=419, text="the disk is full", times=1000)
        with pytest.raises(
            ServerOverflowError, match=r"not delivered to 1:demo:0 .* tries.*the disk is full"
        ) as caught:
            await producer.send(b"x")
        assert caught.value.code == 419
        assert producer.stats.failed == 1
        assert producer.stats.buffered_messages == 0


async def test_the_delivery_time_ends_too_while_the_broker_is_away() -> None:
    async with (
        MockBroker(topics=DEMO) as mock,
        connect(mock.masters) as tube,
        tube.producer("demo", delivery_timeout_s=0.3) as producer,
    ):
        await mock.stop()
        with pytest.raises(UnreachableError, match="cannot connect"):
            await producer.send(b"x")


async def test_a_refusal_that_cannot_mend_fails_at_once() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube, tube.producer("demo") as producer:
        mock.fail_next(Method.SEND_MESSAGE_P2B, code=400, text="you did it wrong")
        with pytest.raises(BadRequestError, match="you did it wrong"):
            await producer.send(b"x")
        assert len(mock.received(Method.SEND_MESSAGE_P2B)) == 1


async def test_a_partition_that_the_broker_does_not_know_yet_is_tried_for_a_while() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube, tube.producer("demo") as producer:
        mock.fail_next(Method.SEND_MESSAGE_P2B, code=403, times=2)
        assert (await producer.send(b"x")).offset == 0


async def test_local_checks_name_what_is_wrong() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        mock.max_message_bytes = 100
        async with tube.producer("demo") as producer:
            with pytest.raises(MessageError, match="empty") as empty:
                producer.submit(b"")
            assert empty.value.code == 442
            with pytest.raises(MessageError, match="101 bytes, the topic takes at most 100") as long:
                producer.submit(b"x" * 101)
            assert long.value.code == 445
            with pytest.raises(MessageError, match="at most 100"):
                producer.submit(b"x" * 90, attrs={"key": "long enough"})
            with pytest.raises(MessageError, match="not str"):
                producer.submit("text")  # type: ignore[arg-type]
            for attrs in ({"a,b": "1"}, {"a": "1=2"}, {"": "1"}):
                with pytest.raises(MessageError):
                    producer.submit(b"x", attrs=attrs)
            with pytest.raises(MessageError, match="yyyyMMddHHmm"):
                producer.submit(b"x", msg_time="2013")
            with pytest.raises(NotFoundError, match="is not one of its partitions"):
                producer.submit(b"x", partition=7)
            assert await producer.send(bytearray(b"y" * 100))
        assert not mock.received(Method.SEND_PACKS_P2B)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"key": 5}, r"a key is text or bytes, not int\nwrite key='5'"),
        ({"key": "\ud800"}, "cannot be written as UTF-8"),
        ({"attrs": {"a": "b", "n": 1}}, "the value of attribute 'n' is text, not int\nwrite '1'"),
        ({"attrs": {"n": None}}, "the value of attribute 'n' is text, not NoneType"),
        ({"attrs": {"n": b"x"}}, "the value of attribute 'n' is text, not bytes"),
        ({"attrs": {7: "x"}}, "the key 7 of an attribute is text, not int"),
        ({"attrs": ["a"]}, "attrs are a mapping, not list"),
        ({"msg_type": 3}, "msg_type is text, not int"),
        ({"msg_time": 202401010000}, "msg_time is text, not int\nwrite a datetime or the text"),
    ],
)
async def test_arguments_of_another_type_are_named(wrong: dict[str, Any], said: str) -> None:
    async with (
        MockBroker(topics=DEMO) as mock,
        connect(mock.masters) as tube,
        tube.producer("demo") as producer,
    ):
        with pytest.raises(MessageError, match=said):
            producer.submit(b"x", **wrong)
        assert repr(producer) == "Producer('demo', 1 partitions)"
        await producer.send(b"x", key=bytearray(b"k"))  # type: ignore[arg-type]


async def test_room_waits_for_what_was_refused_and_does_not_return_at_once() -> None:
    async with (
        MockBroker(topics=DEMO) as mock,
        connect(mock.masters) as tube,
        tube.producer("demo", max_buffer_bytes=100) as producer,
    ):
        gate = asyncio.Event()

        async def held(_call: Call, _request: Any) -> None:
            await gate.wait()

        mock.respond_fn(Method.SEND_MESSAGE_P2B, held)
        first = producer.submit(bytes(60))
        for refused in (bytes(60), bytes(41)):
            with pytest.raises(BufferFullError, match="60 bytes"):
                producer.submit(refused)
        room = asyncio.create_task(producer.room())
        await mock.until(lambda: mock.received(Method.SEND_MESSAGE_P2B))
        assert not room.done(), "whoever submits again would spin and hold up the loop"
        gate.set()
        await room
        await producer.submit(bytes(60))
        await first
        with pytest.raises(BufferFullError):
            [producer.submit(bytes(60)) for _ in range(2)]
        with pytest.raises(BufferFullError):
            producer.submit_many([bytes(30)] * 3)


async def test_the_buffer_is_bounded_and_room_tells_when_there_is_some() -> None:
    async with (
        MockBroker(topics=DEMO) as mock,
        connect(mock.masters) as tube,
        tube.producer("demo", max_buffer_messages=5) as producer,
    ):
        gate = asyncio.Event()

        async def held(_call: Call, _request: Any) -> None:
            await gate.wait()

        mock.respond_fn(Method.SEND_MESSAGE_P2B, held)
        futures = [producer.submit(b"%d" % n) for n in range(5)]
        with pytest.raises(BufferFullError, match="5 messages"):
            producer.submit(b"more")
        room = asyncio.create_task(producer.room())
        sent = asyncio.create_task(producer.send(b"patient"))
        await mock.until(lambda: mock.received(Method.SEND_MESSAGE_P2B))
        assert not room.done()
        gate.set()
        await room
        await sent
        await asyncio.gather(*futures)
        assert producer.stats.buffered_messages == 0
        assert mock.bodies("demo")[-1] == b"patient"


async def test_the_buffer_is_bounded_in_bytes_and_takes_one_message_of_any_size() -> None:
    async with (
        MockBroker(topics=DEMO) as mock,
        connect(mock.masters) as tube,
        tube.producer("demo", max_buffer_bytes=10) as producer,
    ):
        future = producer.submit(b"x" * 50)
        with pytest.raises(BufferFullError):
            producer.submit(b"y")
        await future
        assert mock.bodies("demo") == [b"x" * 50]


async def test_a_cancelled_message_that_has_not_left_is_dropped() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube, tube.producer("demo") as producer:
        await producer.send(b"first")
        kept, dropped = producer.submit(b"kept"), producer.submit(b"dropped")
        dropped.cancel()
        task = asyncio.create_task(producer.send(b"dropped too"))
        await asyncio.sleep(0)
        task.cancel()
        await kept
        await producer.flush()
        assert b"dropped" not in mock.bodies("demo")
        assert producer.stats.buffered_messages == 0


async def test_closing_delivers_what_is_buffered() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        async with tube.producer("demo") as producer:
            futures = [producer.submit(b"%d" % n) for n in range(10)]
        assert all(future.done() for future in futures)
        assert len(mock.bodies("demo")) == 10
        assert not mock.producers
        with pytest.raises(ClosedError):
            producer.submit(b"x")
        await producer.close()


async def test_closing_is_bounded_and_fails_the_rest() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        async with tube.producer("demo", close_timeout_s=0.1) as producer:
            mock.respond_fn(Method.SEND_MESSAGE_P2B, lambda _call, _request: SILENCE)
            futures = [producer.submit(b"%d" % n) for n in range(3)]
        for future in futures:
            with pytest.raises(ClosedError, match="before this message was delivered"):
                await future


async def test_an_unknown_topic_is_named_with_the_remedy() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        with pytest.raises(NotFoundError, match=r"(?s)'nope'.*pytubemq topic create nope") as caught:
            await tube.producer("nope").__aenter__()
        assert caught.value.exit_code == 3
        assert not mock.producers


async def test_first_connect_wait_waits_for_the_topic() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters, first_connect="wait") as tube:
        entering = asyncio.create_task(tube.producer("later").__aenter__())
        await mock.until(lambda: mock.received(Method.PRODUCER_HEARTBEAT_P2M))
        assert not entering.done()
        mock.create_topic("later", 1)
        producer = await entering
        await producer.send(b"x")


async def test_partitions_that_are_added_are_used_at_once() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube, tube.producer("demo") as producer:
        await mock.until(lambda: len(mock.received(Method.PRODUCER_HEARTBEAT_P2M)) >= 2)
        mock.create_topic("demo", 3)
        await until(lambda: len(producer.partitions) == 3)
        await asyncio.gather(*[producer.send(b"x") for _ in range(3)])
        assert [len(mock.bodies("demo", n)) for n in range(3)] == [1, 1, 1]


async def test_a_master_that_forgot_the_producer_hears_of_it_again() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube, tube.producer("demo") as producer:
        await mock.until(lambda: len(mock.received(Method.PRODUCER_HEARTBEAT_P2M)) >= 2)
        mock.forget_clients()
        await mock.until(lambda: len(mock.received(Method.PRODUCER_REGISTER_P2M)) == 2)
        await producer.send(b"x")


async def test_a_master_that_names_no_partition_any_more_does_not_stop_sending() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube, tube.producer("demo") as producer:
        await mock.until(lambda: len(mock.received(Method.PRODUCER_HEARTBEAT_P2M)) >= 2)
        mock.create_topic("demo", 0)
        await mock.until(lambda: len(mock.received(Method.PRODUCER_HEARTBEAT_P2M)) >= 3)
        mock.create_topic("demo", 1)
        assert await producer.send(b"x")


async def test_a_refusal_in_the_background_reaches_the_caller() -> None:
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube, tube.producer("demo") as producer:
        await mock.until(lambda: len(mock.received(Method.PRODUCER_HEARTBEAT_P2M)) >= 2)
        mock.fail_next(Method.PRODUCER_REGISTER_P2M, code=400, text="we do not want you", times=10)
        mock.respond_fn(Method.SEND_MESSAGE_P2B, lambda _call, _request: SILENCE)
        pending = producer.submit(b"x")
        mock.forget_clients()
        with pytest.raises(BadRequestError, match="we do not want you"):
            await pending
        with pytest.raises(BadRequestError):
            await producer.send(b"y")
        with pytest.raises(BadRequestError):
            await producer.room()


async def test_an_unreachable_master_is_named() -> None:
    gone = MockBroker()
    await gone.start()
    await gone.stop()
    with pytest.raises(UnreachableError, match=rf"(?s)no Master can be reached.*{gone.address}.*pytubemq dev"):
        await connect(gone.masters).__aenter__()


async def test_first_connect_wait_waits_for_the_master(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[Cluster] = []
    any_master = Cluster._any_master

    async def counted(cluster: Cluster) -> RpcConnection:
        tries.append(cluster)
        return await any_master(cluster)

    monkeypatch.setattr(Cluster, "_any_master", counted)
    mock = MockBroker(topics=DEMO)
    await mock.start()
    await mock.stop()
    tube = connect(mock.masters, first_connect="wait")
    entering = asyncio.create_task(tube.__aenter__())
    await until(lambda: len(tries) > 2)
    assert not entering.done()
    await mock.start()
    await entering
    await tube.close()
    await mock.stop()


async def test_a_second_master_stands_in_for_the_first() -> None:
    gone = MockBroker()
    await gone.start()
    await gone.stop()
    async with (
        MockBroker(topics=DEMO) as mock,
        connect(f"{gone.address},{mock.address}") as tube,
        tube.producer("demo") as producer,
    ):
        assert await producer.send(b"x")


async def test_keys_keep_their_partition() -> None:
    async with MockBroker(topics={"demo": 8}) as mock, connect(mock.masters) as tube, tube.producer("demo") as producer:
        for key in ("a", b"a", "b", "a"):
            await producer.send(str(key).encode(), key=key)
        holding = [n for n in range(8) if mock.bodies("demo", n)]
        assert len(holding) <= 2
        assert sum(b"a" in body for n in holding for body in mock.bodies("demo", n)) == 3


async def test_options_that_make_no_sense_are_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="first_connect"):
        connect("127.0.0.1:1", first_connect="perhaps")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="request_timeout_s"):
        connect("127.0.0.1:1", request_timeout_s=0)
    with pytest.raises(ConfigError, match="no Master address"):
        connect(" ")
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube:
        with pytest.raises(ConfigError, match="linger_s"):
            tube.producer("demo", linger_s=-1)
        for strange in ("1", None, True, float("nan")):
            with pytest.raises(ConfigError, match=r"linger_s is .*\nwrite a number from 0 to 10"):
                tube.producer("demo", linger_s=strange)  # type: ignore[arg-type]
        with pytest.raises(MessageError, match="not a topic name"):
            tube.producer("no good")


async def test_use_outside_the_block_is_refused() -> None:
    tube = connect([Address("127.0.0.1", 1)])
    with pytest.raises(ClosedError, match="async with"):
        tube.producer("demo")
    async with MockBroker(topics=DEMO) as mock:
        async with connect(mock.masters) as tube:
            producer = tube.producer("demo")
            with pytest.raises(ClosedError, match="async with"):
                producer.submit(b"x")
            async with producer:
                pass
        with pytest.raises(ClosedError):
            tube.producer("demo")
        await tube.close()


async def test_a_failure_nobody_awaits_is_not_silent() -> None:
    heard: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: heard.append(context["message"]))
    async with MockBroker(topics=DEMO) as mock, connect(mock.masters) as tube, tube.producer("demo") as producer:
        mock.fail_next(Method.SEND_MESSAGE_P2B, code=400)
        producer.submit(b"x")
        await producer.flush()
        await asyncio.sleep(0)
        gc.collect()
    asyncio.get_running_loop().set_exception_handler(None)
    assert any("never retrieved" in message for message in heard)


async def test_a_broker_that_is_away_is_left_out_and_its_free_messages_go_elsewhere() -> None:
    async with MockBroker(topics=DEMO, broker_id=1) as one, MockBroker(topics=DEMO, broker_id=2) as other:
        one.peers.append(other)
        async with connect(one.masters) as tube, tube.producer("demo") as producer:
            assert len(producer.partitions) == 2
            await asyncio.gather(*[producer.send(b"%d" % n) for n in range(10)])
            assert (len(one.bodies("demo")), len(other.bodies("demo"))) == (5, 5)
            await other.stop_broker()
            pinned = producer.submit(b"pinned", partition=Partition(2, "demo", 0))
            # What leaves before the loss is known may have arrived, so it stays with its partition.
            await event_of(tube, Lost)
            receipts = await asyncio.gather(*[producer.send(b"free") for _ in range(20)])
            assert {receipt.partition.broker_id for receipt in receipts} == {1}
            assert not pinned.done()
            await other.start_broker()
            assert (await pinned).partition == Partition(2, "demo", 0)
            assert other.bodies("demo")[-1] == b"pinned"


async def test_partitions_that_are_gone_give_their_messages_to_the_others() -> None:
    async with MockBroker(topics=DEMO, broker_id=1) as one, MockBroker(topics=DEMO, broker_id=2) as other:
        one.peers.append(other)
        async with connect(one.masters) as tube, tube.producer("demo") as producer:
            await one.until(lambda: len(one.received(Method.PRODUCER_HEARTBEAT_P2M)) >= 2)
            await one.stop_broker()
            await other.stop_broker()
            futures = [producer.submit(b"%d" % n) for n in range(10)]
            one.peers.clear()
            one.create_topic("demo", 1)
            await one.start_broker()
            receipts = await asyncio.gather(*futures)
            assert {receipt.partition.broker_id for receipt in receipts} == {1}


async def test_messages_with_keys_follow_them_when_their_partitions_are_gone() -> None:
    async with MockBroker(topics={"demo": 2}, broker_id=1) as one, MockBroker(topics=DEMO, broker_id=2) as other:
        one.peers.append(other)
        async with connect(one.masters) as tube, tube.producer("demo") as producer:
            await one.until(lambda: len(one.received(Method.PRODUCER_HEARTBEAT_P2M)) >= 2)
            await one.stop_broker()
            await other.stop_broker()
            futures = [producer.submit(b"%d-%d" % (n % 7, n), key=b"%d" % (n % 7)) for n in range(70)]
            many = [producer.submit_many([b"m-%d" % n, b"n-%d" % n], key=b"%d" % n) for n in range(7)]
            one.peers.clear()
            one.create_topic("demo", 2)
            await one.start_broker()
            receipts = await asyncio.gather(*futures)
            assert {receipt.partition.broker_id for receipt in receipts} == {1}
            for key in range(7):
                (partition,) = {receipt.partition for receipt in receipts[key::7]}
                assert (await many[key]).partition == partition
                stored = one.bodies("demo", partition.partition_id)
                assert [body for body in stored if body.startswith(b"%d-" % key)] == [
                    b"%d-%d" % (key, n) for n in range(key, 70, 7)
                ]


async def test_what_was_made_of_a_connection_closes_together_and_one_failure_leaves_none_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with MockBroker(topics=DEMO) as mock:
        tube = connect(mock.masters)
        await tube.__aenter__()
        producers = [await tube.producer("demo").__aenter__() for _ in range(3)]
        closing = asyncio.Barrier(len(producers))

        async def failing(one: Producer = producers[1]) -> None:
            await closing.wait()
            await Producer.close(one)
            raise RuntimeError("this one fails")

        async def meeting(one: Producer) -> None:
            await closing.wait()  # never over if one is closed after the other
            await Producer.close(one)

        for one in producers:
            monkeypatch.setattr(one, "close", failing if one is producers[1] else partial(meeting, one))
        async with asyncio.timeout(10):
            with pytest.raises(RuntimeError, match="this one fails"):
                await tube.close()
        assert all(one.ended for one in producers)
        with pytest.raises(ClosedError):
            await tube.partitions("demo")


async def test_partitions_stay_while_brokers_restart_and_go_with_their_topic() -> None:
    def asked_where_it_lies() -> list[Any]:
        return [request for request in mock.received(Method.PRODUCER_HEARTBEAT_P2M) if request.want_deployed]

    async with (
        MockBroker(topics=DEMO) as mock,
        connect(mock.masters) as tube,
        tube.producer("demo") as producer,
    ):
        known = producer.partitions
        mock.online = False
        mock.create_topic("another", 1)  # the Master has news
        await mock.until(asked_where_it_lies)
        mock.create_topic("yet another", 1)
        await mock.until(lambda: len(asked_where_it_lies()) > 1)
        assert producer.partitions == known, "as long as it may come back"
        mock.create_topic("demo", 0)
        await mock.until(lambda: not producer.partitions)
        with pytest.raises(NotFoundError, match="no partition now"):
            producer.submit(b"x")
        mock.online = True
        mock.create_topic("demo", 2)
        await mock.until(lambda: len(producer.partitions) == 2)
        assert (await producer.send(b"x")).offset == 0


async def test_partitions_stay_where_the_master_cannot_tell_a_restart_from_a_removal() -> None:
    async with (
        MockBroker(topics=DEMO, capabilities=Capability(0)) as mock,
        connect(mock.masters) as tube,
        tube.producer("demo") as producer,
    ):
        assert producer._membership is not None
        mock.create_topic("demo", 0)
        await producer._membership._role.heartbeat()
        assert producer.partitions


def test_partitions_that_are_not_named_are_counted() -> None:
    known = [Partition(1, "demo", number) for number in range(8)]
    with pytest.raises(NotFoundError, match=r"1:demo:4 and 3 more$"):
        find_partition(99, known, "demo")
    with pytest.raises(NotFoundError, match=r"name one of 1:demo:0, 1:demo:1, 1:demo:2, 1:demo:3, 1:demo:4$"):
        find_partition(99, known[:5], "demo")
