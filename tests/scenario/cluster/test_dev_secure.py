"""`pytubemq dev --secure`: one command starts a cluster that lets only identified users in, over TLS."""

from __future__ import annotations

import asyncio
import json
import socket
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import pytubemq
from pytubemq.errors import Code, ExitCode, TlsError
from pytubemq.model.ids import Address
from pytubemq.net.client.connection import RpcConnection
from pytubemq.wire.rpc.methods import Service
from tests.support.rpc_requests import REQUESTS, Asked, code_of, service_of

from .conftest import CommandLine, stop

if TYPE_CHECKING:
    from collections.abc import Mapping
    from subprocess import Popen

pytestmark = pytest.mark.scenario
TLS_PORTS = ("--set", "master.tls_port=0", "--set", "broker.tls_port=0")


def start(tube: CommandLine) -> tuple[Popen[bytes], dict[str, str]]:
    return tube.dev("--secure", *TLS_PORTS)


async def send_and_read(ready: Mapping[str, str], body: bytes) -> list[bytes]:
    """Send a message as the admin; return the messages that its group has not confirmed, and confirm them."""
    address = f"tls://{ready['master_tls']}?ca={ready['ca']}&user={ready['user']}&secret_file={ready['secret_file']}"
    found: list[bytes] = []
    async with pytubemq.connect(address) as tube:
        async with tube.producer("demo") as producer:
            await producer.send(body)
        async with tube.consumer("readers", "demo", start=pytubemq.Start.EARLIEST) as consumer:
            async for batch in consumer.batches(max_wait_s=0.2):
                found += [message.body for message in batch]
                await batch.confirm()
                if body in found:
                    return found
    return found


async def asked_by_a_stranger(ready: Mapping[str, str]) -> dict[str, int]:
    """The code of the response to each method's request from somebody without a user."""
    tls = pytubemq.TlsOptions(ca=ready["ca"])
    codes: dict[str, int] = {}
    for key, is_asked in (
        ("master_tls", {Service.MASTER}),
        ("broker_tls", {Service.BROKER_READ, Service.BROKER_WRITE}),
    ):
        connection = await RpcConnection.connect(Address.parse(ready[key]), tls=tls)
        for method in REQUESTS:
            if service_of(method) in is_asked:
                codes[method.name] = await code_of(connection, method, Asked(topic="demo"))
        await connection.close()
    return codes


def test_the_admin_gets_in_and_a_stranger_does_not(tube: CommandLine) -> None:
    process, ready = start(tube)
    assert not {"master", "broker"} & ready.keys(), "a port without TLS is open"
    assert asyncio.run(send_and_read(ready, b"one")) == [b"one"]
    codes = asyncio.run(asked_by_a_stranger(ready))
    assert len(codes) == len(REQUESTS)
    assert set(codes.values()) == {Code.CERTIFICATE_FAILURE}, codes
    for key in ("master_tls", "broker_tls"):  # who does not speak TLS gets nothing at all
        address = Address.parse(ready[key])
        with socket.create_connection((address.host, address.port), timeout=20) as raw:
            raw.sendall(b"\xff\x7f\xf4\xfe\x00\x00\x00\x01\x00\x00\x00\x00")
            assert b"\xff\x7f\xf4\xfe" not in raw.recv(100)
    with pytest.raises(TlsError):  # nor does who expects another CA
        asyncio.run(RpcConnection.connect(Address.parse(ready["master_tls"]), tls=other_ca(tube)))
    code, said = stop(process)
    assert code == ExitCode.DONE
    shown = said.partition('pytubemq.connect("')[2].partition('"')[0]
    assert shown.startswith(f"tls://{ready['master_tls']}?ca={ready['ca']}&user=admin&")
    assert Path(ready["secret_file"]).read_text().strip() not in said


def other_ca(tube: CommandLine) -> pytubemq.TlsOptions:
    assert tube("cert", "make", "others").returncode == ExitCode.DONE
    return pytubemq.TlsOptions(ca=str(tube.home / "others" / "ca.pem"))


def test_the_commands_that_it_names_work_with_its_profile(tube: CommandLine) -> None:
    _, ready = start(tube)
    assert tube("produce", "demo", "hello").returncode == ExitCode.DONE
    assert tube("consume", "demo", "-n", "1").stdout == b"hello\n"
    created = tube("user", "create", "billing", "-o", "json")
    assert created.returncode == ExitCode.DONE, created.stderr
    assert tube("permission", "grant", "billing", "consume", "topic", "demo").returncode == ExitCode.DONE
    assert tube("topic", "create", "orders").returncode == ExitCode.DONE
    without = tube("topic", "create", "more", "--http", f"{ready['http']}?ca={ready['ca']}")
    assert without.returncode != ExitCode.DONE
    assert b"token" in without.stderr
    health = json.loads(tube("cluster", "health", "-o", "json").stdout)
    assert (health["status"], health["insecure"]) == ("healthy", False)


def test_a_second_start_keeps_users_secrets_and_certificates(tube: CommandLine) -> None:
    process, ready = start(tube)
    assert tube("user", "create", "billing").returncode == ExitCode.DONE
    assert asyncio.run(send_and_read(ready, b"one")) == [b"one"]
    access = Path(ready["ca"]).parent
    before = {path.name: path.read_bytes() for path in access.iterdir()}
    for path in access.iterdir():
        if path.suffix != ".pem":
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    stop(process)
    _, again = start(tube)
    assert {path.name: path.read_bytes() for path in access.iterdir()} == before
    assert asyncio.run(send_and_read(again, b"two")) == [b"two"]
    assert b"billing" in tube("user", "list", "-o", "name").stdout


def test_what_it_sets_itself_is_refused(tube: CommandLine) -> None:
    refused = tube("dev", "--secure", "--set", "security.authentication=off", "--until-ready")
    assert refused.returncode == ExitCode.BAD_CONFIG
    assert b"--secure sets security.authentication" in refused.stderr


def test_a_secret_that_others_can_read_is_not_used(tube: CommandLine) -> None:
    process, ready = start(tube)
    stop(process)
    Path(ready["token_file"]).chmod(0o644)
    refused = tube("dev", "--secure", "--until-ready", *TLS_PORTS)
    assert refused.returncode == ExitCode.BAD_CONFIG
    assert b"chmod 600" in refused.stderr
