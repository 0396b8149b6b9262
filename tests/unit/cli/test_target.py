"""Whose address a command works with, and what is said of it when nobody answers there."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytubemq.cli.commands.produce.produce import check_some_answer
from pytubemq.cli.options import GlobalOptions
from pytubemq.cli.output.waiting import asking
from pytubemq.cli.target import masters, shown_masters
from pytubemq.errors import ExitCode, UnreachableError
from pytubemq.model.ids import Address, BrokerInfo, Partition
from pytubemq.server.profiles import Profile, save_profile
from tests.unit.cli.conftest import Ran

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.fake_api import FakeApi

Tube = Callable[..., Ran]

NOBODY = "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("name", "master", "http", "said"),
    [
        ("prod", "foo:99999", "http://x", "not an address: 'foo:99999'"),
        ("prod", "foo:1,bar:0", "http://x", "nothing listens on port 0"),
        ("prod", "http://foo:1", "http://x", "without http://"),
        ("prod", " ", "http://x", "no Master address given"),
        ("prod", "foo:1", "ftp://x", "not a URL of the JSON API: 'ftp://x'"),
        ("prod", "foo:1", "http://x:99999", "not a URL of the JSON API: 'http://x:99999'"),
        ("prod", "foo:1", "http://x:0", "not a URL of the JSON API: 'http://x:0'"),
        ("prod", "foo:1", "http://ann:pssst@x", "the URL of the JSON API has an @ in it"),
        ("prod", "foo:1", "https://x?ca=f&token=pssst", "has a secret in it"),
        ("prod", "foo:1", "x?password=pssst", "has a secret in it"),
        ("prod", "foo:1", "https://x?caa=pssst", "unknown option 'caa'; did you mean ca?"),
        ("prod", "foo:1", "http://x?ca=f", "has ca without https:// before it"),
        ("prod", "foo:1", "https://x?ca=f&token_file=/none", "the token file /none cannot be read"),
        ("a b", "foo:1", "http://x", "not a name for a profile: 'a b'"),
        ("", "foo:1", "http://x", "not a name for a profile: ''"),
        ("-", "foo:1", "http://x", "not a name for a profile: '-'"),
    ],
)
def test_a_profile_that_cannot_be_used_is_not_saved(tube: Tube, name: str, master: str, http: str, said: str) -> None:
    found = tube("profile", "add", name, "--master", master, "--http", http)
    assert (found.code, found.out) == (ExitCode.USAGE, "")
    assert said in found.err
    assert "pssst" not in found.err
    assert json.loads(tube("profile", "list", "-o", "json").out) == []


def test_a_profile_takes_several_masters_and_a_bare_http_address(tube: Tube, api: FakeApi) -> None:
    assert tube("profile", "add", "a-1.b_c", "--master", "m:1,n", "--http", api.url[7:]).code == ExitCode.DONE
    assert tube("topic", "list").code == ExitCode.DONE


def test_it_is_said_whose_address_it_is_where_nobody_answers(tube: Tube, api: FakeApi) -> None:
    tube("profile", "add", "away", "--master", "127.0.0.1:1", "--http", NOBODY)
    alone = tube("topic", "list")
    assert alone.code == ExitCode.UNREACHABLE
    assert "the address is that of profile 'away'; check that its cluster runs" in alone.err
    tube("profile", "add", "aaa", "--master", "127.0.0.1:1", "--http", api.url)
    tube("profile", "add", "dev", "--master", "127.0.0.1:1", "--http", api.url)
    named = tube("topic", "list", "-P", "away")
    assert "profile 'away', which -P or PYTUBEMQ_PROFILE names; there are also: dev, aaa" in named.err
    tube("profile", "use", "away")
    for arguments in (("topic", "list"), ("produce", "demo", "hi"), ("consume", "demo")):
        found = tube(*arguments)
        assert found.code == ExitCode.UNREACHABLE
        last = found.err.splitlines()[-1]
        assert last.startswith("  try   the address is that of profile 'away'; for another one:  ")
        assert last.endswith("pytubemq profile use dev")
    given = tube("topic", "list", "--http", NOBODY)
    assert "profile" not in given.err, "who gave the address knows it"


def test_it_is_said_whose_address_it_is_where_something_else_answers(tube: Tube, api: FakeApi) -> None:
    api.answers["/api/v1/topics"] = (200, {"result": False, "errCode": 400, "errMsg": "m"})
    tube("profile", "add", "wrong", "--master", "127.0.0.1:1", "--http", api.url)
    found = tube("topic", "list")
    assert "port 8080 unless it was set otherwise; the address is that of profile 'wrong'" in found.err
    missing = tube("topic", "show", "nope")
    assert missing.code == ExitCode.NOT_FOUND
    assert "profile" not in missing.err


def test_a_master_that_does_not_answer_is_said_to_be_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    async def ask(*, said_after_s: float) -> None:
        async with asking(GlobalOptions(), "m:1", "demo", said_after_s=said_after_s):
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    asyncio.run(ask(said_after_s=3600))
    assert capsys.readouterr().err == ""
    asyncio.run(ask(said_after_s=0))
    assert capsys.readouterr().err == (
        "waiting for the Master at m:1 to name a running Broker of topic 'demo', up to 10 s (--timeout)\n"
    )


@pytest.mark.parametrize("arguments", [("produce", "demo", "hi"), ("consume", "demo")])
def test_what_lies_behind_an_error_is_not_its_own_text_again(tube: Tube, arguments: tuple[str, ...]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        master = f"127.0.0.1:{silent.getsockname()[1]}"
        found = tube(*arguments, "--master", master, "--timeout", "0.2")
    assert found.code == ExitCode.UNREACHABLE
    head, *rest = found.err.splitlines()
    assert master in head
    assert not [line for line in rest if line.startswith("  why") and line[8:] in head]


def test_dev_takes_its_directory_by_its_own_option_alone(tube: Tube) -> None:
    found = tube("dev", "--set", "data=elsewhere", "--until-ready")
    assert (found.code, found.out) == (ExitCode.USAGE, "")
    assert "with --data DIR" in found.err


def test_a_cluster_of_dev_that_was_killed_is_started_again(tube: Tube, tmp_path: Path) -> None:
    save_profile(Profile("dev", "127.0.0.1:1", NOBODY, str(tmp_path / "gone")))
    alone = tube("topic", "list")
    assert alone.err.splitlines()[-1].endswith("of profile 'dev'; start it:  pytubemq dev")
    save_profile(Profile("dev-2", "127.0.0.1:1", NOBODY, str(tmp_path)))
    other = tube("topic", "list")
    assert f"; start it:  pytubemq dev --data {tmp_path}; for another one:  pytubemq profile use dev" in other.err


def test_a_profile_is_removed(tube: Tube) -> None:
    tube("profile", "add", "one", "--master", "127.0.0.1:1", "--http", NOBODY)
    tube("profile", "add", "two", "--master", "127.0.0.1:1", "--http", NOBODY)
    found = tube("profile", "remove", "two")
    assert (found.code, found.out) == (ExitCode.DONE, "")
    assert "it was the current one" in found.err
    assert "pytubemq profile use one" in found.err
    assert [row["name"] for row in json.loads(tube("profile", "list", "-o", "json").out)] == ["one"]
    assert tube("profile", "remove", "two").code == ExitCode.BAD_CONFIG


def test_where_no_profile_is_current_an_error_leads_to_one(tube: Tube, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytubemq.cli.target.LOCAL", Profile("local", "127.0.0.1:1", NOBODY))
    assert "start a cluster with  pytubemq dev" in tube("topic", "list").err
    tube("profile", "add", "one", "--master", "127.0.0.1:1", "--http", NOBODY)
    tube("profile", "add", "two", "--master", "127.0.0.1:1", "--http", NOBODY)
    tube("profile", "remove", "two")
    for command in (("topic", "list"), ("consume", "demo", "-n", "1")):
        found = tube(*command)
        assert found.code == ExitCode.UNREACHABLE
        assert "no profile is current" in found.err
        assert found.err.rstrip().endswith("pytubemq profile use one")
    assert "profile" not in tube("topic", "list", "--http", NOBODY).err


def test_the_last_profile_is_removed_while_it_is_the_current_one(tube: Tube) -> None:
    tube("profile", "add", "one", "--master", "127.0.0.1:1", "--http", NOBODY)
    found = tube("profile", "remove", "one")
    assert (found.code, found.out) == (ExitCode.DONE, "")
    assert found.err.splitlines() == [
        "removed the profile 'one'",
        "it was the current one: commands now work with the default ports of this machine",
    ]
    assert json.loads(tube("profile", "list", "-o", "json").out) == []


class AwayTube:
    """A cluster whose Master tells where a topic is; the Brokers in `away` do not answer."""

    def __init__(self, *away: int) -> None:
        self.away = away
        self.brokers = [BrokerInfo(number, Address("h", number)) for number in (1, 2)]

    async def partitions(self, topic: str) -> list[Partition]:
        return [Partition(number, topic, 0) for number in (1, 2)]

    async def offsets(self, partitions: list[Partition]) -> None:
        if partitions[0].broker_id in self.away:
            raise UnreachableError("cannot connect")


def test_a_producer_is_told_which_brokers_are_away() -> None:
    with pytest.raises(UnreachableError, match="no Broker of topic 't' answers: Broker 1 at h:1, Broker 2 at h:2"):
        asyncio.run(check_some_answer(GlobalOptions(), cast("Any", AwayTube(1, 2)), "t"))
    asyncio.run(check_some_answer(GlobalOptions(), cast("Any", AwayTube(1)), "t"))


@pytest.mark.parametrize(
    ("arguments", "saved"),
    [
        (("--master", "m1", "--user", "ann", "--secret-file", "/etc/ann"), "m1:8715?user=ann&secret_file=/etc/ann"),
        (
            ("--master", "tls://m1?ca=/ca.pem", "--user", "ann", "--secret-file", "/etc/ann"),
            "tls://m1:8716?ca=/ca.pem&user=ann&secret_file=/etc/ann",
        ),
        (("--master", "m1?user=ann&secret_file=/etc/ann"), "m1?user=ann&secret_file=/etc/ann"),
    ],
)
def test_a_profile_names_its_user_and_the_file_with_the_secret(
    tube: Tube, arguments: tuple[str, ...], saved: str
) -> None:
    assert tube("profile", "add", "safe", *arguments, "--http", "http://m1:8080").code == 0
    assert json.loads(tube("profile", "show", "-o", "json").out)["master"] == saved


def test_a_profile_names_its_files_so_that_they_are_found_from_every_directory(
    tube: Tube, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    token = tmp_path / "ops.token"
    token.touch(mode=0o600)
    token.write_text("tmq_1_x\n")
    master = "tls://m1?ca=c/ca.pem&cert=c/a.pem&key=c/a.key&user=ann&secret_file=ann.secret"
    http = "https://m1:8080?ca=c/ca.pem&token_file=ops.token"
    assert tube("profile", "add", "safe", "--master", master, "--http", http).code == ExitCode.DONE
    saved = json.loads(tube("profile", "show", "-o", "json").out)
    files = f"ca={tmp_path}/c/ca.pem&cert={tmp_path}/c/a.pem&key={tmp_path}/c/a.key"
    assert saved["master"] == f"tls://m1:8716?{files}&user=ann&secret_file={tmp_path}/ann.secret"
    assert saved["http"] == f"https://m1:8080?ca={tmp_path}/c/ca.pem&token_file={tmp_path}/ops.token"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--user", "ann"), "the user 'ann' is given, and no secret file"),
        (("--secret-file", "f"), "a secret file is given, and no user"),
        (("--user", "a", "--secret-file", "f", "--master", "m1?user=a&secret_file=f"), "the user is given twice"),
        (("--master", "ann:pssst@m1"), "has an @ in it"),
        (("--master", "m1?user=ann&secret=pssst"), "has a secret in it"),
        (("--user", "a", "--secret-file", "/none", "--master", "m1"), "the secret file /none cannot be read"),
    ],
)
def test_a_user_that_cannot_be_used_is_refused_before_anything_is_connected(
    tube: Tube, arguments: tuple[str, ...], said: str
) -> None:
    ran = tube("produce", "demo", "x", *arguments)
    assert ran.code != 0
    assert said in ran.err
    assert "pssst" not in ran.err + ran.out


def test_it_is_said_where_the_user_of_a_profile_wins_over_the_environment(
    tube: Tube, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    secret = tmp_path / "ann.secret"
    secret.touch(mode=0o600)
    secret.write_text("s\n")
    save_profile(Profile("safe", f"127.0.0.1:1?user=ann&secret_file={secret}", NOBODY))
    note = "note: the address names user ann, which counts before PYTUBEMQ_USER=eve"
    monkeypatch.setenv("PYTUBEMQ_USER", "eve")
    assert tube("consume", "demo", "-n", "1").err.splitlines().count(note) == 1
    assert "note" not in tube("consume", "demo", "-n", "1", "-q").err
    monkeypatch.setenv("PYTUBEMQ_USER", "ann")
    assert "note" not in tube("consume", "demo", "-n", "1").err


def test_the_options_win_over_the_user_of_a_profile() -> None:
    save_profile(Profile("safe", "m1?user=ann&secret_file=/ann", "http://m1:8080"))
    options = GlobalOptions(user="eve", secret_file="/eve")
    assert masters(options, None) == "m1:8715?user=eve&secret_file=/eve"
    assert shown_masters("tls://m1:1,m2?ca=a&user=ann&secret_file=f") == "m1:1,m2"
