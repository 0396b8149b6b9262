"""The HTTP server as a guest in a running loop."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from pytubemq.admin.http import HttpServer
from pytubemq.errors import ConfigError
from pytubemq.model.ids import Address

if TYPE_CHECKING:
    from starlette.requests import Request

pytestmark = pytest.mark.anyio

LISTEN = Address("127.0.0.1", 0)


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


async def test_a_taken_port_is_named() -> None:
    first = HttpServer(Starlette(), LISTEN)
    address = await first.start()
    with pytest.raises(ConfigError, match=f"HTTP cannot listen on {address}: the port is in use"):
        await HttpServer(Starlette(), address).start()
    await first.close()


async def test_an_address_that_is_not_ours_is_named() -> None:
    with pytest.raises(ConfigError, match=r"HTTP cannot listen on 192\.0\.2\.1:80"):
        await HttpServer(Starlette(), Address("192.0.2.1", 80)).start()


async def test_closing_what_never_started_is_fine() -> None:
    await HttpServer(Starlette(), LISTEN).close()
