"""RESET_OFFSETS and RESET_HISTORY on a real Broker."""

from __future__ import annotations

import asyncio
import errno
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq.broker.registration_key import RegistrationKey
from pytubemq.errors import Code
from pytubemq.model.limits import MAX_LONG_CALLS
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.testing.disk import FaultyDisk, Operation
from pytubemq.wire.protocol.messages.extension import (
    OffsetReset,
    PartitionOffsetsRequest,
    PartitionOffsetsResponse,
    ResetHistoryRequest,
    ResetHistoryResponse,
    ResetOffsetsRequest,
    ResetOffsetsResponse,
)
from pytubemq.wire.rpc.methods import Method

from .support import TIMEOUT_S, Peer, connected, running

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

pytestmark = [pytest.mark.anyio, pytest.mark.scenario]


def to(place: str | int, partition_id: int = 0, **fields: Any) -> OffsetReset:
    """A reset to an offset or a place by name."""
    where: dict[str, Any] = {"offset": place} if isinstance(place, int) else {"to": place}
    return OffsetReset(topic_name=fields.pop("topic", "demo"), partition_id=partition_id, **where, **fields)


async def ask(peer: Peer, *resets: OffsetReset, dry_run: bool | None = None, group: str = "g") -> ResetOffsetsResponse:
    request = ResetOffsetsRequest(
        client_id=peer.client_id, group_name=group, user="ann", resets=resets, dry_run=dry_run
    )
    return await peer.connection.request(request, ResetOffsetsResponse, Method.RESET_OFFSETS, 2, timeout_s=TIMEOUT_S)


async def history(peer: Peer, **fields: Any) -> ResetHistoryResponse:
    request = ResetHistoryRequest(client_id=peer.client_id, **fields)
    return await peer.connection.request(request, ResetHistoryResponse, Method.RESET_HISTORY, 2, timeout_s=TIMEOUT_S)


async def send(peer: Peer, count: int, partition_id: int = 0) -> None:
    for number in range(count):
        assert (await peer.send(b"message %d" % number, partition_id)).success


async def test_a_live_consumer_goes_on_from_there_and_a_crash_changes_nothing() -> None:
    disk = FaultyDisk()
    async with running(disk) as broker, connected(broker) as peer:
        await send(peer, 5)
        await peer.register()
        await peer.get()
        await peer.commit()
        answer = await ask(peer, to(2 * OFFSET_UNIT, asked="number:2"))
        (result,) = answer.results
        assert (answer.success, result.err_code) == (True, Code.SUCCESS)
        assert (result.old_offset, result.new_offset) == (5 * OFFSET_UNIT, 2 * OFFSET_UNIT)
        assert (await peer.get())[0].err_code == Code.MOVED
        await peer.register()
        _, messages = await peer.get()
        assert [message.payload for message in messages] == [b"message 2", b"message 3", b"message 4"]
    disk.crash()
    async with running(disk) as broker, connected(broker) as peer:
        assert (await peer.register()).curr_offset == 2 * OFFSET_UNIT
        (record,) = (await history(peer)).records
        assert (record.user, record.group_name, record.topic_name, record.partition_id) == ("ann", "g", "demo", 0)
        assert (record.asked, record.old_offset, record.new_offset) == (
            f"number:2 (offset {2 * OFFSET_UNIT})", 5 * OFFSET_UNIT, 2 * OFFSET_UNIT,
        )  # fmt: skip


async def test_many_partitions_go_at_once_each_to_its_own_place() -> None:
    async with running() as broker, connected(broker) as peer:
        for partition_id in range(3):
            await send(peer, 2, partition_id)
        answer = await ask(peer, to("earliest"), to("latest", 1), to(OFFSET_UNIT, 2))
        assert [(one.old_offset, one.new_offset) for one in answer.results] == [
            (None, 0), (None, 2 * OFFSET_UNIT), (None, OFFSET_UNIT),
        ]  # fmt: skip
        ends = await peer.offsets(group_names=("g",))
        assert [one.confirmed_offset for one in sorted(ends.groups, key=lambda one: one.partition_id)] == [
            0, 2 * OFFSET_UNIT, OFFSET_UNIT,
        ]  # fmt: skip


