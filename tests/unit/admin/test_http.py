"""The HTTP server as a guest in a running loop."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from typing import TYPE_CHECKING

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route

from pytubemq.admin.request_checks import read_bounded
from pytubemq.admin.serving.http import HttpServer
from pytubemq.errors import ConfigError
from pytubemq.model.ids import Address
from pytubemq.model.limits import MIB
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

pytestmark = pytest.mark.anyio

LISTEN = Address("127.0.0.1", 0)


HEAD = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
HALVES = {
    "nothing": b"",
    "half a head": HEAD,
    "half a body": HEAD + b"Content-Length: 100\r\n\r\n{",
    "half a body, unread": HEAD.replace(b"/ HTTP", b"/unread HTTP") + b"Content-Length: 100\r\n\r\n{",
}


async def echo(request: Request) -> PlainTextResponse:
    return PlainTextResponse(str(len(await read_bounded(request))))


async def hello(_: Request) -> PlainTextResponse:
    return PlainTextResponse("hello")


async def test_it_serves_and_stops_and_leaves_signals_alone() -> None:
    before = signal.getsignal(signal.SIGINT)
    server = HttpServer(Starlette(routes=[Route("/", hello)]), LISTEN)
    address = await server.start()
    async with httpx.AsyncClient() as client:
        answer = await client.get(f"http://{address}/")
        assert answer.text == "hello"
        assert "server" not in answer.headers
    assert signal.getsignal(signal.SIGINT) is before
    await server.close()
    await server.close()
    async with httpx.AsyncClient() as client:
        with pytest.raises(httpx.ConnectError):
            await client.get(f"http://{address}/")


async def test_the_body_of_a_response_does_not_wait_until_its_head_is_acknowledged() -> None:
    server = HttpServer(Starlette(routes=[Route("/", hello)]), LISTEN)
    address = await server.start()
    async with httpx.AsyncClient() as client:
        assert (await client.get(f"http://{address}/")).text == "hello"
        assert server._server is not None
        (connection,) = server._server.server_state.connections
        assert connection.transport is not None
        accepted = connection.transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    await server.close()


async def test_a_taken_port_is_named() -> None:
    first = HttpServer(Starlette(), LISTEN)
    address = await first.start()
    with pytest.raises(ConfigError, match=f"HTTP cannot listen on {address}: the port is in use"):
        await HttpServer(Starlette(), address).start()
    await first.close()


async def test_an_address_that_is_not_ours_is_named() -> None:
    with pytest.raises(ConfigError, match=r"HTTP cannot listen on 192\.0\.2\.1:80"):
        await HttpServer(Starlette(), Address("192.0.2.1", 80)).start()


async def test_what_uvicorn_lacks_is_an_error_of_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(self: uvicorn.Config) -> None:
        raise ImportError("a part of uvicorn cannot be read")

    monkeypatch.setattr(uvicorn.Config, "load", lacking)
    server = HttpServer(Starlette(), LISTEN)
    address = server.bind()
    with pytest.raises(ImportError, match="a part of uvicorn"):
        await server.start()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(address.host, address.port)
    await server.close()


async def test_a_server_that_ends_by_an_error_says_so_at_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def failing(self: uvicorn.Server) -> None:
        raise RuntimeError("a fault in its loop")

    monkeypatch.setattr(uvicorn.Server, "main_loop", failing)
    server = HttpServer(Starlette(), LISTEN)
    address = await server.start()
    await until(lambda: "serves no more requests" in caplog.text)
    assert f"HTTP at {address} has failed" in caplog.text
    assert "a fault in its loop" in caplog.text
    with pytest.raises(RuntimeError, match="a fault in its loop"):
        await server.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(address.host, address.port)


async def test_closing_what_never_started_is_fine() -> None:
    await HttpServer(Starlette(), LISTEN).close()


@pytest.mark.parametrize("half", HALVES.values(), ids=list(HALVES))
async def test_a_request_that_is_never_finished_is_closed(half: bytes) -> None:
    app = Starlette(routes=[Route("/", echo, methods=["POST"]), Route("/unread", hello, methods=["POST"])])
    server = HttpServer(app, LISTEN, request_timeout_s=0.3)
    address = await server.start()
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(half)
    assert b"500" not in await reader.read()
    writer.close()
    await server.close()


async def test_a_half_request_behind_a_whole_one_is_closed() -> None:
    app = Starlette(routes=[Route("/", echo, methods=["POST"])])
    server = HttpServer(app, LISTEN, request_timeout_s=0.3)
    address = await server.start()
    reader, writer = await asyncio.open_connection(address.host, address.port)
    head = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 4\r\n\r\n"
    writer.write(head + b"body" + head + b"bo")
    assert (await reader.read()).count(b"HTTP/1.1 200") == 1
    writer.close()
    await server.close()


async def test_a_connection_is_kept_for_the_next_request() -> None:
    server = HttpServer(Starlette(routes=[Route("/", hello)]), LISTEN, request_timeout_s=0.5)
    address = await server.start()
    reader, writer = await asyncio.open_connection(address.host, address.port)
    for _ in range(2):
        writer.write(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert (await reader.readuntil(b"hello")).startswith(b"HTTP/1.1 200")
    writer.write(b"GET / HT")  # a third, never finished
    assert await reader.read() == b""
    writer.close()
    await server.close()


async def test_a_crowd_that_does_not_ask_keeps_nobody_out() -> None:
    server = HttpServer(Starlette(routes=[Route("/", hello)]), LISTEN, request_timeout_s=60, max_connections=8)
    address = await server.start()
    crowd = [await asyncio.open_connection(address.host, address.port) for _ in range(20)]
    for _, writer in crowd:
        writer.write(HEAD)
    async with httpx.AsyncClient() as client:
        assert (await client.get(f"http://{address}/")).text == "hello"
    for _, writer in crowd:
        writer.close()
    await server.close()


async def test_when_all_are_being_answered_the_new_one_goes() -> None:
    going, release = asyncio.Event(), asyncio.Event()

    async def slow(_: Request) -> PlainTextResponse:
        going.set()
        await release.wait()
        return PlainTextResponse("done")

    server = HttpServer(Starlette(routes=[Route("/", slow)]), LISTEN, max_connections=1)
    address = await server.start()
    async with httpx.AsyncClient() as client:
        asking = asyncio.create_task(client.get(f"http://{address}/"))
        await going.wait()
        async with httpx.AsyncClient() as other:
            with pytest.raises(httpx.TransportError):
                await other.get(f"http://{address}/")
        release.set()
        assert (await asking).text == "done"
    await server.close()


LONG = 20 * MIB
GET = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


async def long(_: Request) -> PlainTextResponse:
    return PlainTextResponse("x" * LONG)


async def deaf(address: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A peer that asks for a long answer and takes little more than its beginning."""
    reader, writer = await asyncio.open_connection(address.host, address.port, limit=1024)
    writer.write(GET)
    await reader.readexactly(1)
    return reader, writer


