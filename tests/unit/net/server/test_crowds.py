"""Crowds at a server: connections that ask for nothing or do not read, and the honest ones among them."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq.errors import Code, ConnectionLostError
from pytubemq.model.limits import KIB, MAX_CALLS_PER_CONNECTION, MIB, RESPONSE_PERIOD_S, SILENT_UNTIL_CLOSED_S
from pytubemq.net.client.connection import RpcConnection
from pytubemq.net.server.server import release_free_memory
from pytubemq.wire.framing.frame import encode_frame
from pytubemq.wire.protocol.messages.extension import ReadRangeResponseB2C
from pytubemq.wire.protocol.messages.master import CloseRequestP2M, CloseResponseM2P
from pytubemq.wire.rpc.envelope import encode_request
from pytubemq.wire.serialization.message_bytes import encode
from tests.support.waiting import until
from tests.unit.net.serving import CLOSE, OK, HandClock, answer_ok, ask, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pytubemq.model.ids import Address
    from pytubemq.net.server.call import Call
    from pytubemq.net.server.connection import ServerConnection
    from pytubemq.net.server.server import RpcServer

pytestmark = pytest.mark.anyio

BODY = encode(CloseRequestP2M(client_id="p1"))


@contextlib.asynccontextmanager
async def unused_connections(address: Address, count: int) -> AsyncIterator[list[asyncio.StreamReader]]:
    """Connections over which nothing is asked."""
    peers = [await asyncio.open_connection(address.host, address.port) for _ in range(count)]
    try:
        yield [reader for reader, _ in peers]
    finally:
        for _, writer in peers:
            writer.close()


def calls(first: int, count: int) -> bytes:
    return b"".join(
        b"".join(encode_request(serial, service=1, method=CLOSE, timeout_ms=600_000, body=[BODY]))
        for serial in range(first, first + count)
    )


async def test_unused_connections_make_room_for_new_ones() -> None:
    async with serving(max_connections=20) as (server, address), unused_connections(address, 20) as readers:
        await until(lambda: len(server.connections) == 20)
        known = [await RpcConnection.connect(address) for _ in range(5)]
        for connection in known:
            assert (await ask(connection)).success
        assert await readers[0].read() == b"", "who came first and asked for nothing goes first"
        assert server.stats.refused == 0
        assert server.stats.made_room == 5
        for connection in known:
            assert (await ask(connection)).success
            await connection.close()


async def test_nobody_who_is_served_makes_room_for_a_crowd() -> None:
    async with serving(max_connections=3) as (server, address):
        known = [await RpcConnection.connect(address) for _ in range(3)]
        for connection in known:
            assert (await ask(connection)).success
        async with unused_connections(address, 30) as readers:
            for reader in readers:
                assert await reader.read() == b""
        assert server.stats.refused == 30
        for connection in known:
            assert (await ask(connection)).success
            await connection.close()


class Peer:
    """A connection from an address of its own that waits for each response."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, address: Address, host: str) -> Peer:
        return cls(*await asyncio.open_connection(address.host, address.port, local_addr=(host, 0)))

    async def is_served(self) -> bool:
        """True if a request has a response, False if the connection ends."""
        try:
            self.writer.write(calls(1, 1))
            return bool(await self._reader.read(1 << 16))
        except ConnectionError:
            return False


async def test_hosts_have_fair_shares_of_the_connections() -> None:
    clock = HandClock()
    async with serving(max_connections=20, clock=clock) as (server, address):
        crowd = [await Peer.connect(address, "127.0.0.2") for _ in range(20)]
        for peer in crowd:
            clock.now += 1
            assert await peer.is_served()
        clock.now += 1
        assert await crowd[0].is_served()
        others = [await Peer.connect(address, "127.0.0.3") for _ in range(7)]  # none of these closes another
        served = [await peer.is_served() for peer in others]
        for _ in range(5):
            others.append(await Peer.connect(address, "127.0.0.3"))
            served.append(await others[-1].is_served())
        assert served == [True] * 7 + [False] * 5, "while the crowd has twice as many as they will have"
        assert [await peer.is_served() for peer in crowd] == [True] + [False] * 7 + [True] * 12, "the least active went"
        assert (server.stats.made_room, server.stats.refused) == (7, 5)
        third = await Peer.connect(address, "127.0.0.4")
        assert await third.is_served()
        last = await Peer.connect(address, "127.0.0.2")
        assert not await last.is_served(), "it has most itself"
        for peer in [*crowd, *others, third, last]:
            peer.writer.close()


