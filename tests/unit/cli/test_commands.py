"""The command tree: every reading command speaks every form; help is light; errors and exit codes are as promised."""

from __future__ import annotations

import csv
import io
import json
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from pytubemq.cli.api import Api
from pytubemq.cli.command_table import COMMANDS
from pytubemq.cli.main import root
from pytubemq.cli.options import OUTPUTS
from pytubemq.errors import ExitCode, NotFoundError
from tests.unit.cli.conftest import Ran

if TYPE_CHECKING:
    from tests.unit.cli.fake_api import FakeApi

Tube = Callable[..., Ran]

OTHERS = {"demo"}
"""Built and tested beside the main job."""

READING: dict[tuple[str, ...], tuple[str, ...]] = {
    ("topic", "list"): (),
    ("topic", "show"): ("flights",),
    ("group", "list"): (),
    ("group", "show"): ("readers",),
    ("group", "history"): ("readers",),
    ("group", "story"): ("readers",),
    ("broker", "story"): ("1",),
    ("cluster", "show"): (),
    ("cluster", "health"): (),
    ("cluster", "info"): (),
    ("server", "settings"): (),
    ("profile", "list"): (),
    ("profile", "show"): (),
    ("errors", "list"): (),
    ("errors", "show"): ("404",),
}
NOT_READING = {
    ("dev",), ("produce",), ("consume",), ("server", "run"), ("topic", "create"), ("topic", "delete"),
    ("topic", "alter"), ("cluster", "alter"), ("cluster", "adopt"), ("cluster", "export"), ("cluster", "import"),
    ("cluster", "diff"), ("cluster", "apply"), ("group", "reset"),
    ("store", "inspect"), ("store", "verify"),
    ("store", "import"), ("store", "repair"), ("store", "export"), ("store", "metadata"), ("master", "migrate"),
    ("pipeline", "init"), ("pipeline", "lint"), ("pipeline", "test"), ("pipeline", "dry-run"),
    ("pipeline", "plan"), ("pipeline", "run"), ("pipeline", "stop"), ("pipeline", "status"),
    ("pipeline", "report"), ("pipeline", "tap"), ("pipeline", "backfill"), ("pipeline", "reset"),
    ("pipeline", "dlq", "list"), ("pipeline", "dlq", "show"), ("pipeline", "dlq", "redrive"),
    ("pipeline", "dlq", "drop"),
    ("user", "create"), ("user", "list"), ("user", "rotate"), ("user", "disable"), ("user", "enable"),
    ("user", "remove"), ("user", "password"), ("user", "token", "create"), ("user", "token", "list"),
    ("user", "token", "revoke"), ("audit", "list"), ("permission", "grant"), ("permission", "revoke"),
    ("permission", "list"), ("permission", "test"), ("cert", "make"), ("profile", "use"),
    ("profile", "add"), ("profile", "remove"), ("bench", "produce"), ("bench", "consume"), ("bench", "e2e"),
}  # fmt: skip


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            if name not in OTHERS:
                found = command.get_command(context, name)
                assert found is not None, name
                yield from leaves(found, (*path, name))
    else:
        yield path, command


def test_every_command_is_known_here() -> None:
    assert {path for path, _ in leaves(root)} == set(READING) | NOT_READING


def test_every_command_has_help_and_the_global_options() -> None:
    for path, command in leaves(root):
        assert command.help, path
        names = {option for parameter in command.params for option in parameter.opts}
        assert {"-P", "-o", "-q", "-v", "--no-color", "--timeout"} <= names, path
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, (path, parameter.name)


@pytest.mark.parametrize("path", READING, ids=" ".join)
def test_every_reading_command_speaks_every_form(tube: Tube, api: FakeApi, path: tuple[str, ...]) -> None:
    tube("profile", "add", "here", "--master", "127.0.0.1:8715", "--http", api.url)
    arguments = (*path, *READING[path])
    said = {form: tube(*arguments, "-o", form) for form in OUTPUTS}
    for form, found in said.items():
        assert found.code == ExitCode.DONE, (form, found.err)
        assert found.out.endswith("\n"), form
        assert not found.err, form
    whole = json.loads(said["json"].out)
    rows = whole if isinstance(whole, list) else [whole]
    assert [json.loads(line) for line in said["jsonl"].out.splitlines()] == rows
    assert len(list(csv.DictReader(io.StringIO(said["csv"].out)))) == len(rows)
    assert len(said["name"].out.splitlines()) == len(rows)
    assert tube("-o", "json", *arguments).out == said["json"].out, "the option may stand before the command as well"
    assert tube("-o", "csv", *arguments, "-o", "json").out == said["json"].out, "the later one counts"


