"""Requests with as many values as they may have: answered whole, and worked on in slices."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING

import pytest

from pytubemq.model.limits import (
    DISK_READERS,
    LONG_WORK_SLICE,
    MAX_LONG_REQUESTS,
    MAX_RESETS,
    MAX_SHORT_REQUESTS,
)
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.model.topic import TopicConfig
from pytubemq.net.server.long_work import LongWork
from pytubemq.storage.store.reads import StoreReads
from pytubemq.wire.protocol.messages.extension import (
    OffsetReset,
    ResetHistoryRequest,
    ResetHistoryResponse,
    ResetOffsetsRequest,
    ResetOffsetsResponse,
)
from pytubemq.wire.rpc.methods import Method
from pytubemq.wire.serialization.message_bytes import encode
from tests.support.waiting import until

from .support import TIMEOUT_S, connected, running

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pytubemq.net.server.long_work import Peer

pytestmark = [pytest.mark.anyio, pytest.mark.scenario]

PARTITIONS = 3 * LONG_WORK_SLICE + 1


class Turns:
    """How many turns the Broker's long requests have had."""

    def __init__(self) -> None:
        self.count = 0

    def since(self) -> int:
        """Turns since this was called last."""
        count, self.count = self.count, 0
        return count


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    counted, turn = Turns(), LongWork._turn

    async def counting(self: LongWork, peer: Peer) -> None:
        counted.count += 1
        await turn(self, peer)

    monkeypatch.setattr(LongWork, "_turn", counting)
    return counted


