"""Batches of one producer stay in order when one of them is refused for now."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import Code, RequestTimeoutError
from pytubemq.model.limits import MIB
from pytubemq.testing.disk import FaultyDisk
from tests.scenario.broker.held_writes import HeldWrites
from tests.scenario.broker.support import SINGLY, connected, item, running
from tests.support.waiting import until

if TYPE_CHECKING:
    from tests.scenario.broker.support import Peer

pytestmark = pytest.mark.anyio


async def stored(peer: Peer) -> list[bytes]:
    return [message.payload[:1] for message in (await peer.read_range(0))[1]]


async def test_a_batch_sent_before_a_refusal_was_known_is_refused() -> None:
    disk = FaultyDisk()
    async with running(disk) as broker, connected(broker, capabilities=SINGLY) as peer:
        assert (await peer.send_many([item(b"0")], refusals_seen=0)).success
        disk.capacity_bytes = 0
        assert (await peer.send_many([item(b"1" * 1000)], refusals_seen=0)).err_code == Code.SERVER_RECEIVE_OVERFLOW
        disk.capacity_bytes = None
        behind = await peer.send_many([item(b"2")], refusals_seen=0)
        assert behind.err_code == Code.SERVER_RECEIVE_OVERFLOW
        assert "an earlier batch of this producer was refused" in behind.err_msg
        assert (await peer.send_many([item(b"1")], refusals_seen=1)).err_code == Code.SERVER_RECEIVE_OVERFLOW
        assert (await peer.send_many([item(b"1")], refusals_seen=3)).success
        assert (await peer.send_many([item(b"2")], refusals_seen=3)).success
        assert await stored(peer) == [b"0", b"1", b"2"]


async def test_a_batch_that_waits_while_the_one_before_it_fails_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FaultyDisk()
    async with running(disk) as broker, connected(broker, capabilities=SINGLY) as peer:
        held = HeldWrites(broker, monkeypatch)
        disk.capacity_bytes = 0
        first = asyncio.create_task(peer.send_many([item(b"1")], refusals_seen=0))
        await until(lambda: held.entered == 1)
        later = [asyncio.create_task(peer.send_many([item(b"%d" % n)], refusals_seen=0)) for n in (2, 3)]
        single = asyncio.create_task(peer.send(b"single"))
        await until(lambda: broker._state is not None and len(broker._state.path._queue) == 3)
        first.add_done_callback(lambda _: setattr(disk, "capacity_bytes", None))
        monkeypatch.undo()
        broker_fail = broker._state.path._fail if broker._state else None
        assert broker_fail is not None
        assert broker._state is not None

        def fail(batch: object, error: BaseException) -> None:
            disk.capacity_bytes = None
            broker_fail(batch, error)  # type: ignore[arg-type]

        monkeypatch.setattr(broker._state.path, "_fail", fail)
        held.go.set()
        answers = await asyncio.gather(first, *later)
        assert [answer.err_code for answer in answers] == [Code.SERVER_RECEIVE_OVERFLOW] * 3
        assert (await single).success, "what does not ask for order is not checked"
        for payload in (b"1", b"2", b"3"):
            assert (await peer.send_many([item(payload)], refusals_seen=3)).success
        assert await stored(peer) == [b"s", b"1", b"2", b"3"]


async def test_an_overflow_counts_and_other_producers_and_connections_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        running(max_staged_bytes=1 * MIB) as broker,
        connected(broker, capabilities=SINGLY) as peer,
        connected(broker) as other,
    ):
        held = HeldWrites(broker, monkeypatch)
        writing = asyncio.create_task(peer.send(bytes(MIB)))
        await until(lambda: held.entered == 1)
        waiting = asyncio.create_task(peer.send(bytes(MIB)))
        await until(lambda: broker.health()["staged_bytes"] > 2 * MIB)
        assert (await peer.send_many([item()], refusals_seen=0)).err_code == Code.SERVER_RECEIVE_OVERFLOW
        held.go.set()
        await asyncio.gather(writing, waiting)
        assert (await peer.send_many([item()])).success, "without the field there is no check"
        assert (await other.send_many([item()], refusals_seen=0)).success
        peer.client_id = "another"
        assert (await peer.send_many([item()], refusals_seen=0)).success


async def test_a_batch_whose_time_ran_out_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as broker, connected(broker, capabilities=SINGLY) as peer:
        held = HeldWrites(broker, monkeypatch)
        first = asyncio.create_task(peer.send(b"0"))
        await until(lambda: held.entered == 1)
        with pytest.raises(RequestTimeoutError):
            await peer.send_many([item(b"1")], timeout_s=0.05, refusals_seen=0)
        behind = asyncio.create_task(peer.send_many([item(b"2")], refusals_seen=0))
        await peer.offsets()
        held.go.set()
        assert (await first).success
        assert (await behind).err_code == Code.SERVER_RECEIVE_OVERFLOW
        assert (await peer.send_many([item(b"1")], refusals_seen=2)).success
        assert await stored(peer) == [b"0", b"1"]


async def test_a_refusal_for_good_is_not_counted() -> None:
    async with running() as broker, connected(broker, capabilities=SINGLY) as peer:
        assert (await peer.send_many([item(b"")], refusals_seen=0)).err_code == Code.BAD_REQUEST
        assert (await peer.send_many([item(b"x", 9)], refusals_seen=0)).err_code == Code.FORBIDDEN
        assert (await peer.send_many([], refusals_seen=0)).err_code == Code.BAD_REQUEST
        assert (await peer.send_many([item(b"x")], refusals_seen=0)).success


async def test_a_stopped_broker_counts() -> None:
    async with running() as broker, connected(broker, capabilities=SINGLY) as peer:
        assert broker._state is not None
        broker._state.serving.write_stopped = True
        assert (await peer.send_many([item(b"1")], refusals_seen=0)).err_code == Code.SERVICE_UNAVAILABLE
        broker._state.serving.write_stopped = False
        assert (await peer.send_many([item(b"2")], refusals_seen=0)).err_code == Code.SERVER_RECEIVE_OVERFLOW
        assert (await peer.send_many([item(b"1")], refusals_seen=2)).success


async def test_the_counts_of_a_connection_are_bounded() -> None:
    async with running() as broker, connected(broker, capabilities=SINGLY) as peer:
        assert broker._state is not None
        broker._state.serving.write_stopped = True
        for number in range(1100):
            peer.client_id = f"client-{number}"
            await peer.send_many([item()], refusals_seen=0)
        peer.client_id = "c" * 2000
        await peer.send_many([item()], refusals_seen=0)
        server = broker._server
        assert server is not None
        (connection,) = server.connections
        assert len(connection.context["send order"]) == 1024
        assert all(len(client_id) <= 1024 for client_id, _ in connection.context["send order"])
