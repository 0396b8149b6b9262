"""Requests with a callback: each ends once, and a failing callback harms no other."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import ConnectionLostError, RemoteError, RequestTimeoutError, TubeError
from pytubemq.model.ids import Address
from pytubemq.net.client.connection import RpcConnection
from pytubemq.net.server.server import RpcServer
from pytubemq.wire.rpc.methods import Method, Service
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pytubemq.net.server.call import Call
    from pytubemq.wire.rpc.envelope import Response

pytestmark = pytest.mark.anyio

SEND = int(Method.SEND_MESSAGE_P2B)


class Broker:
    """Keeps what it is asked, or echoes it."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.echoes = True

    def serve(self, call: Call) -> None:
        self.calls.append(call)
        if self.echoes:
            call.reply(call.request.body)


@pytest.fixture
async def broker() -> Broker:
    return Broker()


@pytest.fixture
async def connection(broker: Broker) -> AsyncIterator[RpcConnection]:
    server = RpcServer({SEND: broker.serve}, offered=frozenset({2, 3}), name="broker")
    address = await server.start(Address("127.0.0.1", 0))
    connection = await RpcConnection.connect(address)
    yield connection
    await connection.close()
    await server.close()


def ask(connection: RpcConnection, body: bytes, told: list[Response | TubeError], timeout_s: float = 30.0) -> None:
    connection.send_request(SEND, Service.BROKER_WRITE, body, timeout_s=timeout_s, done=told.append)


async def test_answers_come_in_order_each_once(connection: RpcConnection) -> None:
    told: list[Response | TubeError] = []
    bodies = [b"%d" % n * (n % 40 + 1) for n in range(2_000)]
    for body in bodies:
        ask(connection, body, told)
    assert told == []
    await until(lambda: len(told) == len(bodies))
    assert [answer.body for answer in told if not isinstance(answer, TubeError)] == bodies
    assert connection.in_flight == 0


async def test_bodies_of_all_sizes_come_back_whole(connection: RpcConnection) -> None:
    """In one buffer, in several, in one block and, before the peer's capabilities are known, in many."""
    told: list[Response | TubeError] = []
    sizes = [0, 1, 100, 8_000, 8_192, 20_000, 4_095, 4_096, 1_000_000, 2_000_000, 5, 300_000]
    for size in sizes * 2:
        ask(connection, bytes([size % 251]) * size, told)
        if size == 20_000:
            await until(lambda: len(told) >= 6)
    await until(lambda: len(told) == 2 * len(sizes))
    wanted = [bytes([size % 251]) * size for size in sizes * 2]
    assert [answer.body for answer in told if not isinstance(answer, TubeError)] == wanted


async def test_a_failing_callback_harms_no_other(connection: RpcConnection, caplog: pytest.LogCaptureFixture) -> None:
    told: list[Response | TubeError] = []

    def fail(answer: Response | TubeError) -> None:
        raise RuntimeError("the one who asked is at fault")

    connection.send_request(SEND, Service.BROKER_WRITE, b"a", timeout_s=30, done=fail)
    ask(connection, b"b", told)
    await until(lambda: len(told) == 1)
    assert not connection.closed
    assert "could not be handled" in caplog.text


async def test_an_exception_of_the_server_is_told_as_an_error(connection: RpcConnection, broker: Broker) -> None:
    told: list[Response | TubeError] = []
    broker.echoes = False
    ask(connection, b"a", told)
    await until(lambda: len(broker.calls) == 1)
    broker.calls[0].fail(exception_name="java.lang.Exception", text="no")
    await until(lambda: len(told) == 1)
    assert isinstance(told[0], RemoteError)


async def test_what_is_not_answered_ends_by_its_time(connection: RpcConnection, broker: Broker) -> None:
    told: list[Response | TubeError] = []
    broker.echoes = False
    ask(connection, b"a", told, timeout_s=0.05)
    await until(lambda: len(told) == 1)
    assert isinstance(told[0], RequestTimeoutError)
    broker.calls[0].reply(b"late")
    await asyncio.sleep(0)
    assert len(told) == 1


async def test_a_closed_connection_ends_every_question_and_takes_no_more(
    connection: RpcConnection, broker: Broker
) -> None:
    told: list[Response | TubeError] = []
    broker.echoes = False
    for _ in range(3):
        ask(connection, b"a", told)
    await until(lambda: len(broker.calls) == 3)
    connection.drop()
    await until(lambda: len(told) == 3)
    ask(connection, b"a", told)
    assert len(told) == 3, "not before ask returns"
    await until(lambda: len(told) == 4)
    assert all(isinstance(answer, ConnectionLostError) for answer in told)
