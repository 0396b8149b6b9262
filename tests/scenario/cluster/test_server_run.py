"""`pytubemq server run`: the roles in processes of their own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from functools import partial

import httpx
import pytest

from pytubemq.errors import ExitCode
from tests.support.ports import free_port
from tests.support.waiting import until_seen

from .conftest import CommandLine, stop

pytestmark = pytest.mark.scenario

ANY = "127.0.0.1:0"


def ready_line(process: subprocess.Popen[bytes]) -> dict[str, object]:
    assert process.stdout is not None
    found = json.loads(process.stdout.readline())
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("how", ["server", "dev"])
def test_who_waits_for_the_masters_port_can_create_a_topic_at_once(tube: CommandLine, how: str) -> None:
    for number in range(5):
        listen = {key: f"127.0.0.1:{free_port()}" for key in ("master.listen", "http.listen")}
        ports = [*listen.items(), ("broker.listen", ANY), ("broker.http_listen", ANY)]
        sets = [item for key, value in ports for item in ("--set", f"{key}={value}")]
        command = ("server", "run", "all", "--set", f"data=d{number}") if how == "server" else ("dev", "--data", "d")
        process = tube.start(*command, *sets)
        until_seen(partial(opened_or_ended, listen["master.listen"], process), timeout_s=60)
        assert process.poll() is None, process.communicate(timeout=60)[1].decode()
        made = httpx.post(
            f"http://{listen['http.listen']}/api/v1/topics", json={"name": f"t{number}", "partitions": 2}, timeout=60
        )
        assert made.status_code == 201, made.text
        code, said = stop(process)
        assert code == ExitCode.DONE, said


def opened_or_ended(address: str, process: subprocess.Popen[bytes]) -> bool:
    return opened(address) or process.poll() is not None


def opened(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError:
        return False
    return True


def test_a_topic_that_is_created_just_after_the_masters_start_waits_for_a_first_broker(tube: CommandLine) -> None:
    at = f"http://127.0.0.1:{free_port()}"
    waiting = tube.start("cluster", "health", "--wait", "60", "--http", at)
    listen = ("--set", f"master.listen={ANY}", "--set", f"http.listen={at.removeprefix('http://')}")
    where = ready_line(tube.start("server", "run", "master", "--set", "data=d", *listen))
    creating = tube.start("topic", "create", "t", "--http", at)
    broker = tube.start(
        "server", "run", "broker", "--set", "data=d", "--set", f"broker.listen={ANY}",
        "--set", f"broker.http_listen={ANY}", "--set", f"broker.masters={where['master']}",
    )  # fmt: skip
    assert ready_line(broker)["broker"]
    _, said = creating.communicate(timeout=60)
    assert (creating.returncode, b"created t" in said) == (ExitCode.DONE, True), said.decode()
    _, said = waiting.communicate(timeout=90)
    assert waiting.returncode == ExitCode.DONE, said.decode()


def test_master_and_broker_in_two_processes(tube: CommandLine) -> None:
    (tube.home / "master.toml").write_text(f'data = "d"\n[master]\nlisten = "{ANY}"\n[http]\nlisten = "{ANY}"\n')
    master = tube.start("server", "run", "master", "-c", "master.toml")
    where = ready_line(master)
    (tube.home / "broker.toml").write_text(
        f'data = "d"\n[broker]\nid = 3\nlisten = "{ANY}"\nhttp_listen = "{ANY}"\nmasters = ["{where["master"]}"]\n'
    )
    broker = tube.start("server", "run", "broker", "-c", "broker.toml")
    assert ready_line(broker)["broker"]
    at = ("--http", str(where["http"]))
    made = tube("topic", "create", "t", "-p", "2", "-o", "json", *at)
    assert made.returncode == ExitCode.DONE, made.stderr
    assert json.loads(made.stdout)["brokers"] == [3]
    assert tube("produce", "t", "x", "--master", str(where["master"])).returncode == ExitCode.DONE
    assert tube("consume", "t", "--master", str(where["master"])).stdout == b"x\n"
    # a Broker that is gone is seen, and health says so with its exit code
    assert stop(broker)[0] == ExitCode.DONE
    unhealthy = tube("cluster", "health", "-o", "json", *at)
    assert unhealthy.returncode == ExitCode.UNHEALTHY
    assert json.loads(unhealthy.stdout)["reasons"]
    assert stop(master)[0] == ExitCode.DONE


def test_all_in_one_process(tube: CommandLine) -> None:
    keys = ("master.listen", "broker.listen", "http.listen", "broker.http_listen")
    sets = [item for key in keys for item in ("--set", f"{key}={ANY}")]
    process = tube.start("server", "run", "all", *sets)
    assert {"ready", "master", "broker", "http", "broker_http", "pid"} == set(ready_line(process))
    assert stop(process)[0] == ExitCode.DONE


def test_a_child_ends_with_its_parent(tube: CommandLine) -> None:
    sets = [item for key in ("master", "http") for item in ("--set", f"{key}.listen={ANY}")]
    process = tube.start("server", "run", "master", "--stop-on-eof", *sets, stdin=subprocess.PIPE)
    ready_line(process)
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(timeout=60) == ExitCode.DONE


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[master]\nlistne = "127.0.0.1:1"\n', "did you mean 'master.listen'?"),
        ('[broker]\nid = "one"\n', "broker.id"),
        ("not toml", "not TOML"),
        ("not toml", "pytubemq server settings"),
        ("foo = 1", "pytubemq server settings"),
    ],
)
def test_bad_settings_end_with_78_and_say_why(tube: CommandLine, text: str, said: str) -> None:
    (tube.home / "bad.toml").write_text(text)
    found = tube("server", "run", "all", "-c", "bad.toml")
    assert found.returncode == ExitCode.BAD_CONFIG
    assert said in found.stderr.decode()
    assert "bad.toml" in found.stderr.decode()
    assert "Traceback" not in found.stderr.decode()
    assert not found.stdout


def test_a_taken_port_is_named(tube: CommandLine) -> None:
    sets = [item for key in ("master", "http") for item in ("--set", f"{key}.listen={ANY}")]
    process = tube.start("server", "run", "master", *sets)
    taken = str(ready_line(process)["master"])
    found = tube("server", "run", "master", "--set", f"master.listen={taken}", "--set", "data=elsewhere")
    assert found.returncode == ExitCode.BAD_CONFIG
    assert taken in found.stderr.decode()
    assert "in use" in found.stderr.decode()


@pytest.mark.parametrize("key", ["http.listen", "broker.http_listen"])
def test_a_taken_port_of_http_is_named_with_its_setting_and_owner(tube: CommandLine, key: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = "{}:{}".format(*taken.getsockname())
        sets = {"master.listen": ANY, "broker.listen": ANY, "http.listen": ANY, key: address}
        found = tube("server", "run", "all", *(item for pair in sets.items() for item in ("--set", "=".join(pair))))
    assert found.returncode == ExitCode.BAD_CONFIG
    said = found.stderr.decode()
    assert f"{key}: HTTP cannot listen on {address}: the port is in use by " in said
    assert f"(pid {os.getpid()})" in said
    assert f"set {key} to another one" in said


def test_two_masters_on_one_directory_are_refused(tube: CommandLine) -> None:
    sets = [item for key in ("master", "http") for item in ("--set", f"{key}.listen={ANY}")]
    ready_line(tube.start("server", "run", "master", *sets))
    found = tube("server", "run", "master", *sets)
    assert found.returncode == ExitCode.REFUSED
    assert "tubemq-data" in found.stderr.decode()
