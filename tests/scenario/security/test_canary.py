"""Planted secrets looked for in all that server, client and command line show: logs at DEBUG, errors, HTTP, metrics."""

from __future__ import annotations

import base64
import json
import logging
import os
import subprocess
import sys
import traceback
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, NamedTuple

import pytest

import pytubemq.sync
from pytubemq import Credentials
from pytubemq.errors import NotAllowedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.scenario, pytest.mark.timeout(180)]

TOKEN = "canary-of-http-p3Xv0aWq7ZkR_tB9mYcD2gLs"
WRONG = "canary-of-a-wrong-secret-0123456789abcdef"
PAGES = (
    "/", "/metrics", "/health", "/api/v1/health", "/api/v1/cluster", "/api/v1/cluster/defaults", "/api/v1/users",
    "/api/v1/users/ann", "/api/v1/topics", "/api/v1/topics/demo", "/api/v1/brokers", "/api/v1/groups",
    "/api/v1/nothing", "/api/v1/openapi.json",
    f"/webapi.htm?method=admin_query_cluster_info&confModAuthToken={TOKEN}",
    f"/webapi.htm?method=admin_nothing&confModAuthToken={TOKEN}",
)  # fmt: skip


class Server(NamedTuple):
    ready: dict[str, str]
    home: Path

    def command(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[bytes]:
        """The result of one command, with all that it can say."""
        command = [sys.executable, "-m", "pytubemq", *arguments, "-v"]
        return subprocess.run(command, env={**self._environ(), **environ}, capture_output=True, timeout=60, check=False)

    def _environ(self) -> dict[str, str]:
        own = {"HOME": str(self.home), "XDG_CONFIG_HOME": str(self.home), "PYTUBEMQ_TOKEN": TOKEN}
        return {name: text for name, text in os.environ.items() if not name.startswith("PYTUBEMQ_")} | own

    def answers(self, path: str, *, token: str = "") -> bytes:
        """The headers and the body of an answer, whatever its status."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        request = urllib.request.Request(self.ready["http"] + path, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return bytes(response.headers) + response.read()  # type: ignore[no-any-return]
        except urllib.error.HTTPError as error:
            with error:
                return bytes(error.headers) + error.read()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A Master and a Broker in a process of their own, with a log at DEBUG."""
    settings = tmp_path / "settings.toml"
    settings.touch(mode=0o600)
    settings.write_text(f"""
        data = "{tmp_path / "data"}"
        [log]
        level = "debug"
        [master]
        listen = "127.0.0.1:0"
        [broker]
        listen = "127.0.0.1:0"
        http_listen = "127.0.0.1:0"
        [http]
        listen = "127.0.0.1:0"
        token = "{TOKEN}"
        token_in_url = true
        [security]
        authentication = "enforced"
    """)
    command = [sys.executable, "-m", "pytubemq", "server", "run", "all", "--config", str(settings)]
    with (tmp_path / "server.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, env={**os.environ, "HOME": str(tmp_path)}
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, (tmp_path / "server.log").read_text()
        yield Server(json.loads(line), tmp_path)
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


def test_no_secret_is_shown_by_anybody(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    http = ("--http", server.ready["http"])
    created = server.command("user", "create", "ann", *http, "-o", "json")
    assert created.returncode == 0, created.stderr
    secret = json.loads(created.stdout)["secret"]
    for words in ("produce topic demo", "consume topic demo", "consume group g"):
        granted = server.command("permission", "grant", "ann", *words.split(), *http)
        assert granted.returncode == 0, granted.stderr
    made = server.command("topic", "create", "demo", *http)
    assert made.returncode == 0, made.stderr
    shown = {"topic create": made.stdout + made.stderr, "user create": created.stderr}
    shown |= of_commands(server, secret)
    shown |= of_client(server.ready["master"], secret)
    shown |= {f"HTTP {path}": server.answers(path, token=TOKEN) for path in PAGES}
    shown |= {f"HTTP without token {path}": server.answers(path) for path in PAGES}
    shown |= {"log of the client": caplog.text.encode(), "log of the server": (server.home / "server.log").read_bytes()}
    assert b"DEBUG" in shown["log of the server"]
    hidden = {
        "the secret": secret.encode(),
        "a wrong secret": WRONG.encode(),
        "the token of HTTP": TOKEN.encode(),
        "the root key": (server.home / "data" / "master" / "root.key").read_bytes().strip(),
        "a client's token": b"." + base64.urlsafe_b64encode(b"ann").rstrip(b"=") + b".",
    }
    assert [(what, where) for where, text in shown.items() for what, text_of in hidden.items() if text_of in text] == []


def of_commands(server: Server, secret: str) -> dict[str, bytes]:
    """What produce and consume say, with the secret by file and by variable, and with a wrong one."""
    files = {}
    for name, text in (("right", secret), ("wrong", WRONG)):
        files[name] = server.home / f"{name}.secret"
        files[name].touch(mode=0o600)
        files[name].write_text(text)
    at = ("--master", server.ready["master"])
    by_file = (*at, "--user", "ann", "--secret-file")
    done = {
        "produce": server.command("produce", "demo", "x", *by_file, str(files["right"])),
        "consume": server.command("consume", "demo", *at, PYTUBEMQ_USER="ann", PYTUBEMQ_SECRET=secret),
        "bench": server.command(
            "bench", "produce", "--topic", "demo", "--messages", "200", *by_file, str(files["right"])
        ),
        "consume in a group": server.command(
            "consume", "demo", "--group", "g", "-n", "1", *by_file, str(files["right"])
        ),
    }
    assert [(name, one.stderr) for name, one in done.items() if one.returncode] == []
    assert b"x" in done["consume"].stdout
    refused = {
        "wrong": server.command("produce", "demo", "x", *by_file, str(files["wrong"])),
        "wrong by variable": server.command("consume", "demo", *at, PYTUBEMQ_USER="ann", PYTUBEMQ_SECRET=WRONG),
        "in the address": server.command("produce", "demo", "x", "--master", f"ann:{WRONG}@{server.ready['master']}"),
    }
    assert all(one.returncode for one in refused.values())
    assert all(b"the user or its secret is wrong" in refused[name].stderr for name in ("wrong", "wrong by variable"))
    return {name: one.stdout + one.stderr for name, one in {**done, **refused}.items()}


def of_client(master: str, secret: str) -> dict[str, bytes]:
    """What a client's objects and the tracebacks of its errors show."""
    shown = {}
    credentials = Credentials.of("ann", secret)
    with pytubemq.sync.connect(master, credentials=credentials) as tube:
        tube.partitions("demo")
        shown["objects"] = f"{credentials!r} {credentials} {tube!r} {tube.known!r} {tube._tube._options!r}".encode()
        try:
            tube.partitions("other")
        except NotAllowedError as error:
            shown["traceback of a missing permission"] = everything(error)
    try:
        with pytubemq.sync.connect(master, credentials=Credentials.of("ann", WRONG)) as tube:
            tube.partitions("demo")
    except NotAllowedError as error:
        shown["traceback of a wrong secret"] = everything(error)
    assert len(shown) == 3
    return shown


def everything(error: BaseException) -> bytes:
    """A traceback with the local variables of each frame but the test's own, which has the secret."""
    assert error.__traceback__ is not None
    own = traceback.TracebackException(type(error), error, error.__traceback__.tb_next, capture_locals=True)
    return "".join(own.format()).encode()
