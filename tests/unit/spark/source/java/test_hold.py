"""One partition held straight at its Broker, and what is asked there about its ends."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq.client.reader.range_group import EVERYTHING, FLUSHED, GroupRanges, PartitionPosition
from pytubemq.errors import (
    ClosedError,
    Code,
    ConnectionLostError,
    CorruptError,
    NotRegisteredError,
    OccupiedError,
    TransportError,
    UnreachableError,
)
from pytubemq.model.ids import Address, Partition
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.spark.source.java import partition_ends as ends_module
from pytubemq.spark.source.java.partition_ends import EndsWatch, refuse_time
from pytubemq.spark.source.planning.plan import Ends
from pytubemq.testing.mock_broker import MockBroker
from pytubemq.wire.protocol.extensions import Capability
from pytubemq.wire.protocol.messages.broker import CommitOffsetResponseB2C, GetMessageResponseB2C
from pytubemq.wire.rpc.methods import Method

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio

P0 = Partition(1, "demo", 0)
JAVA = Capability(0)


@asynccontextmanager
async def java() -> AsyncIterator[tuple[MockBroker, GroupRanges]]:
    """A Broker that speaks as the original does, with five messages, and the way to it."""
    async with MockBroker(topics={"demo": 2}, capabilities=JAVA) as mock:
        mock.store("demo", *(str(n).encode() for n in range(5)))
        ranges = GroupRanges([Address.parse(mock.masters)], client_name="spark")
        await ranges.open()
        try:
            yield mock, ranges
        finally:
            await ranges.close()


async def test_a_hold_begins_where_it_is_told_and_says_where_each_fetch_ended() -> None:
    async with java() as (mock, ranges):
        hold = ranges.hold(P0, group="g")
        assert await hold.begin(2 * OFFSET_UNIT) == PartitionPosition(2 * OFFSET_UNIT, 5 * OFFSET_UNIT)
        taken = await hold.fetch()
        assert [record.payload for record in taken.records] == [b"2", b"3", b"4"]
        assert (taken.start, taken.end, taken.newest) == (2 * OFFSET_UNIT, 5 * OFFSET_UNIT, 5 * OFFSET_UNIT)
        nothing = await hold.fetch()
        assert (nothing.records, nothing.start, nothing.end) == ((), 5 * OFFSET_UNIT, 5 * OFFSET_UNIT)
        mock.store("demo", b"5")
        assert await hold.settle() == 6 * OFFSET_UNIT
        await hold.begin(0)
        assert len((await hold.fetch()).records) == 6
        await hold.end()
        await hold.end()
        assert mock.partitions["demo", 0].owners == {}


async def test_an_offset_behind_the_end_is_told_as_moved() -> None:
    async with java() as (_, ranges):
        hold = ranges.hold(P0, group="g")
        assert await hold.begin(99 * OFFSET_UNIT) == PartitionPosition(5 * OFFSET_UNIT, 5 * OFFSET_UNIT)
        await hold.end()


async def test_what_is_read_is_chosen_by_the_registration() -> None:
    async with java() as (mock, ranges):
        for flushed_only, wanted in ((False, EVERYTHING), (True, FLUSHED)):
            hold = ranges.hold(P0, group="g", flushed_only=flushed_only, filters=("odd",))
            await hold.begin(0)
            told = mock.received(Method.CONSUMER_REGISTER_C2B)[-1]
            assert (told.qry_priority_id, told.filter_cond_str) == (wanted, ("odd",))
            await hold.end()


async def test_a_second_reader_of_a_group_is_refused_and_one_of_another_group_is_not() -> None:
    async with java() as (_, ranges):
        first, second, other = (ranges.hold(P0, group=group) for group in ("g", "g", "h"))
        await first.begin(0)
        with pytest.raises(OccupiedError):
            await second.begin(0)
        await other.begin(0)
        await first.end()
        await second.begin(0)


async def test_a_hold_lives_on_one_connection_only() -> None:
    async with java() as (mock, ranges):
        hold = ranges.hold(P0, group="g")
        with pytest.raises(ClosedError):
            await hold.fetch()
        await hold.begin(0)
        mock.drop_connections()
        with pytest.raises(TransportError):
            await hold.fetch()
        with pytest.raises(TransportError):
            await hold.begin(0)
        await hold.end()
        again = ranges.hold(P0, group="h")
        await again.begin(0)
        assert len((await again.fetch()).records) == 5


async def test_a_forgotten_hold_and_an_answer_without_a_place_are_errors() -> None:
    async with java() as (mock, ranges):
        hold = ranges.hold(P0, group="g")
        await hold.begin(0)
        mock.partitions["demo", 0].owners.clear()
        with pytest.raises(NotRegisteredError):
            await hold.fetch()
        await hold.begin(0)
        mock.respond(
            Method.CONSUMER_COMMIT_C2B,
            CommitOffsetResponseB2C(success=True, err_code=200, err_msg="OK!", curr_offset=-1, max_offset=28),
        )
        with pytest.raises(CorruptError, match="did not return where the next fetch begins"):
            await hold.fetch()


async def test_flow_control_is_told_and_no_failure() -> None:
    async with java() as (mock, ranges):
        hold = ranges.hold(P0, group="g")
        await hold.begin(OFFSET_UNIT)
        mock.respond(
            Method.GET_MESSAGE_C2B,
            GetMessageResponseB2C(
                success=False, err_code=int(Code.SERVER_CONSUME_SPEED_LIMIT), err_msg="slow", min_limit_time=2500
            ),
        )
        taken = await hold.fetch()
        assert (taken.records, taken.start, taken.end, taken.wait_s) == ((), OFFSET_UNIT, OFFSET_UNIT, 2.5)


# --- ends -----------------------------------------------------------------------------------------------------------


async def test_ends_are_as_they_are_now_and_cost_one_question_each() -> None:
    async with java() as (mock, ranges):
        watch = EndsWatch(ranges, read_group=None, flushed_only=False)
        p1 = Partition(1, "demo", 1)
        assert await watch.ask([P0, p1]) == {P0: Ends(0, 5 * OFFSET_UNIT), p1: Ends(0, 0)}
        mock.store("demo", b"5")
        assert await watch.ask([P0]) == {P0: Ends(0, 6 * OFFSET_UNIT)}
        assert len(mock.received(Method.CONSUMER_REGISTER_C2B)) == 2
        assert len(mock.received(Method.CONSUMER_COMMIT_C2B)) == 1
        assert mock.received(Method.GET_MESSAGE_C2B) == []


@pytest.mark.slow
async def test_ends_are_asked_under_another_name_where_one_is_taken_and_again_after_a_restart() -> None:
    async with java() as (mock, ranges):
        await ranges.hold(P0, group="billing_ends_0").begin(0)
        watch = EndsWatch(ranges, read_group="billing", flushed_only=False)
        assert await watch.ask([P0]) == {P0: Ends(0, 5 * OFFSET_UNIT)}
        assert mock.received(Method.CONSUMER_REGISTER_C2B)[-1].group_name == "billing_ends_1"
        mock.drop_connections()
        assert await watch.ask([P0]) == {P0: Ends(0, 5 * OFFSET_UNIT)}
        mock.partitions["demo", 0].owners.clear()
        assert await watch.ask([P0]) == {P0: Ends(0, 5 * OFFSET_UNIT)}
        await mock.stop_broker()
        with pytest.raises((UnreachableError, ConnectionLostError)):
            await watch.ask([P0])


async def test_a_hold_for_ends_is_renewed_before_the_broker_forgets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with java() as (mock, ranges):
        watch = EndsWatch(ranges, read_group=None, flushed_only=False)
        await watch.ask([P0])
        monkeypatch.setattr(ends_module, "HELD_S", -1.0)
        await watch.ask([P0])
        assert [told.op_type for told in mock.received(Method.CONSUMER_REGISTER_C2B)] == [31, 31]


async def test_ends_are_asked_under_another_name_once_somebody_else_has_the_forgotten_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with java() as (mock, ranges):
        watch = EndsWatch(ranges, read_group="billing", flushed_only=False)
        await watch.ask([P0])
        mock.partitions["demo", 0].owners.clear()
        await ranges.hold(P0, group="billing_ends_0").begin(0)
        monkeypatch.setattr(ends_module, "HELD_S", -1.0)
        assert await watch.ask([P0]) == {P0: Ends(0, 5 * OFFSET_UNIT)}
        assert mock.received(Method.CONSUMER_REGISTER_C2B)[-1].group_name == "billing_ends_1"


async def test_what_is_on_disk_is_asked_with_a_fetch_that_wants_no_message() -> None:
    async with java() as (mock, ranges):
        watch = EndsWatch(ranges, read_group=None, flushed_only=True)

        def told(err_code: int, **more: Any) -> None:
            mock.respond(
                Method.GET_MESSAGE_C2B,
                GetMessageResponseB2C(success=err_code == 200, err_code=err_code, err_msg="", **more),
            )

        told(404)
        assert await watch.ask([P0]) == {P0: Ends(0, 0)}
        told(200, curr_offset=0, max_offset=3 * OFFSET_UNIT)
        assert await watch.ask([P0]) == {P0: Ends(0, 3 * OFFSET_UNIT)}
        told(404)
        assert await watch.ask([P0]) == {P0: Ends(0, 3 * OFFSET_UNIT)}
        registered = mock.received(Method.CONSUMER_REGISTER_C2B)[0]
        assert (registered.qry_priority_id, registered.filter_cond_str) == (FLUSHED, ("pytubemq-nothing",))


def test_a_position_by_time_is_refused_with_a_remedy() -> None:
    error = refuse_time(P0)
    assert "Java Broker" in error.message
    assert "earliest or latest" in str(error.hint)
