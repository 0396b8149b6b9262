"""A confirm that the Broker refuses changes nothing: its messages come again, to this consumer and to the next."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq.broker.append.submission import ConfirmSubmission
from pytubemq.core.refusal import Refusal
from pytubemq.errors import Code
from pytubemq.testing.disk import FaultyDisk, Operation
from tests.scenario.broker.support import connected, item, running
from tests.support.waiting import until

if TYPE_CHECKING:
    from pytubemq.broker.append.append_path import AppendPath
    from pytubemq.broker.append.submission import Submission
    from pytubemq.broker.service import BrokerService

pytestmark = pytest.mark.anyio


def path_of(broker: BrokerService) -> AppendPath:
    assert broker._state is not None
    return broker._state.path


class Refusing:
    """Refuses the first confirmations on the spot, as an overflow does; lets `more` of later ones through."""

    def __init__(self, broker: BrokerService, monkeypatch: pytest.MonkeyPatch, *, times: int = 1) -> None:
        submit = path_of(broker).submit

        def refuse(submission: Submission) -> None:
            nonlocal times
            if not isinstance(submission, ConfirmSubmission) or times <= 0:
                submit(submission)
                return
            times -= 1
            submission.refuse(Refusal(Code.SERVER_RECEIVE_OVERFLOW, "too much waits"))

        monkeypatch.setattr(path_of(broker), "submit", refuse)


def payloads(messages: Any) -> list[bytes]:
    return [message.payload for message in messages]


FIRST = [b"0", b"1", b"2"]
COMMITS: list[dict[str, Any]] = [{"up_to": 84}, {"last_pack_consumed": True}, {}]


@pytest.mark.parametrize("commit", COMMITS, ids=["by offset", "what was fetched", "what was fetched, unsaid"])
async def test_a_full_disk_refuses_a_confirm_and_the_batch_comes_again(commit: dict[str, Any]) -> None:
    disk = FaultyDisk()
    async with running(disk) as broker, connected(broker) as peer:
        await peer.send_each([item(b"%d" % n) for n in range(10)])
        await peer.register()
        assert payloads((await peer.get(max_messages=3, last_pack_consumed=False))[1]) == FIRST
        disk.capacity_bytes = 0
        assert (await peer.commit(**commit)).err_code == Code.SERVER_RECEIVE_OVERFLOW
        assert payloads((await peer.get(max_messages=3, last_pack_consumed=False))[1]) == FIRST
        disk.capacity_bytes = None
        assert (await peer.send(b"more")).success
        assert (await peer.offsets(all_groups=True)).groups[0].confirmed_offset == 0, "refused is refused, for good"
        await peer.register(op_type=32, read_status=1)
        assert (await peer.register()).curr_offset == 0
        assert payloads((await peer.get(max_messages=3, last_pack_consumed=False))[1]) == FIRST
        assert (await peer.commit(**commit)).curr_offset == 84
    async with running(disk) as again, connected(again) as peer:
        assert (await peer.register()).curr_offset == 84


async def test_a_failed_flush_refuses_a_confirm_and_the_batch_comes_again() -> None:
    disk = FaultyDisk()
    async with running(disk) as broker, connected(broker) as peer:
        await peer.send_each([item(b"%d" % n) for n in range(10)])
        await peer.register()
        assert payloads((await peer.get(max_messages=3))[1]) == FIRST
        disk.fail(Operation.FDATASYNC, path_contains="journal", times=1)
        assert (await peer.commit(up_to=84)).err_code == Code.SERVICE_UNAVAILABLE
        for _ in range(2):
            assert payloads((await peer.get(max_messages=3, last_pack_consumed=False))[1]) == FIRST
            assert (await peer.commit(up_to=84)).err_code == Code.SERVICE_UNAVAILABLE


async def test_an_overflow_refuses_a_confirm_and_the_batch_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as broker, connected(broker) as peer:
        await peer.send_each([item(b"%d" % n) for n in range(10)])
        await peer.register()
        assert payloads((await peer.get(max_messages=3))[1]) == FIRST
        Refusing(broker, monkeypatch)
        assert (await peer.commit(up_to=84)).err_code == Code.SERVER_RECEIVE_OVERFLOW
        assert payloads((await peer.get(max_messages=3, last_pack_consumed=False))[1]) == FIRST
        assert (await peer.commit(up_to=84)).curr_offset == 84
        assert payloads((await peer.get(max_messages=1, last_pack_consumed=False))[1]) == [b"3"]


@pytest.mark.parametrize("consumed", [True, False])
async def test_a_reader_that_runs_ahead_gets_a_refused_batch_again_when_it_asks(
    monkeypatch: pytest.MonkeyPatch, consumed: bool
) -> None:
    """In manual mode a fetch reads behind what was handed out, until the consumer takes it back."""
    async with running() as broker, connected(broker) as peer:
        await peer.send_each([item(b"%d" % n) for n in range(10)])
        await peer.register()
        await peer.get(max_messages=3, manual_commit_offset=True)
        Refusing(broker, monkeypatch)
        assert (await peer.commit()).err_code == Code.SERVER_RECEIVE_OVERFLOW
        if consumed:
            assert (await peer.commit()).curr_offset == 84
            assert payloads((await peer.get(max_messages=1, manual_commit_offset=True))[1]) == [b"3"]
        else:
            assert (await peer.commit(last_pack_consumed=False)).curr_offset == 0
            assert payloads((await peer.get(max_messages=3, manual_commit_offset=True))[1]) == FIRST


async def test_a_newer_confirm_that_was_taken_stands_when_an_older_one_was_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = FaultyDisk()
    async with running(disk) as broker, connected(broker) as peer:
        await peer.send_each([item(b"%d" % n) for n in range(10)])
        await peer.register()
        await peer.get(max_messages=6)
        older, newer = await commit_both(broker, peer, monkeypatch, disk, fails=True)
        assert (older.err_code, newer.err_code) == (Code.SERVER_RECEIVE_OVERFLOW, Code.SUCCESS)
        assert newer.curr_offset == 168
        assert payloads((await peer.get(max_messages=1, last_pack_consumed=False))[1]) == [b"6"]
        assert (await peer.offsets(all_groups=True)).groups[0].confirmed_offset == 168


async def test_an_older_confirm_stands_when_a_newer_one_was_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FaultyDisk()
    async with running(disk) as broker, connected(broker) as peer:
        await peer.send_each([item(b"%d" % n) for n in range(10)])
        await peer.register()
        await peer.get(max_messages=6)
        older, newer = await commit_both(broker, peer, monkeypatch, disk, fails=False)
        assert (older.err_code, newer.err_code) == (Code.SUCCESS, Code.SERVER_RECEIVE_OVERFLOW)
        assert payloads((await peer.get(max_messages=1, last_pack_consumed=False))[1]) == [b"3"]
        assert (await peer.offsets(all_groups=True)).groups[0].confirmed_offset == 84


async def commit_both(
    broker: BrokerService, peer: Any, monkeypatch: pytest.MonkeyPatch, disk: FaultyDisk, *, fails: bool
) -> tuple[Any, Any]:
    """Confirm 84 and, while that is being written, 168; the first or the second one's write finds no space."""
    entered, go = threading.Event(), threading.Event()
    store, path = broker._store, path_of(broker)
    assert store is not None
    write, writes = store.write, 0

    def held(prepared: Any) -> None:
        nonlocal writes
        writes += 1
        entered.set()
        assert go.wait(30)
        disk.capacity_bytes = 0 if fails == (writes == 1) else None
        try:
            write(prepared)
        finally:
            disk.capacity_bytes = None

    monkeypatch.setattr(store, "write", held)
    older = asyncio.create_task(peer.commit(up_to=84))
    await until(entered.is_set)
    newer = asyncio.create_task(peer.commit(up_to=168))
    await until(lambda: len(path._queue) == 1)
    go.set()
    return await older, await newer