async def test_a_connection_with_an_open_call_makes_room_after_the_others_of_its_host() -> None:
    clock, held = HandClock(), list[Any]()

    def hold(call: Call) -> None:
        if len(held) < 1 or call.peer.startswith("127.0.0.3"):
            call.connection.mark_used()
            held.append(call)
        else:
            answer_ok(call)

    async with serving(hold, max_connections=4, clock=clock) as (_, address):
        waiting = await Peer.connect(address, "127.0.0.2")
        waiting.writer.write(calls(1, 1))
        await until(lambda: bool(held))
        others = [await Peer.connect(address, "127.0.0.2") for _ in range(3)]
        for peer in others:
            clock.now += 1
            assert await peer.is_served()
        newcomer = await Peer.connect(address, "127.0.0.3")
        newcomer.writer.write(calls(1, 1))
        await until(lambda: len(held) == 2)
        assert [await peer.is_served() for peer in others] == [False, True, True]
        assert not held[0].connection.closed
        for peer in [waiting, newcomer, *others]:
            peer.writer.close()


async def test_the_host_that_buffers_most_is_cut_and_not_the_largest_sender(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(max_buffered_bytes=500_000) as (server, address):
        frame = b"".join(encode_frame(1, [bytes(1_500_000)], block_bytes=None))
        sender = await Peer.connect(address, "127.0.0.3")
        sender.writer.write(frame[:150_000])
        crowd = [await Peer.connect(address, "127.0.0.2") for _ in range(20)]
        for peer in crowd:
            peer.writer.write(frame[:30_000])
        await until(lambda: len(server.connections) == 11 + 1)
        (sound,) = [one for one in server.connections if one.peer.startswith("127.0.0.3")]
        assert sound.buffered_bytes > 140_000
        assert server.buffered_bytes <= 500_000
        assert "closing 127.0.0.2" in caplog.text
        assert "its host" in caplog.text
        for peer in [*crowd, sender]:
            peer.writer.close()


async def test_of_one_host_a_frame_that_stands_still_is_cut_before_one_that_grows() -> None:
    clock = HandClock()
    async with serving(max_buffered_bytes=500_000, clock=clock) as (server, address):
        frame = b"".join(encode_frame(1, [bytes(1_500_000)], block_bytes=None))
        still = await Peer.connect(address, "127.0.0.2")
        still.writer.write(frame[:100_000])
        await until(lambda: server.buffered_bytes > 99_000)
        growing = await Peer.connect(address, "127.0.0.2")
        for number in range(4):
            clock.now += 0.9
            growing.writer.write(frame[number * 110_000 : (number + 1) * 110_000])
            await until(lambda least: server.buffered_bytes > least or server.stats.faults, 98_000 + number * 110_000)
            await until(lambda: len(server.connections) == (2 if not server.stats.faults else 1))
        assert server.stats.faults == 1
        (left,) = server.connections
        assert left.buffered_bytes > 400_000
        for peer in [still, growing]:
            peer.writer.close()


async def test_a_connection_is_cut_once_also_if_many_have_to_go_in_one_turn_of_the_loop() -> None:
    clock = HandClock()
    async with serving(max_buffered_bytes=500_000, clock=clock) as (server, address):
        frame = b"".join(encode_frame(1, [bytes(1_500_000)], block_bytes=None))
        still = [await Peer.connect(address, "127.0.0.2") for _ in range(4)]
        for peer in still:
            peer.writer.write(frame[:100_000])
        await until(lambda: server.buffered_bytes > 399_000)
        clock.now += 10
        before = set(server.connections)
        growing = await Peer.connect(address, "127.0.0.2")
        await until(lambda: len(server.connections) == 5)
        (sound,) = server.connections - before
        for at in range(0, 400_000, 50_000):  # in one turn
            sound.data_received(frame[at : at + 50_000])
        assert server.stats.faults == 3
        assert server.buffered_bytes <= 500_000
        assert not sound.closed
        for peer in [*still, growing]:
            peer.writer.close()


async def test_who_asked_once_and_is_silent_for_long_makes_room_too() -> None:
    clock = HandClock()
    async with serving(max_connections=2, clock=clock) as (server, address):
        first, second = [await RpcConnection.connect(address) for _ in range(2)]
        await ask(first)
        await ask(second)
        clock.now += SILENT_UNTIL_CLOSED_S + 1
        await ask(second)
        server._check_connections()
        third = await RpcConnection.connect(address)
        assert (await ask(third)).success
        assert (await ask(second)).success
        with pytest.raises(ConnectionLostError):
            await ask(first)
        for connection in (first, second, third):
            await connection.close()


async def test_refused_connections_are_named_for_a_minute_after_the_last_one() -> None:
    clock = HandClock()
    async with serving(max_connections=1, clock=clock) as (server, address):
        known = await RpcConnection.connect(address)
        await ask(known)
        assert "all 1 connections are in use" in (server.problem or "")
        async with unused_connections(address, 3) as readers:
            for reader in readers:
                await reader.read()
        await known.close()
        await until(lambda: not server.connections)
        clock.now += 59
        assert "within the last minute; 3 were refused lately, 3 since the start" in (server.problem or "")
        clock.now += 2
        assert server.problem is None
        known = await RpcConnection.connect(address)
        await ask(known)
        async with unused_connections(address, 1) as readers:
            await readers[0].read()
        assert "1 were refused lately, 4 since the start" in (server.problem or "")
        await known.close()


async def test_a_crowd_is_not_told_of_line_by_line(caplog: pytest.LogCaptureFixture) -> None:
    clock = HandClock()
    async with serving(max_connections=1, clock=clock) as (server, address):
        known = await RpcConnection.connect(address)
        await ask(known)
        async with unused_connections(address, 50) as readers:
            for reader in readers:
                await reader.read()
        assert caplog.text.count("refused") == 10
        clock.now += 11
        server._check_connections()
        assert "and 40 more such connections" in caplog.text
        await known.close()


@contextlib.asynccontextmanager
async def deaf(server: RpcServer, address: Address, requests: int) -> AsyncIterator[ServerConnection]:
    """A peer that asks and never reads, as the server sees it."""
    before = set(server.connections)
    reader, writer = await asyncio.open_connection(address.host, address.port, limit=KIB)
    writer.write(calls(1, requests))
    await until(lambda: len(server.connections) > len(before))
    (one,) = server.connections - before
    await until(lambda: one.unsent_bytes > 0 or one.closed)
    try:
        yield one
    finally:
        writer.close()
        del reader


async def test_readers_that_do_not_read_are_cut_and_a_busy_one_is_not(caplog: pytest.LogCaptureFixture) -> None:
    clock = HandClock()
    answer = [OK]

    def reply(call: Call) -> None:
        call.reply(answer[0])

    async with serving(reply, clock=clock, max_unsent_bytes=16 * MIB) as (server, address):
        busy = await RpcConnection.connect(address)
        await ask(busy)
        answer[0] = bytes(1900 * KIB)
        async with contextlib.AsyncExitStack() as crowd:
            worst = [await crowd.enter_async_context(deaf(server, address, 30)) for _ in range(30)]
            assert server.responses.unsent_bytes <= 2 * 16 * MIB + 2 * MIB, "twice the budget is never passed for long"
            for _ in range(3):
                for _ in range(5):
                    assert len((await busy.call(CLOSE, 1, BODY, timeout_s=10)).body) == 1900 * KIB
                clock.now += 6
                server._check_connections()
            assert server.responses.unsent_bytes <= 16 * MIB
            assert sum(one.closed for one in worst) >= 20
        assert server.stats.slow_readers >= 20
        assert "it does not read its responses" in caplog.text
        assert not busy.closed
        await busy.close()
        await until(lambda: not server.connections)
        assert server.responses.unsent_bytes == 0


async def test_a_reader_that_takes_nothing_for_long_is_cut_though_there_is_room() -> None:
    clock = HandClock()
    async with (
        serving(lambda call: call.reply(bytes(1900 * KIB)), clock=clock) as (server, address),
        deaf(server, address, 8) as one,
    ):
        clock.now += RESPONSE_PERIOD_S
        server._check_connections()  # what the operating system took in the meantime counts as taken
        clock.now += RESPONSE_PERIOD_S - 1
        server._check_connections()
        assert (one.closed, server.stats.slow_readers) == (False, 0)
        clock.now += 1
        server._check_connections()
        assert one.closed
        assert server.stats.slow_readers == 1
        assert one not in server.connections


async def test_the_time_for_a_frame_stands_still_while_we_do_not_read() -> None:
    """A client may have so many requests under way that we stop in the middle of one; that is not its fault."""
    clock = HandClock()
    held: list[Call] = []
    async with serving(held.append, clock=clock, frame_timeout_s=30) as (server, address):
        reader, writer = await asyncio.open_connection(address.host, address.port)
        whole = calls(1, MAX_CALLS_PER_CONNECTION + 2)
        writer.write(whole[:-10])
        await until(lambda: len(held) == MAX_CALLS_PER_CONNECTION + 1)
        (one,) = server.connections
        assert (one.mid_frame_since_s is None, one._reading_paused) == (False, True)
        clock.now += 100
        server._check_connections()
        assert not one.closed
        for call in held:
            call.reply(OK)
        assert not one._reading_paused
        clock.now += 29
        server._check_connections()
        assert not one.closed, "it has the time that it had left"
        writer.write(whole[-10:])
        await until(lambda: len(held) == MAX_CALLS_PER_CONNECTION + 2)
        writer.close()
        assert reader is not None


async def test_after_reading_goes_on_the_rest_of_a_frame_has_an_end() -> None:
    clock = HandClock()
    held: list[Call] = []
    async with serving(held.append, clock=clock, frame_timeout_s=30) as (server, address):
        _, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(calls(1, MAX_CALLS_PER_CONNECTION + 2)[:-10])
        await until(lambda: len(held) == MAX_CALLS_PER_CONNECTION + 1)
        (one,) = server.connections
        for call in held:
            call.reply(OK)
        clock.now += 31
        server._check_connections()
        assert one.closed
        writer.close()


async def test_a_lost_connection_holds_no_bytes_until_the_collector_of_cycles_comes() -> None:
    async with serving() as (server, address):
        _, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(calls(1, 1)[:-10])
        await until(lambda: any(connection._stream.buffered_bytes for connection in server.connections))
        (one,) = server.connections
        writer.close()
        await until(lambda: not server.connections)
        assert (one._stream.buffered_bytes, one._outbox, one._put_off) == (0, None, [])


async def test_memory_is_given_back_after_a_flood(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[bool] = []
    monkeypatch.setattr("pytubemq.net.server.server.release_free_memory", lambda: given.append(True))
    async with serving() as (server, _):
        server.buffered_bytes = 100 * MIB
        server._check_connections()
        assert given == []
        server.buffered_bytes = 10 * MIB
        server._check_connections()
        await until(lambda: given == [True])
        server._check_connections()
        assert given == [True]
        server.buffered_bytes = 0


def test_giving_back_memory_works_or_does_nothing() -> None:
    assert release_free_memory() in (True, False)


async def test_requests_that_are_refused_hold_no_place() -> None:
    refuse = [True]

    def handle(call: Call) -> None:
        call.reply(encode(CloseResponseM2P(success=not refuse[0], err_code=400 if refuse[0] else 200, err_msg="")))

    async with serving(handle, max_connections=5) as (server, address):
        crowd = [await RpcConnection.connect(address) for _ in range(5)]
        for connection in crowd:
            assert not (await ask(connection)).success
        assert server.problem is not None
        assert "all 5 connections" in server.problem
        refuse[0] = False
        known = [await RpcConnection.connect(address) for _ in range(5)]
        for connection in known:
            assert (await ask(connection)).success
        assert server.stats.refused == 0
        for connection in crowd:
            with pytest.raises(ConnectionLostError):
                await ask(connection)
        refuse[0] = True
        for connection in known:
            assert not (await ask(connection)).success, "one served request is enough"
        for connection in [*known, *crowd]:
            await connection.close()


async def test_who_waits_at_the_end_of_a_partition_is_served() -> None:
    nothing_there = ReadRangeResponseB2C(success=False, err_code=Code.NOT_FOUND, err_msg="nothing there yet")
    async with serving(lambda call: call.reply(encode(nothing_there)), max_connections=5) as (server, address):
        reader = await RpcConnection.connect(address)
        await reader.call(CLOSE, 1, BODY, timeout_s=5)
        assert server.hosts.most_unused() is None
        await reader.close()
