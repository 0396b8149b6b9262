"""Whose address a command works with, and what is said of it when nobody answers there."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from pytubemq.cli.options import GlobalOptions
from pytubemq.cli.waiting import asking
from pytubemq.errors import ExitCode

from .conftest import Ran

if TYPE_CHECKING:
    from .fake_api import FakeApi

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
        ("a b", "foo:1", "http://x", "not a name for a profile: 'a b'"),
        ("", "foo:1", "http://x", "not a name for a profile: ''"),
        ("-", "foo:1", "http://x", "not a name for a profile: '-'"),
    ],
)
def test_a_profile_that_cannot_be_used_is_not_saved(tube: Tube, name: str, master: str, http: str, said: str) -> None:
    found = tube("profile", "add", name, "--master", master, "--http", http)
    assert (found.code, found.out) == (ExitCode.USAGE, "")
    assert said in found.err
    assert json.loads(tube("profile", "list", "-o", "json").out) == []


def test_a_profile_takes_several_masters_and_a_bare_http_address(tube: Tube, api: FakeApi) -> None:
    assert tube("profile", "add", "a-1.b_c", "--master", "m:1,n", "--http", api.url[7:]).code == ExitCode.DONE
    assert tube("topic", "list").code == ExitCode.DONE


def test_it_is_said_whose_address_it_is_where_nobody_answers(tube: Tube, api: FakeApi) -> None:
    tube("profile", "add", "away", "--master", "127.0.0.1:1", "--http", NOBODY)
    alone = tube("topic", "list")
    assert alone.code == ExitCode.UNREACHABLE
    assert "the address is that of profile 'away'; see whether its cluster runs" in alone.err
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
        "waiting for the Master at m:1 to say where topic 'demo' is, up to 10 s (--timeout)\n"
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
