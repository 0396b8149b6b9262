"""A range of a Java Broker as Arrow batches, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest

from pytubemq.client.partition_state import Known
from pytubemq.client.received.unpacker import Unreadable
from pytubemq.errors import CorruptError, OffsetMovedError
from pytubemq.model.cluster_address import ClusterAddress
from pytubemq.model.ids import Address, Partition
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.spark.source.java import ranges as ranges_module
from pytubemq.spark.source.java.access import access, forget
from pytubemq.spark.source.java.partition_ends import java_ends
from pytubemq.spark.source.java.ranges import java_batches
from pytubemq.spark.source.java.reading import RangePiece
from pytubemq.spark.source.planning.plan import Ends, OffsetRange
from pytubemq.testing.mock_broker import MockBroker
from pytubemq.wire.protocol.extensions import Capability
from pytubemq.wire.rpc.methods import Method

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio

P0 = Partition(1, "demo", 0)
COLUMNS = ("topic", "partition", "offset", "messageId", "body")


@pytest.fixture
async def mock() -> AsyncIterator[MockBroker]:
    """A Broker that speaks as the original does, with 1,000 messages."""
    async with MockBroker(topics={"demo": 1}, capabilities=Capability(0)) as running:
        running.store("demo", *(str(n).encode() for n in range(1000)))
        yield running
        await asyncio.to_thread(forget, masters(running))


def masters(mock: MockBroker) -> ClusterAddress:
    return ClusterAddress.parse(mock.masters)


async def read(mock: MockBroker, start: int, end: int, **more: Any) -> list[Any]:
    """The batches of a range given in messages."""
    wanted = OffsetRange(P0, start * OFFSET_UNIT, end * OFFSET_UNIT)
    options: dict[str, Any] = {"time_zone": ZoneInfo("UTC"), "fail_on_data_loss": True} | more
    return await asyncio.to_thread(lambda: list(java_batches(masters(mock), wanted, COLUMNS, **options)))


async def test_the_rows_of_a_range_with_the_offsets_that_are_known(mock: MockBroker) -> None:
    assert await asyncio.to_thread(lambda: java_ends(masters(mock), [P0])) == {P0: Ends(0, 1000 * OFFSET_UNIT)}
    (batch,) = await read(mock, 10, 900)
    rows = batch.to_pylist()
    assert [row["offset"] for row in rows] == [n * OFFSET_UNIT for n in range(10, 900)]
    assert [row["body"] for row in rows] == [str(n).encode() for n in range(10, 900)]
    assert {(row["topic"], row["partition"]) for row in rows} == {("demo", 0)}
    assert len({row["messageId"] for row in rows}) == 890
    assert mock.partitions["demo", 0].owners.keys() == {"pytubemq_spark_ends_0"}, "the task's own is given back"


async def test_many_rows_go_in_batches_and_a_reader_that_is_left_gives_its_partition_back(
    mock: MockBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    mock.store("demo", *(str(n).encode() for n in range(1000, 2500)))
    (together,) = await read(mock, 0, 2500)
    assert together.num_rows == 2500
    monkeypatch.setattr(ranges_module, "BATCH_ROWS", 100)
    assert [batch.num_rows for batch in await read(mock, 0, 2500)] == [1000, 1000, 500]

    def one_only() -> None:
        rows = java_batches(
            masters(mock), OffsetRange(P0, 0, 28_000), COLUMNS, time_zone=ZoneInfo("UTC"), fail_on_data_loss=True
        )
        next(rows)
        assert isinstance(rows, Generator)
        rows.close()

    await asyncio.to_thread(one_only)
    assert mock.partitions["demo", 0].owners == {}


async def test_a_damaged_message_fails_the_task_or_is_left_out_and_told(mock: MockBroker) -> None:
    for damaged in (5, 7, 8):
        mock.partitions["demo", 0].messages[damaged].corrupt = True
    with pytest.raises(CorruptError, match=r"3 messages between the offsets .* cannot be read"):
        await read(mock, 0, 10)
    holes: list[tuple[int, int]] = []
    (batch,) = await read(
        mock, 0, 10, fail_on_data_loss=False, on_loss=lambda gone, _: holes.append((gone.start, gone.end))
    )
    assert batch.column("body").to_pylist() == [str(n).encode() for n in (0, 1, 2, 3, 4, 6, 9)]
    assert holes == [(5 * OFFSET_UNIT, 6 * OFFSET_UNIT), (7 * OFFSET_UNIT, 9 * OFFSET_UNIT)]


def test_where_offsets_are_not_known_a_damaged_message_is_told_with_what_came_with_it() -> None:
    lost = [Unreadable(None, "its checksum does not match")]
    piece = RangePiece((), 280, 560, dense=False)
    wanted = OffsetRange(P0, 0, 2800)
    assert list(ranges_module._holes(piece, lost, wanted)) == [OffsetRange(P0, 280, 560)]


async def test_a_range_beyond_the_partitions_end_is_data_loss(mock: MockBroker) -> None:
    with pytest.raises(OffsetMovedError, match="data loss"):
        await read(mock, 990, 1010)
    holes: list[tuple[int, int]] = []
    (batch,) = await read(
        mock, 990, 1010, fail_on_data_loss=False, on_loss=lambda gone, _: holes.append((gone.start, gone.end))
    )
    assert batch.num_rows == 10
    assert holes == [(1000 * OFFSET_UNIT, 1010 * OFFSET_UNIT)]


async def test_a_group_that_is_given_is_the_one_that_reads(mock: MockBroker) -> None:
    await read(mock, 0, 10, read_group="billing")
    assert {told.group_name for told in mock.received(Method.GET_MESSAGE_C2B)} == {"billing"}


async def test_a_process_has_one_way_to_a_cluster(mock: MockBroker) -> None:
    first = await asyncio.to_thread(access, masters(mock))
    assert await asyncio.to_thread(access, masters(mock)) is first
    await asyncio.to_thread(forget, masters(mock))
    assert await asyncio.to_thread(access, masters(mock)) is not first


async def test_a_task_that_is_told_what_the_driver_knows_needs_no_master(mock: MockBroker) -> None:
    known = Known(((1, mock.broker_address.host, mock.broker_address.port),), -1)
    nowhere = ClusterAddress((Address("127.0.0.1", 1),))
    wanted = OffsetRange(P0, 0, 10 * OFFSET_UNIT)

    def rows() -> int:
        try:
            found = java_batches(
                nowhere, wanted, COLUMNS, time_zone=ZoneInfo("UTC"), fail_on_data_loss=True, known=known
            )
            return sum(batch.num_rows for batch in found)
        finally:
            forget(nowhere)

    assert await asyncio.to_thread(rows) == 10


async def test_a_broker_that_does_not_know_the_token_yet_is_asked_again_for_ends(mock: MockBroker) -> None:
    mock.fail_next(Method.CONSUMER_REGISTER_C2B, code=415, text="who are you", times=2)
    assert await asyncio.to_thread(lambda: java_ends(masters(mock), [P0])) == {P0: Ends(0, 1000 * OFFSET_UNIT)}
