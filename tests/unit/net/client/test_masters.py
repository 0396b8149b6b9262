"""Which Master is asked next, by what the Masters of the original were recorded to say."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest

from pytubemq import Start, connect
from pytubemq.errors import RemoteError, RequestTimeoutError, StandbyError
from pytubemq.model.ids import Address
from pytubemq.net.client.connection import RpcConnection
from pytubemq.net.client.masters import MasterClient
from pytubemq.net.client.pool import ConnectionPool
from pytubemq.testing.mock_broker import SILENCE, MockBroker
from pytubemq.wire.framing.frame import FrameDecoder
from pytubemq.wire.protocol.messages.master import CloseRequestP2M, CloseResponseM2P
from pytubemq.wire.rpc.methods import Method, Service
from tests.unit.wire.golden import frames

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pytubemq.net.server.call import Call

pytestmark = pytest.mark.anyio

CLOSE = Method.PRODUCER_CLOSE_P2M
STANDBY = [
    pytest.param(bytes.fromhex(record["frame_hex"]), id=record["name"])
    for record in frames()
    if record["direction"] == "response" and "StandbyException" in record["name"]
]
REFLECTED = "java.lang.reflect.InvocationTargetException"


@contextlib.asynccontextmanager
async def replaying(frame: bytes) -> AsyncIterator[Address]:
    """A server that answers every request with a recorded frame; only its serial number is the request's."""

    served: set[asyncio.Task[object]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.add(asyncio.current_task())  # type: ignore[arg-type]
        decoder = FrameDecoder()
        while data := await reader.read(65_536):
            for asked in decoder.feed(data):
                writer.write(frame[:4] + asked.serial.to_bytes(4, "big") + frame[8:])
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield Address("127.0.0.1", server.sockets[0].getsockname()[1])
    finally:
        server.close()
        await asyncio.gather(*served)  # the clients have closed by now


async def test_a_server_that_never_answers_may_be_one_of_http() -> None:
    gone = asyncio.Event()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        await writer.wait_closed()
        gone.set()

    silent = await asyncio.start_server(listen, "127.0.0.1", 0)
    address = Address("127.0.0.1", silent.sockets[0].getsockname()[1])
    pool = ConnectionPool()
    with pytest.raises(RequestTimeoutError) as caught:
        await MasterClient((address,), pool).request(
            CloseRequestP2M(client_id="c"), CloseResponseM2P, CLOSE, timeout_s=0.2
        )
    assert f"is {address} the port of a Master" in str(caught.value.hint)
    assert "JSON API?" in str(caught.value.hint)
    await pool.close()
    await gone.wait()
    silent.close()


def test_there_are_recorded_standbys_of_every_version() -> None:
    assert len(STANDBY) >= 8


@pytest.mark.parametrize("frame", STANDBY)
async def test_every_recorded_standby_is_seen_to_be_one(frame: bytes) -> None:
    async with replaying(frame) as address:
        connection = await RpcConnection.connect(address)
        with pytest.raises(StandbyError, match="is not master now"):
            await connection.request(
                CloseRequestP2M(client_id="p"), CloseResponseM2P, CLOSE, Service.MASTER, timeout_s=10
            )
        await connection.close()


@pytest.mark.parametrize("frame", STANDBY[:1])
async def test_a_client_moves_on_when_a_standby_answers_first(frame: bytes) -> None:
    async with (
        replaying(frame) as standby,
        MockBroker(topics={"demo": 1}) as mock,
        connect(f"{standby},{mock.masters}") as tube,
    ):
        async with tube.producer("demo") as producer:
            await producer.send(b"through the second")
        async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
            batch = await anext(consumer.batches())
            assert [message.body for message in batch] == [b"through the second"]


async def test_a_client_comes_back_when_its_master_turns_into_a_standby() -> None:
    async with MockBroker(topics={"demo": 1}) as mock, MockBroker() as other:
        # The other's Master names the first one's Broker: two Masters of one cluster.
        other.topics, other.broker_address, other.broker_id = mock.topics, mock.broker_address, mock.broker_id
        async with connect(f"{mock.masters},{other.masters}") as tube, tube.producer("demo") as producer:
            await producer.send(b"a")
            for method in (Method.PRODUCER_HEARTBEAT_P2M, Method.PRODUCER_REGISTER_P2M):
                mock.respond_fn(method, lambda call, _request: fail(call, "x.StandbyException"))
            mock.create_topic("more", 1)  # ends the heartbeat that is held
            await other.until(lambda: other.producers)
            await producer.send(b"b")
        assert mock.bodies("demo") == [b"a", b"b"]


def fail(call: Call, name: str) -> object:
    """Answer with an exception."""
    call.fail(exception_name=name, text="is not master now")
    return SILENCE


async def test_a_failure_inside_a_master_is_no_standby_and_still_the_next_one_is_asked() -> None:
    async with MockBroker() as bad, MockBroker() as good:
        bad.crash_next(CLOSE, exception_name=REFLECTED)
        good.crash_next(CLOSE, exception_name=REFLECTED)
        pool = ConnectionPool()
        masters = MasterClient([bad.address, good.address], pool)
        with pytest.raises(RemoteError) as caught:
            await masters.request(CloseRequestP2M(client_id="p"), CloseResponseM2P, CLOSE, timeout_s=10)
        assert not isinstance(caught.value, StandbyError)
        bad.crash_next(CLOSE, exception_name=REFLECTED)
        assert (await masters.request(CloseRequestP2M(client_id="p"), CloseResponseM2P, CLOSE, timeout_s=10)).success
        assert masters.current == good.address
        await pool.close()


async def test_a_failure_inside_the_only_master_does_not_end_a_producer() -> None:
    async with MockBroker(topics={"demo": 1}) as mock, connect(mock.masters) as tube:
        async with tube.producer("demo") as producer:
            mock.crash_next(Method.PRODUCER_HEARTBEAT_P2M, exception_name=REFLECTED)
            before = len(mock.received(Method.PRODUCER_HEARTBEAT_P2M))
            mock.create_topic("more", 1)
            await mock.until(lambda: len(mock.received(Method.PRODUCER_HEARTBEAT_P2M)) >= before + 2)
            await producer.send(b"still here")
        assert mock.bodies("demo") == [b"still here"]