async def test_a_time_is_that_of_the_first_message_that_came_then_or_later() -> None:
    async with running() as broker, connected(broker) as peer:
        await send(peer, 5)
        await peer.register()
        _, messages = await peer.get()
        times = [message.append_time or 0 for message in messages]
        for time_ms in (0, *times, times[-1] + 1, 2**53):
            later = [n for n, came in enumerate(times) if came >= time_ms]
            (result,) = (await ask(peer, to("time", time_ms=time_ms))).results
            assert result.err_code == Code.SUCCESS
            assert result.new_offset == (later[0] if later else 5) * OFFSET_UNIT
        (first, *_) = (await history(peer)).records
        assert first.asked.startswith("time ")


async def test_a_dry_run_tells_all_and_changes_nothing() -> None:
    async with running() as broker, connected(broker) as peer:
        await send(peer, 2)
        (result,) = (await ask(peer, to("latest"), dry_run=True)).results
        assert (result.err_code, result.old_offset, result.new_offset) == (Code.SUCCESS, None, 2 * OFFSET_UNIT)
        assert await broker.inspect.groups() == (frozenset(), frozenset())
        assert (await history(peer)).records == ()


@pytest.mark.parametrize(
    ("bad", "code", "text"),
    [
        (to(3 * OFFSET_UNIT), Code.BAD_REQUEST, "offset 84 is not in partition 0 of demo, which has 0 to 56"),
        (
            to(9 * OFFSET_UNIT, asked="number:9"),
            Code.BAD_REQUEST,
            "number:9 is not in partition 0 of demo, which has number:0 to number:2 (offsets 0 to 56)",
        ),
        (
            to(OFFSET_UNIT + 5),
            Code.BAD_REQUEST,
            "33 is not a message's: these are 28 apart, its neighbours are 28",
        ),
        (to(-1), Code.BAD_REQUEST, "which has 0 to 56"),
        (to("earliest", 9), Code.FORBIDDEN, "no partition 9"),
        (to("earliest", topic="nosuch"), Code.FORBIDDEN, "topic 'nosuch' does not exist"),
        (to("newest"), Code.BAD_REQUEST, "to 'newest'"),
        (to("time"), Code.BAD_REQUEST, "timeMs None"),
        (to("earliest", time_ms=5), Code.BAD_REQUEST, "timeMs 5"),
        (OffsetReset(topic_name="demo", partition_id=0), Code.BAD_REQUEST, "names an offset, or one of"),
    ],
)
async def test_what_cannot_be_is_refused_by_itself(bad: OffsetReset, code: Code, text: str) -> None:
    async with running() as broker, connected(broker) as peer:
        await send(peer, 2)
        refused, made = (await ask(peer, bad, to("latest", 1))).results
        assert (refused.err_code, refused.new_offset) == (code, None)
        assert text in (refused.err_msg or "")
        assert made.err_code == Code.SUCCESS
        assert {facts.key.partition_id for facts in await broker.inspect.positions()} == {1}


async def test_a_partition_that_is_named_twice_is_moved_once() -> None:
    async with running() as broker, connected(broker) as peer:
        await send(peer, 1)
        first, second = (await ask(peer, to("latest"), to("earliest"))).results
        assert (first.err_code, second.err_code) == (Code.SUCCESS, Code.BAD_REQUEST)
        assert "twice" in (second.err_msg or "")


async def test_what_a_broken_disk_refuses_did_not_happen() -> None:
    disk = FaultyDisk()
    async with running(disk) as broker, connected(broker) as peer:
        await send(peer, 2)
        disk.fail(Operation.FDATASYNC, errno.EIO)
        answer = await ask(peer, to("latest"))
        assert not answer.success
        assert "nothing was changed" in answer.err_msg
        assert (await history(peer)).records == ()


