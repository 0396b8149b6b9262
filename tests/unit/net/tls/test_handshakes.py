"""TLS connections on real sockets: which come about, and what is said of those that do not."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import ConnectionLostError, TlsError, TubeError, UnreachableError
from pytubemq.model.ids import Address
from pytubemq.net.client.blocking import BlockingConnection
from pytubemq.net.client.connection import RpcConnection
from tests.support.certificates import CLIENT_ONLY, SERVER_ONLY, Authority, server_files
from tests.support.waiting import until
from tests.unit.net.serving import answer_ok, ask, serving
from tests.unit.net.tls.serving import serving_tls, unchecked

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from pytubemq.model.tls_options import TlsOptions
    from pytubemq.net.server.call import Call
    from pytubemq.net.server.server import RpcServer
    from tests.support.certificates import Pair

pytestmark = pytest.mark.anyio


async def refusal(address: Address, options: TlsOptions) -> TubeError:
    """The error of a client that connects and asks; the blocking client gets the same."""
    with pytest.raises(TubeError) as caught:
        await _ask_once(address, options)
    with pytest.raises(TubeError) as blocking:
        await asyncio.to_thread(
            lambda: BlockingConnection.connect(
                address, client_id="c", auth_info=None, request_timeout_s=5.0, tls=options
            ).close()
        )
    assert type(blocking.value) is type(caught.value)
    assert blocking.value.message == caught.value.message
    return caught.value


def _is_empty(server: RpcServer) -> bool:
    return not server.connections


async def _ask_once(address: Address, options: TlsOptions) -> None:
    connection = await RpcConnection.connect(address, tls=options)
    try:
        await ask(connection)
    finally:
        await connection.close()


async def test_requests_over_tls_and_plain_ones_are_served_side_by_side(authority: Authority) -> None:
    seen: list[tuple[bool, str | None]] = []

    def note(call: Call) -> None:
        seen.append((call.connection.is_tls, getattr(call.connection, "peer_name", None)))
        answer_ok(call)

    async with serving_tls(server_files(authority.issue()), note) as (server, plain, secure):
        for connection in (
            await RpcConnection.connect(plain),
            await RpcConnection.connect(secure, tls=authority.options()),
            await RpcConnection.connect(Address("localhost", secure.port), tls=authority.options()),
        ):
            assert (await ask(connection)).success
            await connection.close()
        await until(lambda: server.stats.connections == 0)
    assert seen == [(False, None), (True, None), (True, None)]


async def test_a_client_shows_its_certificate_where_it_is_demanded(authority: Authority) -> None:
    names: list[str | None] = []

    def note(call: Call) -> None:
        names.append(getattr(call.connection, "peer_name", None))
        answer_ok(call)

    async with serving_tls(server_files(authority.issue(), authority), note) as (_, _, secure):
        client = authority.issue("client", "orders.example", common_name="orders")
        connection = await RpcConnection.connect(secure, tls=authority.options(client))
        assert (await ask(connection)).success
        await connection.close()
    assert names == ["orders"]


async def test_a_client_refuses_a_server_by_its_certificate(authority: Authority, tmp_path: Path) -> None:
    strangers = Authority(tmp_path, "strangers")
    cases: list[tuple[Pair, TlsOptions, str]] = [
        (authority.issue("expired", expired=True), authority.options(), "its certificate has expired"),
        (authority.issue("elsewhere", "elsewhere.example"), authority.options(), "its certificate names another"),
        (authority.issue(), authority.options(server_name="other"), "its certificate names another host"),
        (strangers.issue(), authority.options(), "its certificate is signed by an unknown CA"),
        (authority.issue_for(CLIENT_ONLY, "a-client"), authority.options(), "its certificate is for another use"),
    ]
    for pair, options, words in cases:
        async with serving_tls(unchecked(pair)) as (server, _, secure):
            error = await refusal(secure, options)
            assert isinstance(error, TlsError), error
            assert not error.retriable
            assert f"no TLS connection to {secure}: {words}" in error.message
            assert error.hint
            assert "expired" not in words or "`pytubemq cert make`" in error.hint
            await until(_is_empty, server)


async def test_a_server_refuses_a_client_by_its_certificate(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytubemq.net.tls.contexts._try_out", lambda *args, **kwargs: None)
    strangers = Authority(tmp_path, "strangers")
    cases: list[tuple[Pair | None, str, str]] = [
        (None, "it demands a certificate", "it has shown no certificate"),
        (authority.issue("old", expired=True), "our certificate has expired", "its certificate has expired"),
        (strangers.issue("client"), "it does not know the CA of our certificate", "signed by an unknown CA"),
        (authority.issue_for(SERVER_ONLY, "s"), "our certificate is for another use", "is for another use"),
    ]
    async with serving_tls(server_files(authority.issue(), authority)) as (server, _, secure):
        for pair, ours, theirs in cases:
            caplog.clear()
            error = await refusal(secure, authority.options(pair))
            assert isinstance(error, TlsError), error
            assert ours in error.message
            await until(lambda: not server.connections)
            assert (
                f"TLS: {theirs}" in caplog.text.replace("TLS: its certificate is", "TLS: is") or theirs in caplog.text
            )
        assert server.stats.calls == 0


async def test_a_plain_port_spoken_to_with_tls_says_so_at_once(authority: Authority) -> None:
    async with serving() as (_, address):
        error = await refusal(address, authority.options())
    assert isinstance(error, TlsError)
    assert "it does not speak TLS at this port" in error.message
    assert error.hint is not None
    assert "the TLS port" in error.hint


async def test_a_tls_port_spoken_to_without_tls_ends_the_connection(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving_tls(server_files(authority.issue())) as (server, _, secure):
        connection = await RpcConnection.connect(secure)
        with pytest.raises(ConnectionLostError):
            await ask(connection)
        await until(lambda: not server.connections)
    assert "TLS: it does not speak TLS at this port" in caplog.text


async def test_a_peer_that_never_answers_the_handshake_is_given_up(authority: Authority) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = Address(*silent.getsockname()[:2])
        with pytest.raises(UnreachableError, match=r"no TLS connection to .*: nothing responds within"):
            await RpcConnection.connect(address, tls=authority.options(), timeout_s=0.2)
        with pytest.raises(UnreachableError, match=r"no TLS connection to .*: nothing responds within"):
            await asyncio.to_thread(
                lambda: BlockingConnection.connect(
                    address,
                    client_id="c",
                    auth_info=None,
                    request_timeout_s=5.0,
                    connect_timeout_s=0.2,
                    tls=authority.options(),
                )
            )


async def test_a_handshake_that_stalls_is_ended(authority: Authority, caplog: pytest.LogCaptureFixture) -> None:
    async with serving_tls(server_files(authority.issue()), handshake_timeout_s=0.2) as (server, _, secure):
        reader, writer = await asyncio.open_connection(secure.host, secure.port)
        await until(lambda: len(server.connections) == 1)
        async with asyncio.timeout(10):
            assert await reader.read() == b""
        await until(lambda: not server.connections)
        writer.close()
    assert "the TLS handshake was not over within 0.2 s" in caplog.text
    assert server.stats.faults == 1


@contextlib.asynccontextmanager
async def _stalled(address: Address, count: int) -> AsyncIterator[None]:
    writers = [(await asyncio.open_connection(address.host, address.port))[1] for _ in range(count)]
    try:
        yield
    finally:
        for writer in writers:
            writer.close()


async def test_stalled_handshakes_are_within_the_limit_of_connections_and_make_room(authority: Authority) -> None:
    async with (
        serving_tls(server_files(authority.issue()), max_connections=10) as (server, plain, secure),
        _stalled(secure, 30),
    ):
        await until(lambda: server.stats.accepted == 30)
        assert len(server.connections) == 10
        connection = await RpcConnection.connect(secure, tls=authority.options())
        assert (await ask(connection)).success
        other = await RpcConnection.connect(plain)
        assert (await ask(other)).success
        assert len(server.connections) == 10
        assert server.stats.refused == 0
        for one in (connection, other):
            await one.close()


async def test_a_peer_that_goes_away_before_the_handshake_is_no_fault(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with serving_tls(server_files(authority.issue())) as (server, _, secure):
            for _ in range(20):
                _, writer = await asyncio.open_connection(secure.host, secure.port)
                writer.close()
            await until(lambda: server.stats.accepted == 20 and not server.connections)
    assert not caplog.records
    assert server.stats.faults == 0


HOSTILE: tuple[Callable[[int], bytes], ...] = (
    lambda number: bytes((number * 7 + at * 31) % 256 for at in range(300)),
    lambda number: b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    lambda number: b"\x16\x03\x01\xff\xff" + bytes(number),
    lambda number: b"\x16\x03\x01\x00\x05\x01\x00\xff\xff\xff" + bytes(number),
    lambda number: b"\x15\x03\x01\x00\x02\x02\x28",
    lambda number: b"\x80\x2e\x01\x03\x01" + bytes(60),
    lambda number: b"\xff\x7f\xf4\xfe" + bytes(number),
    lambda number: b"\x17\x03\x03\x40\x00" + bytes(200),
)


async def test_hostile_bytes_at_the_tls_port_end_their_own_connection_only(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving_tls(server_files(authority.issue()), handshake_timeout_s=1.0) as (server, _, secure):
        honest = await RpcConnection.connect(secure, tls=authority.options())
        for number in range(5):
            for make in HOSTILE:
                reader, writer = await asyncio.open_connection(secure.host, secure.port)
                writer.write(make(number))
                with contextlib.suppress(ConnectionError):
                    await writer.drain()
                if number % 2:
                    writer.write_eof()
                async with asyncio.timeout(10):
                    with contextlib.suppress(ConnectionError):
                        await reader.read()
                writer.close()
            assert (await ask(honest)).success
        await until(lambda: len(server.connections) == 1)
        await honest.close()
    assert "Traceback" not in caplog.text
    ours = [record for record in caplog.records if record.name.startswith("pytubemq")]
    assert all(record.levelno < logging.ERROR for record in ours), caplog.text


async def test_a_stop_ends_handshakes_that_are_not_over(authority: Authority) -> None:
    async with serving_tls(server_files(authority.issue())) as (server, _, secure), _stalled(secure, 3):
        await until(lambda: len(server.connections) == 3)
        async with asyncio.timeout(5):
            await server.close()
        assert not server.connections
