"""TLS as a person sets it up by hand: certificates, servers in processes of their own, and the commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.scenario
COMMAND = [sys.executable, "-m", "pytubemq"]


def _environ(home: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTUBEMQ_")}
    return {**kept, "XDG_CONFIG_HOME": str(home / "config"), "NO_COLOR": "1"}


def run(home: Path, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*COMMAND, *arguments],
        input=stdin,
        capture_output=True,
        cwd=home,
        env=_environ(home),
        timeout=90,
        check=False,
    )


@pytest.fixture
def served(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The addresses of a server that runs with the certificates of `pytubemq cert make`."""
    made = run(tmp_path, "cert", "make", "certs", "-o", "json")
    assert made.returncode == ExitCode.DONE, made.stderr
    settings = {
        "data": "data",
        "master.listen": "127.0.0.1:0",
        "master.tls_port": "0",
        "broker.listen": "127.0.0.1:0",
        "broker.tls_port": "0",
        "broker.http_listen": "",
        "http.listen": "127.0.0.1:0",
        "tls.cert": "certs/server.pem",
        "tls.key": "certs/server.key",
        "tls.client_ca": "certs/ca.pem",
        "http.tls_cert": "certs/server.pem",
        "http.tls_key": "certs/server.key",
    }
    assignments = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    process = subprocess.Popen(
        [*COMMAND, "server", "run", "all", *assignments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=tmp_path,
        env=_environ(tmp_path),
    )
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_a_profile_over_tls_works_for_all_commands(tmp_path: Path, served: dict[str, str]) -> None:
    address = f"tls://{served['master_tls']}?ca=certs/ca.pem&cert=certs/client.pem&key=certs/client.key"
    added = run(tmp_path, "profile", "add", "safe", "--master", address, "--http", f"{served['http']}?ca=certs/ca.pem")
    assert added.returncode == ExitCode.DONE, added.stderr
    created = run(tmp_path, "topic", "create", "orders")
    assert created.returncode == ExitCode.DONE, created.stderr
    sent = run(tmp_path, "produce", "orders", stdin=b"one\ntwo\n")
    assert sent.returncode == ExitCode.DONE, sent.stderr
    read = run(tmp_path, "consume", "orders")
    assert sorted(read.stdout.split()) == [b"one", b"two"], read.stderr
    health = run(tmp_path, "cluster", "health")
    assert health.returncode == ExitCode.DONE, health.stderr


def test_each_wrong_address_has_one_clear_error(tmp_path: Path, served: dict[str, str]) -> None:
    nobody = run(tmp_path, "consume", "orders", "--master", f"tls://{served['master_tls']}?ca=certs/ca.pem")
    assert nobody.returncode == ExitCode.UNREACHABLE
    assert b"it demands a certificate" in nobody.stderr
    plain = run(tmp_path, "consume", "orders", "--master", f"tls://{served['master']}?ca=certs/ca.pem")
    assert plain.returncode == ExitCode.UNREACHABLE
    assert b"it does not speak TLS at this port" in plain.stderr
    missing = run(tmp_path, "consume", "orders", "--master", f"tls://{served['master_tls']}?ca=none.pem")
    assert missing.returncode == ExitCode.BAD_CONFIG
    assert b"the CA certificate none.pem cannot be read" in missing.stderr
    api = run(tmp_path, "topic", "list", "--http", f"{served['http']}?ca=certs/client.pem")
    assert api.returncode == ExitCode.UNREACHABLE
    assert b"signed by an unknown CA" in api.stderr
    unnamed = run(tmp_path, "topic", "list", "--http", served["http"])
    assert unnamed.returncode == ExitCode.BAD_CONFIG
    assert b"no CA is named" in unnamed.stderr