async def test_moving_a_group_in_many_partitions_and_telling_of_it(turns: Turns) -> None:
    async with running(topics=(TopicConfig("wide", PARTITIONS),)) as broker, connected(broker) as peer:
        peer.topic = "wide"
        await peer.send(partition_id=PARTITIONS - 1)
        resets = [OffsetReset(topic_name="wide", partition_id=at, to="latest") for at in range(PARTITIONS)]
        request = ResetOffsetsRequest(client_id=peer.client_id, group_name="g", user="ann", resets=tuple(resets))
        answer = await peer.connection.request(
            request, ResetOffsetsResponse, Method.RESET_OFFSETS, 2, timeout_s=TIMEOUT_S
        )
        assert [result.err_code for result in answer.results] == [200] * PARTITIONS
        assert [result.new_offset for result in answer.results] == [0] * (PARTITIONS - 1) + [OFFSET_UNIT]
        assert turns.since() > PARTITIONS // LONG_WORK_SLICE

        told = await peer.offsets(all_groups=True)
        assert [ends.partition_id for ends in told.partitions] == list(range(PARTITIONS))
        assert {one.partition_id for one in told.groups} == set(range(PARTITIONS))
        assert turns.since() > 2 * (PARTITIONS // LONG_WORK_SLICE)

        named = [("wide", at) for at in reversed(range(PARTITIONS))]
        told = await peer.offsets(*named, ("wide", 0), ("other", 0), group_names=("g",))
        assert [(ends.topic_name, ends.partition_id) for ends in told.partitions] == named
        assert len(told.groups) == PARTITIONS
        assert turns.since() > 3 * (PARTITIONS // LONG_WORK_SLICE)

        past = await peer.connection.request(
            ResetHistoryRequest(client_id=peer.client_id, max_records=PARTITIONS), ResetHistoryResponse,
            Method.RESET_HISTORY, 2, timeout_s=TIMEOUT_S,
        )  # fmt: skip
        assert [record.partition_id for record in past.records] == list(reversed(range(PARTITIONS)))
        assert turns.since() > PARTITIONS // LONG_WORK_SLICE


async def test_requests_that_wait_are_let_go_with_their_connection() -> None:
    async with running() as broker, contextlib.AsyncExitStack() as busy:
        state, server = broker._state, broker._server
        assert state is not None
        assert server is not None
        for number in range(MAX_SHORT_REQUESTS):
            await busy.enter_async_context(state.short_work.request(_Busy(number)))
        async with connected(broker) as peer:
            resets = [OffsetReset(topic_name="demo", partition_id=0, to="latest")]
            request = ResetOffsetsRequest(client_id=peer.client_id, group_name="g", user="ann", resets=tuple(resets))
            history = ResetHistoryRequest(client_id=peer.client_id)
            asked: list[Awaitable[object]] = [
                peer.connection.call(Method.RESET_OFFSETS, 2, encode(request), timeout_s=TIMEOUT_S),
                peer.connection.call(Method.RESET_HISTORY, 2, encode(history), timeout_s=TIMEOUT_S),
                asyncio.ensure_future(peer.offsets()),
            ]
            await until(lambda: len(server._tasks) == len(asked))
        await until(lambda: not server._tasks)
        await asyncio.gather(*asked, return_exceptions=True)
        await busy.aclose()
        async with connected(broker) as peer:
            assert (await peer.offsets(all_groups=True)).groups == ()


async def test_a_short_question_does_not_wait_for_long_requests_of_others() -> None:
    async with running() as broker, contextlib.AsyncExitStack() as busy:
        state, server = broker._state, broker._server
        assert state is not None
        assert server is not None
        for number in range(MAX_LONG_REQUESTS):
            await busy.enter_async_context(state.long_work.request(_Busy(number)))
        async with connected(broker) as long, connected(broker) as peer:
            many = [("demo", 0)] * 10_000
            asked = [asyncio.create_task(long.offsets(*many))]
            await until(lambda: server._tasks)
            asked.append(asyncio.create_task(long.offsets()))
            await until(lambda: len(server._tasks) == len(asked))
            assert (await peer.offsets()).success
            assert len(server._tasks) == len(asked), "a short one behind a long one of its connection"
            await busy.aclose()
            assert all(answer.success for answer in await asyncio.gather(*asked))


class _Busy:
    """A peer whose request is being worked on."""

    backlogged = False
    closed = False

    def __init__(self, number: int) -> None:
        self.peer = f"10.0.0.{number}:1"


async def test_more_resets_than_go_at_once_change_nothing(turns: Turns) -> None:
    async with running() as broker, connected(broker) as peer:
        resets = [OffsetReset(topic_name="demo", partition_id=0, to="latest")] * (MAX_RESETS + 1)
        request = ResetOffsetsRequest(client_id=peer.client_id, group_name="g", user="ann", resets=tuple(resets))
        answer = await peer.connection.request(
            request, ResetOffsetsResponse, Method.RESET_OFFSETS, 2, timeout_s=TIMEOUT_S
        )
        assert (answer.err_code, answer.results) == (400, ())
        assert turns.since() == 1
        assert (await peer.offsets(all_groups=True)).groups == ()


async def test_a_partition_that_is_named_twice_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as broker, connected(broker) as peer:
        assert broker._state is not None
        store, looked = broker._state.store, list[int]()
        before = store.offset_at

        def offset_at(topic: str, partition_id: int, time_ms: int) -> int:
            looked.append(partition_id)
            return before(topic, partition_id, time_ms)

        monkeypatch.setattr(store, "offset_at", offset_at)
        resets = [OffsetReset(topic_name="demo", partition_id=at % 2, to="time", time_ms=0) for at in range(MAX_RESETS)]
        request = ResetOffsetsRequest(client_id=peer.client_id, group_name="g", user="ann", resets=tuple(resets))
        answer = await peer.connection.request(
            request, ResetOffsetsResponse, Method.RESET_OFFSETS, 2, timeout_s=TIMEOUT_S
        )
        assert looked == [0, 1]
        assert [result.err_code for result in answer.results] == [200, 200] + [400] * (MAX_RESETS - 2)
        assert "partition 0 of demo is named twice" in (answer.results[2].err_msg or "")


async def test_places_by_their_times_are_looked_up_a_slice_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(topics=(TopicConfig("wide", PARTITIONS),)) as broker, connected(broker) as peer:
        assert broker._state is not None
        jobs, lookups = list[object](), broker._state.lookups
        submit = lookups.submit

        def counting(job: Callable[..., object], *args: object) -> object:
            jobs.append(job)
            return submit(job, *args)

        monkeypatch.setattr(lookups, "submit", counting)
        resets = [OffsetReset(topic_name="wide", partition_id=at, to="time", time_ms=0) for at in range(PARTITIONS)]
        request = ResetOffsetsRequest(client_id=peer.client_id, group_name="g", user="ann", resets=tuple(resets))
        answer = await peer.connection.request(
            request, ResetOffsetsResponse, Method.RESET_OFFSETS, 2, timeout_s=TIMEOUT_S
        )
        assert [result.err_code for result in answer.results] == [200] * PARTITIONS
        slices = -(-PARTITIONS // LONG_WORK_SLICE)
        assert len(jobs) == slices

        told = await peer.offsets(not_before_ms=0)
        assert {ends.offset_by_time for ends in told.partitions} == {0}
        assert len(jobs) == 2 * slices


async def test_a_fetch_from_the_disk_does_not_wait_for_lookups_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as broker, contextlib.AsyncExitStack() as peers:
        state = broker._state
        assert state is not None
        go, lookup = threading.Event(), StoreReads.offset_at

        def held(store: StoreReads, topic: str, partition_id: int, not_before_ms: int) -> int:
            assert go.wait(TIMEOUT_S)
            return lookup(store, topic, partition_id, not_before_ms)

        monkeypatch.setattr(StoreReads, "offset_at", held)
        monkeypatch.setattr(StoreReads, "in_memory", lambda *_: False)
        reader, *asking = [await peers.enter_async_context(connected(broker)) for _ in range(DISK_READERS + 1)]
        assert (await reader.send(b"x")).success
        assert (await reader.register()).success
        asked = [asyncio.create_task(peer.offsets(not_before_ms=0)) for peer in asking]
        try:
            await until(lambda: state.pending_reads == DISK_READERS)
            _, messages = await reader.get()
            assert [message.payload for message in messages] == [b"x"]
        finally:
            go.set()
        assert all(answer.success for answer in await asyncio.gather(*asked))


async def test_single_sends_to_more_partitions_than_go_together_are_taken_one_by_one() -> None:
    async with running(topics=(TopicConfig("demo", 2_000),)) as broker, connected(broker) as peer:
        answers = await asyncio.gather(*(peer.send(partition_id=at) for at in range(2_000)))
        assert all(answer.success for answer in answers)
        told = await peer.offsets()
        assert {ends.max_offset for ends in told.partitions} == {OFFSET_UNIT}