def test_lists_in_csv_and_what_is_not_known_in_a_table(tube: Tube, api: FakeApi) -> None:
    assert 'flights,4,"1, 2",' in tube("topic", "list", "--http", api.url, "-o", "csv").out
    api.answers["/api/v1/groups/readers"] = (200, {"name": "readers", "kind": "", "members": 0})
    assert re.search(r"^kind +-$", tube("group", "show", "readers", "--http", api.url).out, re.MULTILINE)


@pytest.mark.process
def test_the_list_of_commands_loads_nothing() -> None:
    probe = (
        "import sys\n"
        "from pytubemq.cli.main import run\n"
        "code = run(['--help'])\n"
        "heavy = {'asyncio', 'google.protobuf', 'msgspec', 'rich', 'starlette', 'uvicorn', 'pyspark', 'pyarrow',"
        " 'sqlite3', 'pytubemq.client', 'pytubemq.broker', 'pytubemq.master', 'pytubemq.server', 'pytubemq.demo'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
        "sys.exit(code)\n"
    )
    found = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=False)
    assert found.returncode == ExitCode.DONE
    assert found.stderr.strip() == "[]"
    for name in COMMANDS:
        assert re.search(rf"^  {name} ", found.stdout, re.MULTILINE), name


def test_a_misspelt_command_or_option(tube: Tube) -> None:
    found = tube("topci", "list")
    assert (found.code, found.out) == (ExitCode.USAGE, "")
    assert "Did you mean 'topic'?" in found.err
    found = tube("topic", "list", "-o", "jsn")
    assert found.code == ExitCode.USAGE
    assert "topic list --help" in found.err


def test_the_lists_of_commands_are_wrapped_and_not_cut(tube: Tube) -> None:
    for group in (*COMMANDS, "user token", "pipeline dlq"):
        listed = tube(*group.split(), "--help").out.partition("\nCommands:\n")[2]
        assert "..." not in listed.partition("\n\n")[0], group
    text = " ".join(tube("group", "--help").out.split())
    assert "List all groups, including those without members that have committed offsets." in text


@pytest.mark.parametrize("code", ["415", "TUBE-415", "unreachable"])
def test_a_code_in_the_place_of_a_command_is_led_to_its_explanation(tube: Tube, code: str) -> None:
    found = tube("errors", code)
    assert (found.code, found.out) == (ExitCode.USAGE, "")
    assert f"Did you mean 'show {code}'?" in found.err
    assert "Did you mean" not in tube("errors", "explain").err