async def test_a_fetch_that_confirms_goes_on_while_its_position_cannot_be_written() -> None:
    """Nobody is told that it was refused, so nothing is taken back: the position is written when there is space."""
    disk = FaultyDisk()
    async with running(disk) as broker, connected(broker) as peer:
        await peer.send_each([item(b"%d" % n) for n in range(10)])
        await peer.register()
        await peer.get(max_messages=3)
        disk.capacity_bytes = 0
        assert payloads((await peer.get(max_messages=3, last_pack_consumed=True))[1]) == [b"3", b"4", b"5"]
        assert (await peer.commit(up_to=168)).err_code == Code.SERVER_RECEIVE_OVERFLOW
        assert payloads((await peer.get(max_messages=3, last_pack_consumed=False))[1]) == [b"3", b"4", b"5"]
        assert (await peer.offsets(all_groups=True)).groups[0].confirmed_offset == 0
        disk.capacity_bytes = None
        positions = broker._state.positions if broker._state else None
        assert positions is not None
        await until(lambda: not positions.unwritten)
        await until(lambda: broker._store is not None and broker._store.confirmed("g", "demo", 0) == 84)


async def test_a_farewell_behind_a_confirm_in_flight_holds_though_its_consumer_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entered, go = threading.Event(), threading.Event()
    async with running(lost_connection_grace_s=600.0, lease_timeout_s=600.0) as broker, connected(broker) as other:
        async with connected(broker) as peer:
            await peer.send_each([item(b"%d" % n) for n in range(10)])
            await peer.register()
            await peer.get(max_messages=3)
            store, state = broker._store, broker._state
            assert store is not None
            assert state is not None
            write = store.write

            def held(prepared: Any) -> None:
                entered.set()
                assert go.wait(30)
                write(prepared)

            monkeypatch.setattr(store, "write", held)
            calls: list[asyncio.Task[Any]] = [asyncio.create_task(peer.commit(up_to=84))]
            await until(entered.is_set)
            calls.append(asyncio.create_task(peer.register(op_type=32, read_status=1)))
            await until(lambda: state.positions._deferred)
        await asyncio.gather(*calls, return_exceptions=True)
        go.set()
        await until(lambda: len(state.registry) == 0 and not state.positions._deferred)
        other.client_id = "g_127.0.0.1-2-1-1-Pull-1.0"
        assert (await other.register()).curr_offset == 84
