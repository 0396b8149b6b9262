"""`pytubemq dev` as a person uses it: start, stop, start again, twice at once, on taken ports."""

from __future__ import annotations

import json
import re
import signal
import socket
from pathlib import Path

import pytest

from pytubemq.errors import ExitCode
from pytubemq.model.ids import Address

from .conftest import CommandLine, stop

pytestmark = pytest.mark.scenario


def test_the_first_three_commands(tube: CommandLine) -> None:
    process, ready = tube.dev()
    assert set(ready) == {"master", "broker", "http", "broker_http", "data", "profile"}
    # no address is named: the profile that `dev` wrote tells
    sent = tube("produce", "demo", stdin=b"one\ntwo\nthree\n")
    assert sent.returncode == ExitCode.DONE, sent.stderr
    read = tube("consume", "demo")
    assert sorted(read.stdout.split(b"\n")) == [b"", b"one", b"three", b"two"]
    health = tube("cluster", "health", "-o", "json")
    assert (health.returncode, json.loads(health.stdout)["status"]) == (ExitCode.DONE, "healthy")
    code, said = stop(process)
    assert code == ExitCode.DONE, said
    assert "Next, in another terminal:" in said
    assert "kept in tubemq-dev" in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_stops_cleanly_and_leaves_nothing_behind(tube: CommandLine, number: int) -> None:
    process, ready = tube.dev()
    code, said = stop(process, number)
    assert code == ExitCode.DONE, said
    for key in ("master", "broker"):
        address = Address.parse(ready[key])
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((address.host, address.port), timeout=5).close()
    gone = tube("topic", "list", "--http", ready["http"])
    assert gone.returncode == ExitCode.UNREACHABLE
    assert b"pytubemq dev" in gone.stderr
    assert json.loads(tube("profile", "list", "-o", "json").stdout) == []


def test_a_second_start_goes_on_where_the_first_stopped(tube: CommandLine) -> None:
    process, _ = tube.dev()
    assert tube("topic", "create", "mine", "--partitions", "2").returncode == ExitCode.DONE
    assert tube("produce", "mine", "kept").returncode == ExitCode.DONE
    stop(process)
    process, _ = tube.dev()
    assert tube("consume", "mine").stdout == b"kept\n"
    assert tube("produce", "mine", "more").returncode == ExitCode.DONE
    assert sorted(tube("consume", "mine").stdout.split()) == [b"kept", b"more"]
    assert tube("topic", "list", "-o", "name").stdout.split() == [b"demo", b"mine"]


def test_it_goes_on_after_a_power_cut_of_the_process(tube: CommandLine) -> None:
    process, _ = tube.dev()
    assert tube("produce", "demo", "acknowledged").returncode == ExitCode.DONE
    process.kill()
    process.communicate()
    tube.dev()
    assert tube("consume", "demo").stdout == b"acknowledged\n"


def test_two_on_one_directory_are_refused(tube: CommandLine) -> None:
    first, _ = tube.dev("--data", "here")
    second = tube("dev", "--data", "here", "--until-ready")
    assert second.returncode == ExitCode.REFUSED
    said = second.stderr.decode()
    assert f"process {first.pid}" in said
    assert str(tube.home / "here") in said
    assert said.splitlines()[-1].endswith("pytubemq dev --data DIR")
    assert "Traceback" not in said
    # the first has noticed nothing
    assert tube("produce", "demo", "still here").returncode == ExitCode.DONE


def test_a_port_that_was_given_and_is_taken_is_an_error(tube: CommandLine) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        found = tube(
            "dev", "--until-ready", "-o", "json", "--set", f"master.listen=127.0.0.1:{port}",
            "--set", "broker.listen=127.0.0.1:0", "--set", "http.listen=127.0.0.1:0",
            "--set", "broker.http_listen=127.0.0.1:0",
        )  # fmt: skip
    assert found.returncode == ExitCode.BAD_CONFIG, found.stderr
    assert f"master.listen: port {port} of 127.0.0.1:{port} is in use".encode() in found.stderr
    assert found.stdout == b""


def test_an_unwritable_directory_is_named(tube: CommandLine) -> None:
    (tube.home / "file").write_text("in the way")
    found = tube("dev", "--data", "file/below", "--until-ready")
    assert found.returncode == ExitCode.BAD_CONFIG
    assert str(Path("file/below")) in found.stderr.decode()
    assert "--data" in found.stderr.decode()


def test_listening_on_all_addresses_is_refused(tube: CommandLine) -> None:
    found = tube("dev", "--until-ready", environ={"PYTUBEMQ_HTTP__LISTEN": "0.0.0.0:0"})
    assert found.returncode == ExitCode.BAD_CONFIG
    assert "insecure = true" in found.stderr.decode()


def test_ephemeral_keeps_nothing(tube: CommandLine) -> None:
    process, ready = tube.dev("--ephemeral")
    assert Path(ready["data"]).is_dir()
    stop(process)
    assert not Path(ready["data"]).exists()