@pytest.mark.process
def test_a_password_is_not_asked_for_where_it_would_be_shown(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytubemq", "user", "password", "ann", "--http", "http://127.0.0.1:1"]
    found = subprocess.run(
        command, input="four random words\n" * 2, capture_output=True, text=True, cwd=tmp_path, start_new_session=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert found.returncode == ExitCode.USAGE
    assert "there is no terminal to ask for the password at: give it with --file FILE" in found.stderr
    assert "Warning" not in found.stderr


def test_nothing_answers(tube: Tube) -> None:
    found = tube("topic", "list", "--http", "http://127.0.0.1:1")
    assert found.code == ExitCode.UNREACHABLE
    lines = found.err.splitlines()
    assert lines[0].startswith("error TUBE-unreachable  the JSON API at http://127.0.0.1:1 cannot be reached")
    assert lines[-1].startswith("  try   start a cluster with  pytubemq dev")


def test_errors_as_json(tube: Tube, api: FakeApi) -> None:
    found = tube("topic", "show", "nope", "--http", api.url, "-o", "json")
    assert (found.code, found.out) == (ExitCode.NOT_FOUND, "")
    assert json.loads(found.err) == {
        "code": 404, "message": "no /api/v1/topics/nope", "why": None, "try": "t", "retriable": False, "exit": 3,
    }  # fmt: skip


@pytest.mark.parametrize("arguments", [("--master", "a:1", "consume", "t"), ("topic", "--http", "x", "list")])
def test_an_option_before_its_command_is_told_where_it_goes(tube: Tube, arguments: tuple[str, ...]) -> None:
    found = tube(*arguments)
    assert found.code == ExitCode.USAGE
    assert "after the command's name" in found.err


def test_something_that_is_not_http_answers(tube: Tube) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"

        def hang_up() -> None:
            peer, _ = listening.accept()
            with peer:
                peer.recv(4096)

        thread = threading.Thread(target=hang_up)
        thread.start()
        found = tube("topic", "list", "--http", f"http://{address}")
        thread.join()
    assert found.code == ExitCode.UNREACHABLE
    assert "does not speak HTTP" in found.err
    assert "port 8080" in found.err
    assert f"if it is over TLS, write https://{address}?ca=FILE" in found.err


@pytest.mark.parametrize("body", [b"<html>hello</html>", b"[" * 200_000, b"\xff\xfe", b"9" * 5000])
def test_something_else_answers(tube: Tube, api: FakeApi, body: bytes) -> None:
    api.answers["/api/v1/topics"] = (200, body)
    found = tube("topic", "list", "--http", api.url)
    assert found.code == ExitCode.FAILED
    assert "is not the JSON API" in found.err


@pytest.mark.parametrize("code", ["\u00b2", "9" * 5000, -1, [], True])
def test_a_refusal_without_a_code_has_that_of_http(tube: Tube, api: FakeApi, code: object) -> None:
    api.answers["/api/v1/topics"] = (400, {"code": code, "message": "no"})
    found = tube("topic", "list", "--http", api.url)
    assert (found.code, found.err) == (ExitCode.REFUSED, "error TUBE-400  no\n")


ORIGINALS_ANSWER = {"result": False, "errCode": 400, "errMsg": "parameter method is missing"}


@pytest.mark.parametrize(
    ("arguments", "path"),
    [(("topic", "list"), "topics"), (("topic", "show", "flights"), "topics/flights"), (("group", "list"), "groups"),
     (("cluster", "health"), "health"), (("cluster", "info"), "cluster")],
)  # fmt: skip
def test_a_brokers_page_in_the_place_of_the_api_is_told(
    tube: Tube, api: FakeApi, arguments: tuple[str, ...], path: str
) -> None:
    api.answers[f"/api/v1/{path}"] = (200, ORIGINALS_ANSWER)  # a Broker's page answers so on every path
    found = tube(*arguments, "--http", api.url)
    assert (found.code, found.out) == (ExitCode.FAILED, "")
    assert f"{api.url} is not the JSON API (it is probably a Broker's page)" in found.err
    assert "port 8080 unless it was set otherwise" in found.err


@pytest.mark.parametrize("answer", [7, "text", [1, 2], None, {"topics": []}])
def test_json_of_something_else_is_told(tube: Tube, api: FakeApi, answer: object) -> None:
    api.answers["/api/v1/topics"] = (200, answer)
    found = tube("topic", "list", "--http", api.url)
    assert found.code == ExitCode.FAILED
    assert "is not the JSON API" in found.err


@pytest.mark.parametrize("arguments", [("group", "show", "kg"), ("group", "list")])
def test_what_only_those_know_who_are_away_ends_as_unreachable(
    tube: Tube, api: FakeApi, arguments: tuple[str, ...]
) -> None:
    problem = {"code": 503, "message": "cannot be told: broker 1 is away", "try": "start it", "exit": 5}
    api.answers["/api/v1/groups"] = api.answers["/api/v1/groups/kg"] = (503, problem)
    found = tube(*arguments, "--http", api.url, "-o", "json")
    assert (found.code, found.out) == (ExitCode.UNREACHABLE, "")
    assert json.loads(found.err) == {
        "code": 503, "message": problem["message"], "why": None, "try": "start it", "retriable": True, "exit": 5,
    }  # fmt: skip


def test_an_unhealthy_cluster_ends_with_10(tube: Tube, api: FakeApi) -> None:
    api.answers["/api/v1/health"] = (503, {"status": "degraded", "reasons": [{"thing": "Broker 1", "why": "away"}]})
    found = tube("cluster", "health", "--http", api.url)
    assert found.code == ExitCode.UNHEALTHY
    assert "Broker 1" in found.out


def test_no_command_is_a_question_for_help(tube: Tube) -> None:
    for arguments in ((), ("topic",)):
        found = tube(*arguments)
        assert (found.code, found.err) == (ExitCode.DONE, "")
        assert found.out.startswith("Usage: pytubemq")


@pytest.mark.parametrize(
    "arguments",
    [("produce", "no such", "x"), ("consume", "9"), ("consume", "t", "--group", "a b"), ("topic", "create", "a/b"),
     ("topic", "show", "ü"), ("bench", "e2e", "--topic", "a b")],
)  # fmt: skip
def test_a_name_that_cannot_be_one_is_refused_alike_everywhere(tube: Tube, arguments: tuple[str, ...]) -> None:
    found = tube(*arguments)
    assert (found.code, found.out) == (ExitCode.USAGE, "")
    assert re.search("not a (topic|group) name: .* use a letter, then", found.err)


def test_an_input_that_is_no_file_is_named(tube: Tube, tmp_path: Path) -> None:
    for wrong in (str(tmp_path), "nofile"):
        found = tube("produce", "t", "-f", wrong)
        assert found.code == ExitCode.USAGE
        assert wrong in found.err
        assert "  try   " in found.err


def test_create_tells_the_next_command(tube: Tube, api: FakeApi) -> None:
    found = tube("topic", "create", "ab", "--partitions", "3", "--http", api.url)
    assert found.code == ExitCode.DONE
    assert api.asked == [("POST", "/api/v1/topics", {"name": "ab", "partitions": 3})]
    assert "Next:" in found.err
    tube("topic", "create", "big", "--max-message-size", "2000000", "--http", api.url)
    assert api.asked[-1][2] == {"name": "big", "partitions": 4, "max_message_bytes": 2_000_000}
    assert tube("-q", "topic", "create", "b", "--http", api.url).err == ""
    assert tube("topic", "create", "flights", "--exist-ok", "--http", api.url).code == ExitCode.DONE


def test_a_change_of_a_topic_names_the_brokers_that_it_has_not_come_to(tube: Tube, api: FakeApi) -> None:
    api.places = [{"broker": 1, "partitions": 2, "ready": False}, {"broker": 2, "partitions": 2, "ready": True}]
    found = tube("topic", "create", "wt", "--http", api.url)
    assert found.code == ExitCode.DONE
    assert found.err.splitlines()[:2] == [
        "created wt with 4 partitions: 2 on each of 2 Brokers",
        "broker 1: away: creates it on return",
    ]
    assert found.err.splitlines()[2].startswith("Next:")
    found = tube("topic", "alter", "wt", "--partitions", "5", "--http", api.url)
    assert found.err.splitlines() == [
        "altered wt: partitions 5 (5 partitions: 2 on each of 2 Brokers)",
        "broker 1: away: applies it on return",
    ]


def test_an_existing_topic_that_is_on_no_broker_is_created(tube: Tube, api: FakeApi) -> None:
    api.answers["/api/v1/topics"] = (200, [{"name": "gone", "brokers": []}])
    assert tube("topic", "create", "gone", "--exist-ok", "--http", api.url).code == ExitCode.DONE
    assert api.asked[-1] == ("POST", "/api/v1/topics", {"name": "gone", "partitions": 4})


def test_delete_wants_to_be_sure_and_says_what_is_left_to_do(tube: Tube, api: FakeApi) -> None:
    found = tube("topic", "delete", "flights", "--http", api.url)
    assert (found.code, api.asked) == (ExitCode.USAGE, [])
    assert "--yes" in found.err
    found = tube("topic", "delete", "flights", "--yes", "--http", api.url)
    assert (found.code, found.err) == (ExitCode.DONE, "deleted flights\n")
    assert api.asked == [("DELETE", "/api/v1/topics/flights", None)]
    left = {"name": "flights", "removed": False, "pending": [{"broker": 2, "why": "away"}], "record_kept": False}
    api.deletes = (202, left)
    found = tube("topic", "delete", "flights", "--yes", "--http", api.url, "-o", "json")
    assert (found.code, json.loads(found.out)) == (ExitCode.DONE, left)
    assert "broker 2: away" in found.err
    api.deletes = (404, {"code": 404, "message": "no topic flights", "try": "t"})
    assert tube("topic", "delete", "flights", "--yes", "--http", api.url).code == ExitCode.NOT_FOUND


def test_names_are_quoted_in_the_path(api: FakeApi) -> None:
    with pytest.raises(NotFoundError):
        Api(api.url, timeout_s=10).get("topics", "a/../b?c")
    assert api.asked == [("GET", "/api/v1/topics/a%2F..%2Fb%3Fc", None)]


def test_profiles_pick_the_cluster(tube: Tube, api: FakeApi) -> None:
    tube("profile", "add", "a", "--master", "m:1", "--http", api.url)
    added = tube("profile", "add", "b", "--master", "m:2", "--http", "http://127.0.0.1:1")
    assert "commands now work with 'b'" in added.err, "nobody is led to another cluster unawares"
    assert tube("topic", "list").code == ExitCode.UNREACHABLE
    assert tube("-P", "a", "topic", "list").code == ExitCode.DONE
    assert tube("profile", "use", "a").code == ExitCode.DONE
    assert tube("topic", "list", "-o", "name").out == "flights\nünï\n"
    missing = tube("topic", "list", "-P", "bb")
    assert missing.code == ExitCode.BAD_CONFIG
    assert "did you mean 'b'?" in missing.err


@pytest.mark.parametrize("url", ["ftp://x", "http://", "http://x:port"])
def test_a_bad_url(tube: Tube, url: str) -> None:
    found = tube("topic", "list", "--http", url)
    assert found.code == ExitCode.BAD_CONFIG
    assert url in found.err


def test_a_traceback_only_with_v(tube: Tube) -> None:
    assert "Traceback" not in tube("topic", "list", "--http", "http://127.0.0.1:1").err
    assert "Traceback" in tube("-v", "topic", "list", "--http", "http://127.0.0.1:1").err


def test_the_reference_names_every_command_and_option() -> None:
    text = Path(__file__).parents[3].joinpath("docs/reference/cli.md").read_text("utf-8")
    for path, command in leaves(root):
        assert f"pytubemq {' '.join(path)}" in text, path
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                assert f"`{max(parameter.opts, key=len)}" in text, (path, parameter.opts)


def test_the_readme_names_every_command() -> None:
    row = next(
        line
        for line in Path(__file__).parents[3].joinpath("README.md").read_text("utf-8").splitlines()
        if line.startswith("| **CLI** |")
    )
    assert row.split("`")[1].split() == list(COMMANDS)


def test_the_reference_has_the_exit_codes_as_they_are() -> None:
    text = Path(__file__).parents[3].joinpath("docs/reference/cli.md").read_text("utf-8")
    table = {int(code): name for code, name in re.findall(r"^\| (\d+) \| `(\w+)`", text, re.MULTILINE)}
    assert table == {int(code): code.name for code in ExitCode}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("server", "run"), "Missing argument '{master|broker|all}'. Choose from: master, broker, all"),
        (("consume", "demo", "-n", "x"), "'x' is not a whole number."),
        (("consume", "demo", "--idle", "x"), "'x' is not a number."),
        (("produce", "demo", "a", ""), "one of the messages given is empty: a message has at least one byte"),
    ],
)
def test_what_is_wrong_on_the_command_line_is_one_plain_line(tube: Tube, arguments: tuple[str, ...], says: str) -> None:
    found = tube(*arguments)
    assert (found.code, found.out) == (ExitCode.USAGE, "")
    head, hint = found.err.splitlines()
    assert head.endswith(says)
    assert hint.endswith("--help")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("produce", "demo", "x", "--type", ""), "'--type': it is blank; leave the option out"),
        (("produce", "demo", "x", "--type", " "), "'--type': it is blank; leave the option out"),
        (("consume", "demo", "--type", "a", "--type", ""), "'--type': it is blank; leave the option out"),
        (("consume", "demo", "-f", "%z\\n"), "-f: unknown field %z"),
        (("consume", "demo", "-f", "%a{"), "-f: %a{ has no closing brace"),
        (
            ("produce", "demo", "x", "--master", "127.0.0.1:99999"),
            "the port 99999 is out of range: it is from 1 to",
        ),
        (("consume", "demo", "--master", "a:1,b:65536"), "the port 65536 is out of range: it is from 1 to 65535"),
        (("consume", "demo", "--master", "http://a:1"), "write host:port, without http://"),
        (("bench", "e2e", "--master", "a:b"), "write host:port"),
        (
            ("group", "reset", "g", "--topic", "t", "--to", "latest", "--yes", "--partition", "x"),
            "not a partition: 'x'",
        ),
    ],
)
def test_a_value_that_cannot_be_one_ends_with_2(tube: Tube, arguments: tuple[str, ...], says: str) -> None:
    found = tube(*arguments)
    assert (found.code, found.out) == (ExitCode.USAGE, "")
    assert says in found.err
    assert "--help" in found.err
