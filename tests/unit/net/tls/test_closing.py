"""No socket outlives its owner: neither a connection that is closed nor an attempt that is given up."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from typing import TYPE_CHECKING

import pytest

from pytubemq.model.ids import Address
from pytubemq.net.client import connection as connection_module
from pytubemq.net.client.connection import RpcConnection
from pytubemq.net.client.pool import ConnectionPool
from tests.support.certificates import Authority, server_files
from tests.support.waiting import until
from tests.unit.net.tls.serving import serving_tls

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pytubemq.model.tls_options import TlsOptions

pytestmark = pytest.mark.anyio


@contextlib.asynccontextmanager
async def mute_peer(authority: Authority) -> AsyncIterator[Address]:
    """A peer that completes the handshake and then says nothing, not even that it closes."""
    pair = authority.issue("server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    ended = threading.Event()
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            accepted, _ = listening.accept()
            with context.wrap_socket(accepted, server_side=True):
                ended.wait(timeout=60)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield Address("127.0.0.1", listening.getsockname()[1])
    finally:
        ended.set()
        listening.close()
        await asyncio.to_thread(thread.join)


def file_of(connection: RpcConnection) -> socket.socket:
    assert connection._transport is not None
    found = connection._transport.get_extra_info("socket")
    assert found.fileno() != -1
    return found  # type: ignore[no-any-return]


async def test_a_closed_connection_holds_no_socket_though_its_peer_never_says_goodbye(authority: Authority) -> None:
    async with mute_peer(authority) as address:
        connection = await RpcConnection.connect(address, tls=authority.options())
        sock = file_of(connection)
        await connection.close()
        assert sock.fileno() == -1


async def test_a_closed_pool_holds_no_socket_of_a_connection_that_was_dropped_before(authority: Authority) -> None:
    async with mute_peer(authority) as address:
        pool = ConnectionPool(tls=authority.options())
        connection = await pool.get(address)
        sock = file_of(connection)
        connection.drop()
        await pool.close()
        assert sock.fileno() == -1


async def test_a_connection_that_was_dropped_twice_can_still_be_aborted(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "TLS_CLOSE_TIMEOUT_S", 600.0)
    async with mute_peer(authority) as address:
        connection = await RpcConnection.connect(address, tls=authority.options())
        sock, transport = file_of(connection), connection._transport
        assert transport is not None
        connection.drop()
        connection.drop()
        transport.abort()
        await connection.disconnected
        assert sock.fileno() == -1


async def test_an_attempt_that_is_given_up_at_any_step_leaves_no_connection(authority: Authority) -> None:
    async with serving_tls(server_files(authority.issue("server"))) as (server, plain, secure):
        for address, tls in ((plain, None), (secure, authority.options())):
            steps = 0
            while await _given_up(address, tls, after_steps=steps):
                steps += 1
            assert steps > 3
            await until(lambda: not server.connections)


async def _given_up(address: Address, tls: TlsOptions | None, *, after_steps: int) -> bool:
    """Whether the attempt was not complete after so many turns of the loop."""
    attempt = asyncio.create_task(RpcConnection.connect(address, tls=tls))
    for _ in range(after_steps):
        await asyncio.sleep(0)
    given_up = attempt.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await (await attempt).close()
    return given_up