async def taken(reader: asyncio.StreamReader) -> int:
    """How many bytes there are until the end, or until the connection breaks."""
    found = 0
    with contextlib.suppress(ConnectionError):
        while part := await reader.read(1 << 16):
            found += len(part)
    return found


async def test_a_peer_that_does_not_take_its_answer_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    server = HttpServer(Starlette(routes=[Route("/", long)]), LISTEN, read_period_s=0.3)
    address = await server.start()
    peers = [await deaf(address) for _ in range(3)]
    await until(lambda: caplog.text.count("does not read its response") == 3)
    for reader, writer in peers:
        assert await taken(reader) < LONG
        writer.close()
    await server.close()


async def test_a_peer_that_takes_its_answer_gets_all_of_it() -> None:
    server = HttpServer(Starlette(routes=[Route("/", long)]), LISTEN, max_unsent_bytes=0)
    address = await server.start()
    async with httpx.AsyncClient(timeout=60) as client:
        for _ in range(2):
            assert len((await client.get(f"http://{address}/")).content) == LONG
    await server.close()


async def test_a_crowd_that_does_not_read_keeps_nobody_out() -> None:
    app = Starlette(routes=[Route("/", long), Route("/short", hello)])
    server = HttpServer(app, LISTEN, read_period_s=600, max_connections=8)
    address = await server.start()
    crowd = [await deaf(address) for _ in range(8)]
    for _ in range(3):
        async with httpx.AsyncClient() as client:
            assert (await client.get(f"http://{address}/short")).text == "hello"
    assert await taken(crowd[0][0]) < LONG
    for _, writer in crowd:
        writer.close()
    await server.close()