def test_two_at_once_have_a_profile_each(tube: CommandLine) -> None:
    tube("profile", "add", "prod", "--master", "a:1", "--http", "http://a:2")
    first, ready = tube.dev("--data", "one")
    assert ready["profile"] == "dev"
    second, other = tube.dev("--data", "two")
    assert other["profile"] == "dev-2"
    assert tube("produce", "demo", "to the first").returncode == ExitCode.DONE
    assert tube("consume", "demo", "-P", "dev-2").stdout == b""
    assert "-P dev-2" in stop(second)[1]
    assert tube("consume", "demo").stdout == b"to the first\n"
    stop(first)
    left = json.loads(tube("profile", "list", "-o", "json").stdout)
    assert [(profile["name"], profile["current"]) for profile in left] == [("prod", True)]


def test_a_profile_that_a_killed_one_left_is_taken_over(tube: CommandLine) -> None:
    process, _ = tube.dev("--data", "one")
    process.kill()
    process.communicate()
    second, ready = tube.dev("--data", "two")
    assert ready["profile"] == "dev"
    stop(second)
    assert json.loads(tube("profile", "list", "-o", "json").stdout) == []


def test_a_directory_and_none_is_a_contradiction(tube: CommandLine) -> None:
    found = tube("dev", "--data", "here", "--ephemeral")
    assert found.returncode == ExitCode.USAGE
    assert b"give one of them" in found.stderr
    assert not (tube.home / "here").exists()


@pytest.mark.parametrize("pattern", ["meta.db*", "meta.*"], ids=["its seal is left", "nothing is left"])
def test_lost_metadata_comes_back_by_the_advice_of_the_program(tube: CommandLine, pattern: str) -> None:
    process, _ = tube.dev()
    assert tube("topic", "create", "mine", "--partitions", "2").returncode == ExitCode.DONE
    for topic in ("demo", "mine"):
        assert tube("produce", topic, f"in {topic}").returncode == ExitCode.DONE
    stop(process)
    for path in (tube.home / "tubemq-dev" / "master").glob(pattern):
        path.unlink()
    if pattern == "meta.db*":
        refused = tube("dev", "--until-ready")
        assert b"TUBE-corrupt" in refused.stderr
        repaired = tube(*advised(refused.stderr, "store metadata"))
        assert (repaired.returncode, b"kept 0 records" in repaired.stderr) == (ExitCode.DONE, True), repaired.stderr
        advice = advised(repaired.stderr, "cluster adopt")
    else:
        advice = ["cluster", "adopt"]
    process, _ = tube.dev()
    health = tube("cluster", "health", "-o", "json")
    assert health.returncode == ExitCode.UNHEALTHY
    assert tube(*advice).returncode == ExitCode.DONE
    assert tube("topic", "list", "-o", "name").stdout.split() == [b"demo", b"mine"]
    assert [tube("consume", topic).stdout for topic in ("demo", "mine")] == [b"in demo\n", b"in mine\n"]
    assert tube("produce", "mine", "more").returncode == ExitCode.DONE
    _, said = stop(process)
    note = next(line for line in said.splitlines() if line.startswith("  ! broker 1"))
    assert "it has topics that this Master does not know (demo, mine)" in note
    assert "pytubemq cluster adopt" in note
    assert "! topic     demo does not exist" in said
    process, _ = tube.dev()
    assert "  ! " not in stop(process)[1]


def advised(said: bytes, command: str) -> list[str]:
    """Return the words of the command that a text recommends."""
    text = said.decode()
    begin = text.index(f"pytubemq {command}")
    return re.split(r"[`\n:]", text[begin:])[0].split()[1:]


def test_it_says_what_a_change_over_http_needs(tube: CommandLine) -> None:
    token = "a-token-that-nobody-guesses-0123456789"
    process, _ = tube.dev("--set", f"http.token={token}")
    _, said = stop(process)
    assert "changes need the token (PYTUBEMQ_TOKEN)" in said
    assert token not in said
    process, _ = tube.dev("--set", "insecure=true")
    _, said = stop(process)
    assert "insecure = true, no TLS and no login" in said
    assert "loopback only" not in said


def test_a_directory_of_another_broker_id_is_told(tube: CommandLine) -> None:
    process, first = tube.dev("--set", "broker.id=5")
    code, said = stop(process)
    assert code == ExitCode.DONE
    assert f"✓ broker 5  {first['broker']}" in said
    assert "broker 1" not in said
    process, ready = tube.dev("--set", f"broker.listen={first['broker']}")
    read = tube("consume", "demo")
    _, said = stop(process)
    assert "! topic     demo, 4 partitions, of which those of Broker 5 are away" in said
    assert "this directory was made with broker.id 5" in said
    assert "--set broker.id=5" in said
    assert "! broker 5" not in said
    assert "Next, in another" not in said
    assert ready["broker"] == first["broker"]
    assert read.returncode == ExitCode.NOT_FOUND
    assert f"try   Broker 5 at {first['broker']} is probably away".encode() in read.stderr
