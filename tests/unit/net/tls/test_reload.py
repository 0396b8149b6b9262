"""Certificates that change while connections are open."""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path

import pytest

from pytubemq.errors import TlsError
from pytubemq.net.client.connection import RpcConnection
from pytubemq.net.tls.reload import client_tls, following, reloading_server
from tests.support.certificates import Authority, server_files
from tests.support.waiting import until
from tests.unit.net.serving import ask
from tests.unit.net.tls.serving import serving_tls

pytestmark = pytest.mark.anyio


async def serial(address: tuple[str, int], ca: str, name: str | None = "127.0.0.1") -> bytes:
    """The certificate that a new connection is shown."""
    context = ssl.create_default_context(cafile=ca)
    context.check_hostname = name is not None
    _, writer = await asyncio.open_connection(*address, ssl=context, server_hostname=name or "")
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return bytes(shown)


def _content(path: str) -> bytes:
    return Path(path).read_bytes()


def _write(path: str, content: bytes) -> None:
    Path(path).write_bytes(content)


async def test_a_reload_under_load_drops_no_connection(authority: Authority) -> None:
    source = reloading_server(server_files(authority.issue()))
    async with serving_tls(source) as (server, _, secure):
        connections = [await RpcConnection.connect(secure, tls=authority.options()) for _ in range(10)]
        answered = 0
        stop = asyncio.Event()

        async def load(connection: RpcConnection) -> None:
            nonlocal answered
            while not stop.is_set():
                assert (await ask(connection)).success
                answered += 1

        tasks = [asyncio.create_task(load(connection)) for connection in connections]
        shown = {await serial((secure.host, secure.port), authority.path)}
        for _ in range(5):
            before = answered
            authority.issue()
            assert await asyncio.to_thread(source.reload)
            shown.add(await serial((secure.host, secure.port), authority.path))
            await until(lambda wanted: answered >= wanted, before + 20)
        stop.set()
        await asyncio.gather(*tasks)
        assert len(shown) == 6, "each new connection gets the newest certificate"
        assert source.reloads == 5
        assert not any(connection.closed for connection in connections)
        assert server.stats.faults == 0
        for connection in connections:
            await connection.close()


async def test_files_that_cannot_be_used_leave_the_earlier_ones_in_force(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    pair = authority.issue()
    source = reloading_server(server_files(pair))
    before = source.context
    assert not source.reload(), "nothing has changed"
    good = _content(pair.cert)
    _write(pair.cert, b"half a file")
    with caplog.at_level(logging.WARNING):
        assert not source.reload()
        assert not source.reload(), "once for each change"
    assert source.context is before
    assert source.problem is not None
    assert len(caplog.records) == 1
    assert f"the certificate {pair.cert} is not a PEM file" in caplog.text
    _write(pair.cert, good)
    assert source.reload()
    assert source.reloads == 1
    authority.issue("server", expired=True)
    assert not source.reload()
    assert "has expired" in (source.problem or "")


async def test_a_client_that_is_no_longer_trusted_is_refused_after_a_reload(
    authority: Authority, tmp_path: Path
) -> None:
    clients = Authority(tmp_path, "clients")
    source = reloading_server(server_files(authority.issue(), clients))
    options = authority.options(clients.issue("client"))
    async with serving_tls(source) as (_, _, secure):
        before = await RpcConnection.connect(secure, tls=options)
        assert (await ask(before)).success
        _write(clients.path, _content(authority.path))
        assert source.reload()
        after = await RpcConnection.connect(secure, tls=options)
        with pytest.raises(TlsError):
            await ask(after)
        assert (await ask(before)).success, "an open connection goes on"
        await before.close()
        await after.close()


async def test_a_server_that_keeps_one_context_follows_with_and_without_a_server_name(authority: Authority) -> None:
    source = reloading_server(server_files(authority.issue()))
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0, ssl=following(source))
    async with server:
        address = server.sockets[0].getsockname()[:2]
        shown = []
        for _ in range(2):
            for name in ("localhost", None):
                shown.append(await serial(address, authority.path, name))
            authority.issue()
            assert source.reload()
    assert shown[0] == shown[1] != shown[2] == shown[3]


def test_a_client_loads_its_files_again_when_they_change(authority: Authority) -> None:
    options = authority.options(authority.issue("client"))
    first = client_tls(options)
    assert client_tls(options) is first
    authority.issue("client")
    second = client_tls(options)
    assert second is not first
    assert client_tls(options) is second