async def test_what_waits_to_be_read_is_bounded_and_the_longest_reader_goes(caplog: pytest.LogCaptureFixture) -> None:
    server = HttpServer(Starlette(routes=[Route("/", long)]), LISTEN, read_period_s=600, max_unsent_bytes=2 * LONG)
    address = await server.start()
    crowd = [await deaf(address) for _ in range(6)]
    await until(lambda: "too much waits to be read" in caplog.text)
    assert await taken(crowd[0][0]) < LONG
    assert await taken(crowd[-1][0]) > LONG
    for _, writer in crowd:
        writer.close()
    await server.close()


async def test_what_the_system_could_take_of_an_answer_counts_too(caplog: pytest.LogCaptureFixture) -> None:
    # Left alone, it takes megabytes of each answer, and whole answers stay in memory until their last byte is gone.
    async def middling(_: Request) -> PlainTextResponse:
        return PlainTextResponse("x" * (4 * MIB))

    server = HttpServer(Starlette(routes=[Route("/", middling)]), LISTEN, read_period_s=600, max_unsent_bytes=6 * MIB)
    address = await server.start()
    crowd = []
    for _ in range(4):
        client = await asyncio.to_thread(narrow, address)
        crowd.append(client)
    await until(lambda: "too much waits to be read" in caplog.text)
    for client in crowd:
        client.close()
    await server.close()


def narrow(address: Address) -> socket.socket:
    """A peer that asks, takes one byte, and has room for few more."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect((address.host, address.port))
    client.sendall(GET)
    client.recv(1)
    return client


@pytest.mark.parametrize(
    "chunk", [b"-1\r\n\r\n", b"zz\r\n\r\n", b"1\r\nxyz\r\n"], ids=["negative", "no number", "long"]
)
@pytest.mark.parametrize("path", [b"/", b"/begun"])
async def test_a_malformed_chunk_is_refused_without_an_error_of_ours(
    chunk: bytes, path: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    ended = asyncio.Event()

    async def begun(request: Request) -> StreamingResponse:
        async def parts() -> AsyncIterator[bytes]:
            try:
                yield b"begun"
                with contextlib.suppress(ClientDisconnect):
                    await request.body()
                yield b"all"
            finally:
                ended.set()

        return StreamingResponse(parts())

    async def whole(request: Request) -> PlainTextResponse:
        with contextlib.suppress(ClientDisconnect):
            await request.body()
        ended.set()
        return PlainTextResponse("whole")

    routes = [Route("/", whole, methods=["POST"]), Route("/begun", begun, methods=["POST"])]
    server = HttpServer(Starlette(routes=routes), LISTEN)
    address = await server.start()
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(HEAD.replace(b"/ HTTP", path + b" HTTP") + b"Transfer-Encoding: chunked\r\n\r\n")
    response = b""
    if path == b"/begun":
        response = await reader.readuntil(b"begun")
    writer.write(chunk)
    response += await reader.read()
    assert response.startswith(b"HTTP/1.1 200" if path != b"/" else b"HTTP/1.1 400"), response
    await asyncio.wait_for(ended.wait(), 10)
    writer.close()
    await server.close()
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []
