"""A server and a connection on loopback: answers, refusals, limits, broken peers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import (
    ConfigError,
    ConnectionLostError,
    RemoteError,
    RequestTimeoutError,
    StandbyError,
    UnreachableError,
)
from pytubemq.model.ids import Address
from pytubemq.model.limits import MAX_FRAME_BYTES, SERVING_SLICE_S, VANISHED_PEER_S
from pytubemq.net.client.connection import RpcConnection
from pytubemq.net.client.masters import MasterClient
from pytubemq.net.client.pending_calls import remote_error
from pytubemq.net.client.pool import ConnectionPool
from pytubemq.net.server.hosts import OPEN_CALL_BYTES
from pytubemq.net.server.server import RpcServer
from pytubemq.wire.framing.frame import Frame, FrameDecoder, encode_frame
from pytubemq.wire.protobuf.schema import Status
from pytubemq.wire.protocol.extensions import OURS, Capability
from pytubemq.wire.protocol.messages.master import CloseRequestP2M, CloseResponseM2P
from pytubemq.wire.rpc.envelope import Response, decode_response, encode_request
from pytubemq.wire.rpc.methods import Service
from pytubemq.wire.serialization.message_bytes import decode, encode
from tests.support.ports import free_port
from tests.support.waiting import until
from tests.unit.net.serving import CLOSE, LOOPBACK, OK, HandClock, answer_ok, ask, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pytubemq.net.server.call import Call

pytestmark = pytest.mark.anyio


async def raw(address: Address, data: bytes) -> bytes:
    """Send bytes, return all that comes until the server closes."""
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(data)
    try:
        async with asyncio.timeout(20):
            return await reader.read()
    finally:
        writer.close()


async def test_capabilities_are_learnt_with_the_first_answer() -> None:
    async with serving() as (server, address):
        connection = await RpcConnection.connect(address)
        assert connection.capabilities == Capability(0)
        assert (await ask(connection)).success
        assert connection.capabilities == OURS
        (seen,) = server.connections
        assert seen.capabilities == OURS
        await connection.close()


async def test_a_peer_without_capabilities_is_spoken_to_as_the_original_would() -> None:
    async with serving() as (server, address):
        connection = await RpcConnection.connect(address, capabilities=Capability(0))
        assert (await ask(connection)).err_code == 200
        assert connection.capabilities == Capability(0)
        (seen,) = server.connections
        assert seen.capabilities == Capability(0)
        assert seen.block_bytes == 8192
        await connection.close()


async def test_capabilities_are_learnt_when_the_second_request_is_answered_first() -> None:
    calls: list[Call] = []
    async with serving(calls.append) as (_, address):
        connection = await RpcConnection.connect(address)
        first, second = asyncio.create_task(ask(connection)), asyncio.create_task(ask(connection))
        await until(lambda: len(calls) == 2)
        calls[1].reply(OK)
        await second
        assert connection.knows_capabilities
        assert connection.capabilities == OURS
        calls[0].reply(OK)
        await first
        assert connection.capabilities == OURS
        await connection.close()


async def test_capabilities_are_learnt_when_the_first_request_is_never_answered() -> None:
    calls: list[Call] = []

    def all_but_the_first(call: Call) -> None:
        calls.append(call)
        if len(calls) > 1:
            call.reply(OK)

    async with serving(all_but_the_first) as (_, address):
        connection = await RpcConnection.connect(address)
        with pytest.raises(RequestTimeoutError):
            await ask(connection, timeout_s=0.05)
        assert [connection.knows_capabilities] == [False]
        await ask(connection)
        assert connection.knows_capabilities
        assert connection.capabilities == OURS
        await connection.close()


async def test_capabilities_are_learnt_from_a_refusal() -> None:
    async with serving() as (_, address):
        connection = await RpcConnection.connect(address)
        with pytest.raises(RemoteError, match="Unsupported method ID"):
            await connection.call(99, 1, b"", timeout_s=5)
        assert connection.knows_capabilities
        assert connection.capabilities == OURS
        await connection.close()


async def test_a_loop_that_is_held_up_does_not_use_up_the_time_of_what_it_asked() -> None:
    async with serving() as (_, address):
        connection = await RpcConnection.connect(address)
        await ask(connection)
        asking = asyncio.create_task(ask(connection, timeout_s=0.2))
        await asyncio.sleep(0)  # it is asked, and nothing has left yet
        time.sleep(0.8)  # noqa: ASYNC251 - the loop is held up on purpose, for longer than the request's time
        assert (await asking).success
        assert not connection.closed
        await connection.close()


async def test_a_hundred_calls_in_one_turn_get_their_own_answers() -> None:
    def echo(call: Call) -> None:
        asked = decode(CloseRequestP2M, call.request.body)
        call.reply(encode(CloseResponseM2P(success=True, err_code=200, err_msg=asked.client_id)))

    async with serving(echo) as (_, address):
        connection = await RpcConnection.connect(address)
        answers = await asyncio.gather(
            *(
                connection.request(CloseRequestP2M(client_id=f"p{n}"), CloseResponseM2P, CLOSE, 1, timeout_s=5)
                for n in range(100)
            )
        )
        assert [answer.err_msg for answer in answers] == [f"p{n}" for n in range(100)]
        await connection.close()


async def test_an_unknown_method_is_answered_and_the_connection_goes_on() -> None:
    async with serving() as (_, address):
        connection = await RpcConnection.connect(address)
        with pytest.raises(RemoteError, match="Unsupported method ID"):
            await connection.call(99, 1, b"", timeout_s=5)
        assert (await ask(connection)).success
        await connection.close()


async def test_a_handler_that_raises_fails_its_call_only() -> None:
    async def bad(call: Call) -> None:
        raise ValueError("secret text")

    async with serving(bad) as (server, address):
        connection = await RpcConnection.connect(address)
        with pytest.raises(RemoteError, match="ValueError") as caught:
            await ask(connection)
        assert "secret text" not in str(caught.value)
        assert not connection.closed
        assert server.stats.failed == 1
        await connection.close()


async def test_a_standby_is_recognised_by_the_end_of_the_class_name() -> None:
    def standby(call: Call) -> None:
        call.fail(exception_name="com.apache.tubemq.corerpc.exception.StandbyException", text="not master now")

    async with serving(standby) as (_, address):
        connection = await RpcConnection.connect(address)
        with pytest.raises(StandbyError):
            await ask(connection)
        await connection.close()


async def test_a_call_without_answer_ends_with_its_time_and_a_late_answer_is_dropped() -> None:
    clock = HandClock()
    calls: list[Call] = []
    async with serving(calls.append, clock=clock) as (server, address):
        connection = await RpcConnection.connect(address)
        with pytest.raises(RequestTimeoutError, match="did not respond to the closing of a producer within 0"):
            await ask(connection, timeout_s=0.05)
        clock.now += 1
        calls[0].reply(OK)
        calls[0].reply(OK)
        assert server.stats.late == 1
        await connection.close()


async def test_a_request_that_names_no_time_gets_the_default_of_ten_seconds() -> None:
    calls: list[Call] = []
    async with serving(calls.append) as (_, address):
        reader, writer = await asyncio.open_connection(address.host, address.port)
        body = [encode(CloseRequestP2M(client_id="p"))]
        for buffer in encode_request(1, service=1, method=CLOSE, timeout_ms=0, body=body):
            writer.write(buffer)
        await until(lambda: calls)
        assert calls[0].deadline_s - calls[0].received_s == 10.0
        calls[0].reply(OK)
        frames = FrameDecoder().feed(await reader.read(1000))
        assert decode_response(frames[0]).status is Status.SUCCESS
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        os.urandom(65536),
        bytes.fromhex("ff7ff4fe00000001ffffffff"),
        bytes.fromhex("ff7ff4fe00000001000000017fffffff") + b"x" * 100,
        bytes.fromhex("ff7ff4fe0000000100000001ffffffff"),
        bytes.fromhex("ff7ff4fe0000000100000000"),
    ],
    ids=["http", "noise", "negative count", "2 GiB block", "negative block", "no blocks"],
)
async def test_what_is_not_a_frame_closes_that_connection_alone(data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as (server, address):
        other = await RpcConnection.connect(address)
        with contextlib.suppress(ConnectionResetError):
            assert await raw(address, data) == b""
        assert server.stats.faults == 1
        assert len([record for record in caplog.records if "closing" in record.message]) == 1
        assert (await ask(other)).success
        await other.close()


async def test_half_a_frame_then_silence_is_closed_after_a_bounded_wait() -> None:
    clock = HandClock()
    async with serving(clock=clock, frame_timeout_s=30) as (server, address):
        half = encode_frame(1, [b"x" * 100])[0][:40]
        closing = asyncio.create_task(raw(address, half))
        await until(lambda: any(connection.mid_frame_since_s for connection in server.connections))
        clock.now += 31
        assert await closing == b""
        assert server.stats.faults == 1


async def test_garbage_inside_a_sound_frame_is_answered_and_the_connection_goes_on() -> None:
    async with serving() as (_, address):
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.writelines(encode_frame(7, [b"\xff" * 40]))
        answer = decode_response(FrameDecoder().feed(await reader.read(1000))[0])
        assert (answer.serial, answer.status) == (7, Status.FATAL)
        assert answer.exception_name == "com.google.protobuf.InvalidProtocolBufferException"
        body = [encode(CloseRequestP2M(client_id="p"))]
        writer.writelines(encode_request(8, service=1, method=CLOSE, timeout_ms=1000, body=body))
        answer = decode_response(FrameDecoder().feed(await reader.read(1000))[0])
        assert (answer.serial, answer.status) == (8, Status.SUCCESS)
        writer.close()
        await writer.wait_closed()


async def test_a_broken_connection_fails_its_calls_and_says_so() -> None:
    calls: list[Call] = []
    async with serving(calls.append) as (server, address):
        connection = await RpcConnection.connect(address)
        asking = asyncio.create_task(ask(connection))
        await until(lambda: calls)
        for seen in list(server.connections):
            seen.abort()
        with pytest.raises(ConnectionLostError, match=str(address)):
            await asking
        await connection.lost
        with pytest.raises(ConnectionLostError):
            await ask(connection)


async def test_a_lost_connection_is_reported_once_with_its_context() -> None:
    lost: list[object] = []

    def remember(call: Call) -> None:
        call.connection.context["who"] = "p1"
        call.reply(OK)

    async with serving(remember, on_connection_lost=lambda seen: lost.append(seen.context["who"])) as (_, address):
        connection = await RpcConnection.connect(address)
        await ask(connection)
        await connection.close()
        await until(lambda: lost)
    assert lost == ["p1"]


async def test_a_taken_port_is_named() -> None:
    async with serving() as (_, address):
        with pytest.raises(ConfigError, match=f"{address}: the port is in use"):
            await RpcServer({}, offered=frozenset({1}), name="master").start(address)


async def test_a_bound_port_is_closed_until_it_is_opened_and_a_way_inside_needs_none() -> None:
    server = RpcServer({int(CLOSE): answer_ok}, offered=frozenset({1}), name="master")
    address = await server.bind(LOOPBACK)
    with pytest.raises(UnreachableError):
        await RpcConnection.connect(address)
    inside = ConnectionPool(routes={address: server.connect_inside})
    assert (await ask(await inside.get(address))).success
    await server.open()
    outside = await RpcConnection.connect(address)
    assert (await ask(outside)).success
    await outside.close()
    await inside.close()
    await server.close()


async def test_an_address_that_the_protocol_cannot_carry_is_refused() -> None:
    server = RpcServer({}, offered=frozenset({1}), name="master")
    with pytest.raises(ConfigError, match=r"cannot listen on \[::1\]:0: the protocol cannot carry an IPv6 address"):
        await server.start(Address("::1", 0))


async def test_a_host_name_means_its_ipv4_address() -> None:
    server = RpcServer({int(CLOSE): answer_ok}, offered=frozenset({1}), name="master")
    assert (await server.start(Address("localhost", 0))).host == "127.0.0.1"
    await server.close()


async def test_the_pool_shares_one_connection_and_replaces_a_dead_one() -> None:
    async with serving() as (server, address):
        pool = ConnectionPool()
        first, second = await asyncio.gather(pool.get(address), pool.get(address))
        assert first is second
        for seen in list(server.connections):
            seen.abort()
        await first.lost
        assert await pool.get(address) is not first
        await pool.close()


async def test_a_connection_that_nobody_uses_is_closed_and_opened_again_when_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[Call] = []
    sweeps: list[ConnectionPool] = []
    sweep = ConnectionPool._sweep

    def counted(pool: ConnectionPool) -> None:
        sweeps.append(pool)
        sweep(pool)

    monkeypatch.setattr(ConnectionPool, "_sweep", counted)
    async with serving(calls.append) as (server, address):
        pool = ConnectionPool(idle_after_s=0.05)
        connection = await pool.get(address)
        waiting = asyncio.create_task(ask(connection, timeout_s=30))
        await until(lambda: calls)
        await until(lambda: len(sweeps) > 8)  # each comes a quarter of the idle time after the one before
        assert not connection.closed, "an answer is due"
        calls[0].reply(OK)
        assert (await waiting).success
        await until(lambda: connection.closed)
        assert pool.peek(address) is None
        await until(lambda: not server.connections)
        again = await pool.get(address)
        assert again is not connection
        assert not again.closed
        await pool.close()


async def test_masters_are_asked_in_turn_and_the_one_that_answered_first_next_time() -> None:
    async with serving() as (_, address):
        pool = ConnectionPool()
        masters = MasterClient([Address("127.0.0.1", free_port()), address], pool)
        answer = await masters.request(CloseRequestP2M(client_id="p"), CloseResponseM2P, CLOSE, timeout_s=5)
        assert answer.success
        assert masters.current == address
        await pool.close()


async def test_when_no_master_answers_each_is_named() -> None:
    pool = ConnectionPool()
    dead = [Address("127.0.0.1", free_port()), Address("127.0.0.1", free_port())]
    with pytest.raises(UnreachableError, match="no Master can be reached") as caught:
        await MasterClient(dead, pool).request(CloseRequestP2M(client_id="p"), CloseResponseM2P, CLOSE, timeout_s=5)
    assert str(dead[0]) in str(caught.value)
    assert str(dead[1]) in str(caught.value)
    assert "pytubemq dev" in str(caught.value)
    await pool.close()


async def test_a_peer_that_is_answered_slowly_is_not_read_from_beyond_its_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pytubemq.net.server.connection.MAX_CALLS_PER_CONNECTION", 10)
    calls: list[Call] = []
    async with serving(calls.append) as (_, address):
        connection = await RpcConnection.connect(address)
        asked = [asyncio.create_task(ask(connection, timeout_s=20)) for _ in range(50)]
        await until(lambda: len(calls) >= 10)
        for answered in range(50):
            await until(lambda wanted: len(calls) > wanted, answered)
            calls[answered].reply(OK)
        assert all(answer.success for answer in await asyncio.gather(*asked))
        await connection.close()


class Silent(asyncio.Protocol):
    """A peer that takes everything and says nothing, unless told to say a byte."""

    def __init__(self) -> None:
        self.transports: list[asyncio.Transport] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transports.append(transport)  # type: ignore[arg-type]


@contextlib.asynccontextmanager
async def silence() -> AsyncIterator[tuple[Silent, Address]]:
    peer = Silent()
    server = await asyncio.get_running_loop().create_server(lambda: peer, "127.0.0.1", 0)
    try:
        yield peer, Address(*server.sockets[0].getsockname()[:2])
    finally:
        for transport in peer.transports:
            transport.abort()
        server.close()
        await server.wait_closed()


async def test_a_connection_on_which_nothing_comes_is_given_up_and_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytubemq.net.client.connection.SILENT_CONNECTION_S", 0.2)
    async with silence() as (_, address):
        pool = ConnectionPool()
        first = await pool.get(address)
        long = first.call(CLOSE, Service.MASTER, b"", timeout_s=60)
        with pytest.raises(RequestTimeoutError):
            await ask(first, timeout_s=0.3)
        with pytest.raises(ConnectionLostError):
            await long
        assert first.closed
        second = await pool.get(address)
        assert second is not first
        await pool.close()


async def test_a_connection_is_kept_after_a_call_ran_out_of_time_when_its_peer_still_speaks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pytubemq.net.client.connection.SILENT_CONNECTION_S", 0.0)
    async with silence() as (peer, address):
        connection = await RpcConnection.connect(address)
        asking = asyncio.ensure_future(ask(connection, timeout_s=2.0))
        await until(lambda: bool(peer.transports) and connection.in_flight == 1)
        peer.transports[0].write(encode_frame(1, [b""])[0][:2])
        with pytest.raises(RequestTimeoutError):
            await asking
        assert not connection.closed
        await connection.close()


async def test_both_sides_have_the_operating_system_watch_for_a_peer_that_vanished() -> None:
    async with serving() as (server, address):
        connection = await RpcConnection.connect(address)
        await ask(connection)
        (accepted,) = server.connections
        for side in (connection, accepted):
            assert side._transport is not None
            handle = side._transport.get_extra_info("socket")
            assert handle.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            if hasattr(socket, "TCP_USER_TIMEOUT"):  # not every platform has it
                assert handle.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == VANISHED_PEER_S * 1000
        await connection.close()


async def test_an_answer_that_fits_into_no_frame_fails_its_call(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(lambda call: call.reply(bytes(MAX_FRAME_BYTES + 1))) as (server, address):
        connection = await RpcConnection.connect(address)
        with pytest.raises(RemoteError, match="FrameError"):
            await ask(connection)
        assert server.stats.failed == 1
        assert not any(accepted.open_calls for accepted in server.connections)
        await connection.close()
    assert "do not fit into a frame" in caplog.text


async def test_the_bytes_of_a_request_are_let_go_while_it_waits_for_its_answer() -> None:
    held: list[Call] = []
    async with serving(held.append) as (server, address):
        connection = await RpcConnection.connect(address)
        large = encode(CloseRequestP2M(client_id="p" * 100_000))
        answer = connection.call(CLOSE, Service.MASTER, large, timeout_s=5)
        await until(lambda: bool(held))
        assert held[0].request.body == b""
        assert server.buffered_bytes == len(large) + OPEN_CALL_BYTES
        held[0].reply(OK)
        await answer
        assert server.buffered_bytes == 0
        await connection.close()


async def test_what_all_hold_is_bounded_and_the_one_that_holds_the_most_goes() -> None:
    async with serving(max_buffered_bytes=100_000) as (server, address):
        peers = [await asyncio.open_connection(address.host, address.port) for _ in range(3)]
        frame = b"".join(encode_frame(1, [bytes(90_000)], block_bytes=None))
        header = len(frame) - 90_000
        expected = 0
        for (_, writer), size in zip(peers, (30_000, 60_000), strict=False):
            writer.write(frame[: header + size])
            expected += size
            await until(lambda held: server.buffered_bytes == held, expected)
        peers[2][1].write(frame[: header + 20_000])
        with contextlib.suppress(ConnectionResetError):
            assert await peers[1][0].read() == b""
        await until(lambda: server.stats.connections == 2)
        await until(lambda: server.buffered_bytes == 50_000)
        assert server.stats.faults == 1
        connection = await RpcConnection.connect(address)
        assert (await ask(connection)).success
        await connection.close()
        for _, writer in peers:
            writer.close()
        await until(lambda: server.stats.connections == 0)
        assert server.buffered_bytes == 0


async def test_unanswered_calls_count_as_well_and_nothing_is_left_of_a_connection_that_went() -> None:
    held: list[Call] = []
    async with serving(held.append, max_buffered_bytes=250_000) as (server, address):
        connection = await RpcConnection.connect(address)
        large = encode(CloseRequestP2M(client_id="p" * 100_000))
        answers = [connection.call(CLOSE, Service.MASTER, large, timeout_s=5) for _ in range(3)]
        with pytest.raises(ConnectionLostError):
            await answers[0]
        await asyncio.gather(*answers, return_exceptions=True)
        for call in held:
            call.reply(OK)
        assert server.buffered_bytes == 0
        await connection.close()


@pytest.mark.parametrize(
    "address", [Address("a..b", 1), Address("h\0x", 1), Address("x" * 64, 1), Address("127.0.0.1", 99_999)], ids=str
)
async def test_an_address_that_cannot_be_is_one_that_is_not_reached(address: Address) -> None:
    with pytest.raises(UnreachableError, match="the address is not valid"):
        await RpcConnection.connect(address)


async def test_a_malformed_message_is_refused_alike_by_functions_and_coroutines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def later(call: Call) -> None:
        decode(CloseRequestP2M, call.request.body)

    def at_once(call: Call) -> None:
        decode(CloseRequestP2M, call.request.body)

    found: list[tuple[str, str]] = []
    for handler in (at_once, later):
        async with serving(handler) as (_, address):
            connection = await RpcConnection.connect(address)
            with pytest.raises(RemoteError) as caught:
                await connection.call(CLOSE, 1, b"\xff", timeout_s=5)
            found.append((caught.value.exception_name, str(caught.value).partition(" failed ")[2]))
            await connection.close()
    assert found[0] == found[1]
    assert "InvalidProtocolBuffer" in found[0][0]
    assert "failed" not in caplog.text


def requests(count: int) -> bytes:
    body = [encode(CloseRequestP2M(client_id="p1"))]
    return b"".join(
        part
        for serial in range(count)
        for part in encode_request(serial, service=1, method=CLOSE, timeout_ms=0, body=body)
    )


async def test_requests_that_take_long_leave_others_their_turns_and_keep_their_order() -> None:
    clock, loop = HandClock(), asyncio.get_running_loop()
    served: list[tuple[int, int]] = []
    rounds = 0

    def count_rounds() -> None:
        nonlocal rounds
        rounds += 1
        if len(served) < 30:
            loop.call_soon(count_rounds)

    def slow(call: Call) -> None:
        served.append((call.request.serial, rounds))
        clock.now += SERVING_SLICE_S / 4.5
        call.reply(OK)

    async with serving(slow, clock=clock) as (server, address):
        count_rounds()
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(requests(30))
        async with asyncio.timeout(20):
            decoder = FrameDecoder()
            answers: list[Frame] = []
            while len(answers) < 30:
                answers += decoder.feed(await reader.read(1 << 16))
        assert [frame.serial for frame in answers] == list(range(30))
        assert [serial for serial, _ in served] == list(range(30))
        in_round = Counter(number for _, number in served)
        assert in_round.most_common(2)[0][1] == 5, "those of a read have their slice"
        assert in_round.most_common(2)[1][1] <= 2, "and the others a part of one that all such connections share"
        writer.write(requests(1))
        async with asyncio.timeout(20):
            assert await reader.read(1 << 16)  # it is read from again
        writer.close()
        await until(lambda: not server.connections)


async def test_requests_that_were_put_off_go_with_their_connection() -> None:
    clock, served = HandClock(), 0

    def slow(call: Call) -> None:
        nonlocal served
        served += 1
        clock.now += 2 * SERVING_SLICE_S
        if served == 3:
            call.connection.abort()

    async with serving(slow, clock=clock) as (server, address):
        with contextlib.suppress(ConnectionResetError):
            assert await raw(address, requests(30)) == b""
        await until(lambda: not server.connections)
        assert (served, server.buffered_bytes) == (3, 0)


@pytest.mark.parametrize(("service", "retriable"), [(1, False), (2, True), (3, True)])
def test_a_broker_that_does_not_serve_yet_is_tried_again(service: int, retriable: bool) -> None:
    text = f"No service {service} found on the server"
    response = Response(1, Status.ERROR, 0, b"", None, "java.lang.Exception", text)
    assert remote_error(Address("127.0.0.1", 8123), response).retriable is retriable
