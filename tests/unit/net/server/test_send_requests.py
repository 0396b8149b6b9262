"""Requests that leave together and are served together: each ends once, as one by itself does."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import ConnectionLostError, EnvelopeError, RemoteError, RequestTimeoutError, TubeError
from pytubemq.model.ids import Address
from pytubemq.net.client.connection import RpcConnection
from pytubemq.net.server.server import RpcServer
from pytubemq.wire.rpc.envelope import encode_request, encode_response
from pytubemq.wire.rpc.methods import Method, Service
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from pytubemq.net.server.call import Call
    from pytubemq.net.server.call_run import CallRun
    from pytubemq.wire.rpc.envelope import Response

pytestmark = pytest.mark.anyio

SEND = int(Method.SEND_MESSAGE_P2B)


class Broker:
    """Echoes what it is asked, in runs if `takes_runs`."""

    def __init__(self) -> None:
        self.takes_runs = True
        self.crashes = False
        self.silent = False
        self.runs: list[CallRun] = []
        self.calls: list[Call] = []

    def serve(self, call: Call) -> None:
        self.calls.append(call)
        if self.silent:
            return
        if call.request.body.startswith(b"bad"):
            raise EnvelopeError("no such thing", exception_name="java.lang.Exception", fatal=False)
        call.reply(call.request.body)

    def serve_run(self, run: CallRun) -> bool:
        if self.crashes:
            raise ValueError("a fault")
        if not self.takes_runs:
            return False
        self.runs.append(run)
        if not self.silent:
            self.answer(run)
        return True

    def answer(self, run: CallRun) -> None:
        frames: list[bytes] = []
        for serial in reversed(run.serials):
            frames += encode_response(serial, method=SEND, body=(b"%d" % serial,), capabilities=run.capabilities)
        run.reply(frames)


class Told:
    """What a run of requests has heard."""

    def __init__(self) -> None:
        self.answers: dict[int, bytes] = {}
        self.errors: dict[int, TubeError] = {}
        self.times = 0

    def landed(self, first: int, answers: Sequence[Response]) -> None:
        self.times += 1
        for answer in answers:
            assert answer.serial - first not in self.answers
            self.answers[answer.serial - first] = answer.body

    def failed(self, number: int, error: TubeError) -> None:
        assert number not in self.errors
        self.errors[number] = error

    @property
    def count(self) -> int:
        return len(self.answers) + len(self.errors)


@pytest.fixture
async def broker() -> Broker:
    return Broker()


@pytest.fixture
async def server(broker: Broker) -> AsyncIterator[RpcServer]:
    server = RpcServer(
        {SEND: broker.serve}, offered=frozenset({2, 3}), name="broker", run_handlers={SEND: broker.serve_run}
    )
    yield server
    await server.close()


@pytest.fixture
async def connection(server: RpcServer) -> AsyncIterator[RpcConnection]:
    connection = await RpcConnection.connect(await server.start(Address("127.0.0.1", 0)))
    await connection.call(SEND, Service.BROKER_WRITE, b"hello", timeout_s=30.0)
    yield connection
    await connection.close()


def open_calls(server: RpcServer) -> int:
    return sum(connection.open_calls for connection in server.connections)


def ask(connection: RpcConnection, bodies: Sequence[bytes], *, timeout_s: float = 30.0) -> Told:
    told = Told()

    def write(first: int) -> list[bytes]:
        frames: list[bytes] = []
        for number, body in enumerate(bodies):
            frames += encode_request(
                first + number, service=Service.BROKER_WRITE, method=SEND, timeout_ms=30_000, body=(body,)
            )
        return frames

    connection.send_requests(
        SEND, len(bodies), write, timeout_s=timeout_s, on_responses=told.landed, on_error=told.failed
    )
    return told


async def test_a_run_is_served_as_one_and_each_has_its_answer(broker: Broker, connection: RpcConnection) -> None:
    first = ask(connection, [b"x"] * 5)  # how these requests begin is learned from the first of them
    await until(lambda: first.count == 5)
    told = ask(connection, [b"x"] * 50)
    await until(lambda: told.count == 50)
    assert len(told.answers) == 50
    assert len(set(told.answers.values())) == 50
    assert sum(len(run.serials) for run in broker.runs) >= 40
    assert connection.in_flight == 0


async def test_answers_that_come_as_one_reach_the_runs_and_calls_they_are_for(
    broker: Broker, server: RpcServer, connection: RpcConnection
) -> None:
    for body in (b"x", b"y"):  # how answers begin is learned from the first of them, for all connections of a process
        await connection.call(SEND, Service.BROKER_WRITE, body, timeout_s=30.0)
    broker.silent = True
    one, ended = ask(connection, [b"a"] * 20), ask(connection, [b"c"] * 3, timeout_s=0.05)
    alone = connection.call(SEND, Service.BROKER_WRITE, b"b", timeout_s=30.0)
    other = ask(connection, [b"d"] * 200)
    await until(lambda: open_calls(server) == 224 and ended.count == 3)
    (link,) = server.connections
    frames: list[bytes] = []
    for number in range(224):
        frames += encode_response(4 + number, method=SEND, body=(b"%03d" % number,))
    link.send((b"".join(frames),))
    await until(lambda: other.count == 200)
    assert one.answers == {number: b"%03d" % number for number in range(20)}
    assert {type(error) for error in ended.errors.values()} == {RequestTimeoutError}
    assert (await alone).body == b"023"
    assert other.answers == {number: b"%03d" % (24 + number) for number in range(200)}
    assert one.times <= 2  # how these answers begin is learned from the first of them
    assert other.times <= 3
    assert connection.in_flight == 0


async def test_what_has_to_be_served_one_by_one_is(broker: Broker, connection: RpcConnection) -> None:
    broker.takes_runs = False
    bodies = [b"bad" if number == 3 else b"%d" % number for number in range(8)]
    told = ask(connection, bodies)
    await until(lambda: told.count == 8)
    assert told.answers == {number: body for number, body in enumerate(bodies) if number != 3}
    assert isinstance(told.errors[3], RemoteError)


async def test_a_fault_of_the_handler_is_told_to_each(
    broker: Broker, server: RpcServer, connection: RpcConnection
) -> None:
    told = ask(connection, [b"x"] * 3)
    await until(lambda: told.count == 3)
    broker.crashes = True
    told = ask(connection, [b"x"] * 6)
    await until(lambda: told.count == 6)
    assert {type(error) for error in told.errors.values()} == {RemoteError}
    assert server.buffered_bytes == 0
    assert not connection.closed


async def test_a_run_that_nobody_answers_ends_by_its_time(broker: Broker, connection: RpcConnection) -> None:
    broker.silent = True
    told = ask(connection, [b"x"] * 4, timeout_s=0.05)
    await until(lambda: told.count == 4)
    assert {type(error) for error in told.errors.values()} == {RequestTimeoutError}


async def test_a_run_ends_with_its_connection(broker: Broker, connection: RpcConnection) -> None:
    broker.silent = True
    told = ask(connection, [b"x"] * 4)
    await connection.close()
    await until(lambda: told.count == 4)
    assert {type(error) for error in told.errors.values()} == {ConnectionLostError}
    late = ask(connection, [b"x"] * 2)
    assert late.count == 0  # not before the caller goes on
    await until(lambda: late.count == 2)


async def test_a_run_is_answered_once_and_not_after_its_time(
    broker: Broker, server: RpcServer, connection: RpcConnection
) -> None:
    broker.silent = True
    told = ask(connection, [b"x"] * 3)
    await until(lambda: open_calls(server) == 3)
    await asyncio.sleep(0)
    again = ask(connection, [b"y"] * 3)
    await until(lambda: len(broker.runs) + len(broker.calls) >= 2 and open_calls(server) == 6)
    for run in broker.runs:
        broker.answer(run)
        broker.answer(run)
    for call in broker.calls[1:]:
        call.reply(b"z")
    await until(lambda: told.count == again.count == 3)
    assert server.buffered_bytes == 0


async def test_a_callback_that_fails_harms_no_other_run(connection: RpcConnection) -> None:
    def landed(_first: int, _answers: Sequence[Response]) -> None:
        raise ValueError("a fault")

    def write(first: int) -> list[bytes]:
        return encode_request(first, service=Service.BROKER_WRITE, method=SEND, timeout_ms=30_000, body=(b"x",))

    told = Told()
    connection.send_requests(SEND, 1, write, timeout_s=30.0, on_responses=landed, on_error=told.failed)
    other = ask(connection, [b"x"] * 3)
    await until(lambda: other.count == 3)
    assert len(other.answers) == 3
    assert told.count == 0
