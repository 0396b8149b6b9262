"""The reader and the look-ups against a scripted cluster."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq import Partition, Start, connect
from pytubemq.client.session import call_with_retry
from pytubemq.errors import (
    ClosedError,
    ConfigError,
    CorruptError,
    FormatError,
    MessageError,
    NotAllowedError,
    NotFoundError,
    OffsetMovedError,
    UnreachableError,
)
from pytubemq.testing.mock_broker import MockBroker
from pytubemq.wire.protocol.extensions import OURS, Capability
from pytubemq.wire.protocol.messages.extension import ReadRangeResponseB2C
from pytubemq.wire.protocol.messages.master import MasterAuthorizedInfo
from pytubemq.wire.rpc.methods import Method

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.net.server.call import Call

pytestmark = pytest.mark.anyio

P0 = Partition(1, "demo", 0)
TEN = tuple(b"%d" % n for n in range(10))


@pytest.mark.parametrize(("start", "end"), [(999_999_999, "latest"), (112, 56)])
async def test_a_start_beyond_the_end_is_refused_with_the_bounds(start: int, end: int | str) -> None:
    async with MockBroker(topics={"demo": 1}) as mock, connect(mock.masters) as tube:
        mock.store("demo", *TEN)
        with pytest.raises(MessageError, match=f"start is {start}, beyond the end") as caught:
            await tube.reader(P0, start=start, end=end).__aenter__()
        assert "from offset 0 to before 280" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (Start.EARLIEST, Start.LATEST, TEN),
        (0, 280, TEN),
        (56, 112, TEN[2:4]),
        (Start.EARLIEST, 0, ()),
        (Start.LATEST, Start.LATEST, ()),
    ],
)
async def test_a_range_is_read_exactly(start: int | Start, end: int | Start, expected: tuple[bytes, ...]) -> None:
    async with MockBroker(topics={"demo": 1}) as mock, connect(mock.masters) as tube:
        mock.store("demo", *TEN)
        async with tube.reader(P0, start=start, end=end) as reader:
            batches = [batch async for batch in reader.batches(max_messages=3)]
            assert tuple(message.body for batch in batches for message in batch) == expected
            assert all(len(batch) <= 3 for batch in batches)
            for one, other in itertools.pairwise(batches):
                assert one.next_offset == other.start_offset
        assert not mock.received(Method.CONSUMER_REGISTER_C2B)


async def test_the_end_is_fixed_when_the_block_is_entered() -> None:
    async with MockBroker(topics={"demo": 1}) as mock, connect(mock.masters) as tube:
        mock.store("demo", *TEN)
        async with tube.reader("1:demo:0", end=Start.LATEST) as reader:
            assert (reader.position, reader.end) == (0, 280)
            mock.store("demo", b"later")
            assert sum([len(batch) async for batch in reader.batches()]) == 10
            assert reader.position == 280


async def test_without_an_end_it_goes_on_with_the_partition() -> None:
    async with MockBroker(topics={"demo": 1}) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a")
        async with tube.reader(P0) as reader:
            batches = reader.batches()
            assert (await anext(batches)).messages[0].body == b"a"
            waiting = asyncio.ensure_future(anext(batches))
            await mock.until(lambda: len(mock.received(Method.READ_RANGE_C2B)) == 2)
            mock.store("demo", b"b")
            assert (await waiting).messages[0].body == b"b"
            await batches.aclose()


async def test_idle_ends_it_and_a_cancelled_wait_loses_nothing() -> None:
    async with MockBroker(topics={"demo": 1}) as mock, connect(mock.masters) as tube, tube.reader(P0) as reader:
        batches = reader.batches(max_wait_s=0.05, idle_timeout_s=0.2)
        assert [batch async for batch in batches] == []
        waiting = asyncio.ensure_future(anext(batches))
        await asyncio.sleep(0)
        waiting.cancel()
        mock.store("demo", b"a")
        assert (await anext(batches)).messages[0].body == b"a"
        await batches.aclose()


async def test_closing_ends_a_fetch_that_is_on_its_way() -> None:
    async with MockBroker(topics={"demo": 1}) as mock, connect(mock.masters) as tube:
        mock.store("demo", b"a")
        before = asyncio.all_tasks()
        async with tube.reader(P0) as reader:
            async for _ in reader.batches(max_wait_s=30):
                break
            await mock.until(lambda: len(mock.received(Method.READ_RANGE_C2B)) == 2)
        assert not [task for task in asyncio.all_tasks() - before if "Reader.read" in repr(task)]


async def test_a_broker_that_restarts_is_waited_for() -> None:
    async with MockBroker(topics={"demo": 1}) as mock, connect(mock.masters) as tube:
        mock.store("demo", *TEN)
        async with tube.reader(P0, end=Start.LATEST) as reader:
            batches = reader.batches(max_messages=4)
            seen = len(await anext(batches))
            await mock.stop()
            restart = asyncio.create_task(mock.start())
            async for batch in batches:
                seen += len(batch)
            await restart
            assert seen == 10


async def test_what_was_deleted_is_an_error_with_the_first_offset() -> None:
    async with MockBroker(topics={"demo": 1}) as mock, connect(mock.masters) as tube:
        mock.store("demo", *TEN)
        mock.respond(
            Method.READ_RANGE_C2B,
            ReadRangeResponseB2C(success=False, err_code=301, err_msg="gone", min_offset=56, max_offset=280),
        )
        async with tube.reader(P0, end=Start.LATEST) as reader:
            with pytest.raises(OffsetMovedError, match=r"(?s)gone.*first offset is now 56"):
                await anext(reader.batches())


async def test_a_message_that_cannot_be_read_ends_the_range_after_those_before_it() -> None:
    async with MockBroker(topics={"demo": 1}) as mock, connect(mock.masters) as tube:
        mock.store("demo", *TEN)
        mock.partitions["demo", 0].messages[4].corrupt = True
        async with tube.reader(P0, end=Start.LATEST, on_malformed="raw") as reader:
            batches = reader.batches()
            batch = await anext(batches)
            assert [message.body for message in batch] == list(TEN[:4])
            assert batch.next_offset == reader.position == 112
            with pytest.raises(CorruptError, match="1:demo:0 from offset 112"):
                await anext(batches)


async def test_a_message_without_the_attributes_that_it_claims_is_an_error_or_handed_out_raw() -> None:
    async with MockBroker(topics={"demo": 1}) as mock, connect(mock.masters) as tube:
        mock.store("demo", *TEN)
        bad = mock.partitions["demo", 0].messages[4]
        bad.payload, bad.flag = b"\x00\x00\x10\x00short", 1
        async with tube.reader(P0, end=Start.LATEST) as reader:
            batches = reader.batches()
            assert len(await anext(batches)) == 4
            with pytest.raises(CorruptError, match=r"offset 112 .*4096 bytes are claimed"):
                await anext(batches)
        async with tube.reader(P0, end=Start.LATEST, on_malformed="raw") as reader:
            batch = await anext(reader.batches())
            assert [message.body for message in batch] == [*TEN[:4], bad.payload, *TEN[5:]]
            assert batch.malformed == {4}
            assert (batch.messages[4].attributes, batch.messages[4].msg_type) == ({}, None)
        with pytest.raises(ConfigError, match="on_malformed is 'skip'"):
            tube.reader(P0, on_malformed="skip")  # type: ignore[arg-type]


async def test_a_broker_without_the_extension_is_named_and_never_asked() -> None:
    async with MockBroker(topics={"demo": 1}, capabilities=Capability(0)) as mock, connect(mock.masters) as tube:
        with pytest.raises(ConfigError, match=r"(?s)not a pytubemq Broker.*consumer"):
            await tube.reader(P0).__aenter__()
        assert not mock.received(Method.PARTITION_OFFSETS)
        assert mock.received(Method.CONSUMER_HEARTBEAT_C2B)[0].partition_info == ()


async def test_partitions_and_offsets() -> None:
    async with MockBroker(topics={"demo": 2}) as mock, connect(mock.masters) as tube:
        mock.store("demo", *TEN, partition_id=1)
        partitions = await tube.partitions("demo")
        assert partitions == [P0, Partition(1, "demo", 1)]
        assert await tube.offsets(partitions) == {P0: (0, 0), partitions[1]: (0, 280)}
        assert await tube.offsets([]) == {}
        assert tube.brokers == [mock.info]
        with pytest.raises(NotFoundError, match="1:demo:9"):
            await tube.offsets([Partition(1, "demo", 9)])
        with pytest.raises(NotFoundError, match="nope"):
            await tube.partitions("nope")
        mock.forget_clients()
        assert await tube.partitions("demo") == partitions


async def test_the_partitions_of_a_broker_that_is_away_are_named_and_its_absence_is_told() -> None:
    async with (
        MockBroker(topics={"demo": 1}) as mock,
        MockBroker(topics={"demo": 1}, broker_id=2) as other,
        connect(mock.masters, request_timeout_s=0.5) as tube,
    ):
        mock.peers.append(other)
        other.online = False
        await other.stop_broker()
        partitions = await tube.partitions("demo")
        assert partitions == [P0, Partition(2, "demo", 0)]
        with pytest.raises(UnreachableError, match=f"(?s)Broker 2.*'demo'.*{other.broker_address}"):
            await tube.offsets(partitions)
        await other.start_broker()
        assert await tube.offsets(partitions) == {P0: (0, 0), partitions[1]: (0, 0)}


async def test_a_partition_that_its_broker_does_not_have_yet_is_waited_for() -> None:
    async with MockBroker(topics={"demo": 1}) as mock, connect(mock.masters) as tube:
        partitions = await tube.partitions("demo")
        mock.fail_next(Method.PARTITION_OFFSETS, code=404)
        assert await tube.offsets(partitions) == {P0: (0, 0)}


def give_tokens(mock: MockBroker, tokens: Iterator[int]) -> None:
    """Have each question to the Master answered with the next visit token."""

    def answer(call: Call, request: Any) -> Any:
        told = MasterAuthorizedInfo(visit_authorized_token=next(tokens))
        return dataclasses.replace(mock.work(call, request), authorized_info=told)

    mock.respond_fn(Method.PRODUCER_HEARTBEAT_P2M, answer)


async def test_a_reader_and_a_look_up_show_the_visit_token_and_fetch_a_new_one_when_it_is_not_known() -> None:
    async with MockBroker(topics={"demo": 1}) as mock, connect(mock.masters) as tube:
        give_tokens(mock, itertools.count(42))
        mock.store("demo", *TEN)
        (partition,) = await tube.partitions("demo")
        mock.fail_next(Method.PARTITION_OFFSETS, code=415, text="unknown visit token")
        assert await tube.offsets([partition]) == {P0: (0, 280)}
        async with tube.reader(P0, end=280) as reader:
            batches = reader.batches(max_messages=5)
            await anext(batches)
            mock.fail_next(Method.READ_RANGE_C2B, code=415, text="unknown visit token")
            mock.fail_next(Method.READ_RANGE_C2B, code=415, text="unknown visit token")
            assert len(await anext(batches)) == 5
        asked = [request.auth_info.visit_authorized_token for request in mock.received(Method.PARTITION_OFFSETS)]
        assert 42 <= asked[0] < asked[1]
        shown = [request.auth_info.visit_authorized_token for request in mock.received(Method.READ_RANGE_C2B)]
        assert asked[1] <= shown[0] <= shown[-1]


async def test_a_reader_that_its_broker_does_not_admit_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_with_retry, "BRIEF_S", 0.2)
    async with MockBroker(topics={"demo": 1}) as mock, connect(mock.masters) as tube:
        mock.store("demo", *TEN)
        async with tube.reader(P0, end=280) as reader:
            mock.fail_next(Method.READ_RANGE_C2B, code=415, text="not admitted", times=1000)
            with pytest.raises(NotAllowedError, match="not admitted"):
                await anext(reader.batches())


async def test_a_partition_that_ends_before_an_end_that_was_there_is_an_error() -> None:
    async with MockBroker(topics={"demo": 1}) as mock, connect(mock.masters) as tube:
        mock.store("demo", *TEN)
        async with tube.reader(P0, end=560, end_exists=True) as reader:
            batches = reader.batches(max_wait_s=0.02)
            assert len(await anext(batches)) == 10
            with pytest.raises(OffsetMovedError, match="1:demo:0 ends at 280, before the end 560"):
                await anext(batches)


async def test_bad_input_is_named() -> None:
    async with MockBroker(topics={"demo": 1}) as mock, connect(mock.masters) as tube:
        with pytest.raises(FormatError, match="brokerId:topic:partitionId"):
            tube.reader("demo")
        with pytest.raises(MessageError, match="start is -1"):
            tube.reader(P0, start=-1)
        with pytest.raises(ConfigError, match="end is 'tomorrow'"):
            tube.reader(P0, end="tomorrow")
        with pytest.raises(NotFoundError):
            await tube.reader(Partition(1, "demo", 9)).__aenter__()
        reader = tube.reader(P0)
        with pytest.raises(ClosedError):
            await anext(reader.batches())


async def test_only_the_types_wanted_are_read_and_batches_without_any_move_on() -> None:
    async with MockBroker(topics={"demo": 1}) as mock, connect(mock.masters) as tube:
        async with tube.producer("demo", batching=False) as producer:
            for n, kind in enumerate(("a", "b", "a", "c", "b", "c")):
                await producer.send(b"%d" % n, msg_type=kind)
        async with tube.reader(P0, end=28 * 6, filters=["a"]) as reader:
            batches = [batch async for batch in reader.batches(max_messages=2)]
        assert [message.body for batch in batches for message in batch] == [b"0", b"2"]
        assert (batches[0].start_offset, batches[-1].next_offset) == (0, 28 * 6)
        assert all(one.next_offset == other.start_offset for one, other in itertools.pairwise(batches))
        assert not batches[-1].messages
        with pytest.raises(ConfigError, match="write a list"):
            tube.reader(P0, filters="a")


async def test_a_broker_that_cannot_filter_a_range_is_named() -> None:
    able = OURS & ~Capability.RANGE_FILTERS
    async with MockBroker(topics={"demo": 1}, capabilities=able) as mock, connect(mock.masters) as tube:
        mock.store("demo", *TEN)
        async with tube.reader(P0, end=280, filters=["a"]) as reader:
            with pytest.raises(ConfigError, match="by message type"):
                await anext(reader.batches())


async def test_topics_are_named_by_a_master_that_can() -> None:
    async with MockBroker(topics={"demo": 1, "another": 2}) as mock, connect(mock.masters) as tube:
        assert await tube.topics() == ["another", "demo"]
        assert await tube.partitions("demo") == [P0]
        mock.forget_clients()
        assert await tube.topics() == ["another", "demo"]
    async with MockBroker(topics={"demo": 1}, capabilities=Capability(0)) as mock, connect(mock.masters) as tube:
        with pytest.raises(ConfigError, match="cannot list its topics"):
            await tube.topics()


async def test_a_look_tells_how_far_a_group_is_and_who_holds_it() -> None:
    async with MockBroker(topics={"demo": 1}) as mock, connect(mock.masters) as tube:
        mock.store("demo", *TEN)
        look = (await tube.look([P0], group="g"))[P0]
        assert (look.min_offset, look.max_offset, look.position, look.held_by) == (0, 280, None, None)
        assert (await tube.capabilities([P0]))[1] & Capability.READ_RANGE


async def test_what_one_connection_knows_lets_another_read_without_a_master() -> None:
    async with MockBroker(topics={"demo": 1}) as mock, connect(mock.masters) as tube:
        mock.store("demo", *TEN)
        await tube.partitions("demo")
        known = tube.known
        assert "token" not in repr(known)
        asked = len(mock.received(Method.PRODUCER_HEARTBEAT_P2M))
        async with connect(mock.masters, known=known) as other, other.reader(P0, end=280) as reader:
            assert len(await anext(reader.batches())) == 10
        assert len(mock.received(Method.PRODUCER_HEARTBEAT_P2M)) == asked
        moved = dataclasses.replace(known, brokers=((1, "127.0.0.1", 1),))
        async with connect(mock.masters, known=moved) as other:
            assert await other.offsets([P0]) == {P0: (0, 280)}
        assert len(mock.received(Method.PRODUCER_HEARTBEAT_P2M)) > asked


async def test_what_another_connection_has_learned_since_is_taken() -> None:
    async with MockBroker(topics={"demo": 1, "more": 2}) as mock, connect(mock.masters) as tube:
        found = await tube.partitions_of(["demo", "nope", "more"])
        assert found == {"demo": [P0], "more": [Partition(1, "more", 0), Partition(1, "more", 1)]}
        async with connect(mock.masters, known=tube.known) as other:
            other.learn(dataclasses.replace(tube.known, visit_token=4711))
            await other.offsets([P0])
        shown = [request.auth_info.visit_authorized_token for request in mock.received(Method.PARTITION_OFFSETS)]
        assert shown == [4711]


@pytest.mark.parametrize("next_offset", [1, 27, 29])
@pytest.mark.parametrize("limits", [{}, {"max_bytes": 100}])
async def test_a_response_with_no_message_and_less_than_one_to_pass_is_damage(
    next_offset: int, limits: dict[str, int]
) -> None:
    async with MockBroker(topics={"demo": 1}) as mock, connect(mock.masters) as tube:
        nothing = ReadRangeResponseB2C(success=True, err_code=200, next_offset=next_offset, min_offset=0, max_offset=28)
        mock.respond(Method.READ_RANGE_C2B, nothing)
        async with tube.reader(P0, start=0, end=56) as reader:
            with pytest.raises(CorruptError, match="they are lost to damage"):
                await anext(reader.batches(**limits))