async def test_changes_over_http_are_remembered_too() -> None:
    async with running() as broker, connected(broker) as peer:
        await send(peer, 2)
        await broker.offsets.set_one(RegistrationKey("a", "demo", 0), OFFSET_UNIT, user="bob")
        await broker.offsets.clone("a", ["b"], [], user="bob")
        await broker.offsets.to_end(["b"], ["demo"], user="bob")
        await broker.offsets.remove(["a"], [], user="eve")
        records = (await history(peer, max_records=50)).records
        told = [(one.user, one.group_name, one.partition_id, one.asked, one.old_offset) for one in records]
        assert told[0] == ("eve", "a", 0, "removed", OFFSET_UNIT)
        assert sorted(told[1:4]) == [
            ("bob", "b", 0, "latest", OFFSET_UNIT), ("bob", "b", 1, "latest", None), ("bob", "b", 2, "latest", None),
        ]  # fmt: skip
        assert told[4:] == [("bob", "b", 0, "as group a", None), ("bob", "a", 0, "offset 28", None)]
        assert {one.group_name for one in (await history(peer, group_name="a")).records} == {"a"}
        assert len((await history(peer, max_records=1)).records) == 1


async def test_who_asks_must_say_who_he_is() -> None:
    async with running() as broker, connected(broker) as peer:
        request = ResetOffsetsRequest(client_id=peer.client_id, group_name="g", user=" ", resets=(to("latest"),))
        answer = await peer.connection.request(
            request, ResetOffsetsResponse, Method.RESET_OFFSETS, 2, timeout_s=TIMEOUT_S
        )
        assert (answer.err_code, answer.err_msg) == (Code.BAD_REQUEST, "user is missing")
        for user in ("ann\n2026-01-01 bob", "\x1b[31mann"):  # would forge a line of the history
            forged = await peer.connection.request(
                replace(request, user=user), ResetOffsetsResponse, Method.RESET_OFFSETS, 2, timeout_s=TIMEOUT_S
            )
            assert forged.err_code == Code.BAD_REQUEST
            assert "user '" in forged.err_msg
        assert (await history(peer)).records == ()


async def offsets(peer: Peer) -> PartitionOffsetsResponse:
    request = PartitionOffsetsRequest(client_id=peer.client_id)
    return await peer.connection.request(
        request, PartitionOffsetsResponse, Method.PARTITION_OFFSETS, 2, timeout_s=TIMEOUT_S
    )


@pytest.mark.parametrize("request_once", [history, offsets])
async def test_many_queries_of_one_connection_at_a_time_are_refused_at_once(
    request_once: Callable[[Peer], Awaitable[ResetHistoryResponse | PartitionOffsetsResponse]],
) -> None:
    async with running() as broker, connected(broker) as peer:
        answers = await asyncio.gather(*(request_once(peer) for _ in range(2 * MAX_LONG_CALLS)))
        codes = [answer.err_code for answer in answers]
        assert codes.count(Code.SUCCESS) >= MAX_LONG_CALLS
        assert {Code.SUCCESS, Code.SERVICE_UNAVAILABLE} == set(codes)
        assert (await request_once(peer)).success, "there is room again"


async def test_many_requests_of_one_connection_at_a_time_are_refused_at_once() -> None:
    async with running() as broker, connected(broker) as peer, connected(broker) as other:
        answers = await asyncio.gather(
            *(ask(peer, to("latest"), group=f"g{number}") for number in range(2 * MAX_LONG_CALLS))
        )
        codes = [answer.err_code for answer in answers]
        assert codes.count(Code.SUCCESS) >= MAX_LONG_CALLS
        assert Code.SERVICE_UNAVAILABLE in codes
        assert {Code.SUCCESS, Code.SERVICE_UNAVAILABLE} == set(codes)
        assert (await ask(peer, to("latest"))).success, "there is room again"
        assert (await ask(other, to("latest"))).success
