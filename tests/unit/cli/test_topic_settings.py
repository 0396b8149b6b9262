"""Durability and retention on the command line: what is asked of the JSON API."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq.errors import ExitCode
from tests.unit.cli.conftest import Ran
from tests.unit.cli.fake_api import ANSWERS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.fake_api import FakeApi

Tube = Callable[..., Ran]


def test_a_topic_is_created_with_both(tube: Tube, api: FakeApi) -> None:
    found = tube("topic", "create", "a", "--durability", "memory", "--retention", "72h, 10gb", "--http", api.url)
    assert found.code == ExitCode.DONE
    assert api.asked == [
        ("POST", "/api/v1/topics", {"name": "a", "partitions": 4, "durability": "memory", "retention": "72h,10GB"})
    ]


def test_only_what_is_said_is_altered(tube: Tube, api: FakeApi) -> None:
    found = tube("topic", "alter", "a", "--retention", "forever", "-p", "8", "--http", api.url)
    assert (found.code, found.out) == (ExitCode.DONE, "")
    assert "altered a: retention forever, partitions 8" in found.err
    assert tube("topic", "alter", "a", "--durability", "default", "-o", "name", "--http", api.url).out == "flights\n"
    assert tube("cluster", "alter", "--retention", "default", "--http", api.url).code == ExitCode.DONE
    assert api.asked == [
        ("PATCH", "/api/v1/topics/a", {"partitions": 8, "retention": "forever"}),
        ("PATCH", "/api/v1/topics/a", {"durability": "default"}),
        ("GET", "/api/v1/cluster/defaults", None),
        ("PATCH", "/api/v1/cluster/defaults", {"retention": "default"}),
    ]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("topic", "alter", "a"), "say what to change"),
        (("cluster", "alter"), "say what to change"),
        (("topic", "alter", "a", "--retention", "soon"), "not a retention: 'soon'"),
        (("topic", "create", "a", "--retention", "5"), "not a retention: '5'; write a unit: 5h"),
        (("topic", "create", "a", "--retention", "0h"), "not a retention: '0h'"),
        (("topic", "create", "a", "--durability", "tape"), "'tape' is not one of"),
        (("topic", "create", "a", "--max-message-size", "100MB"), "'100MB' is not from 1 to 20971520 bytes (20MB)"),
        (("topic", "alter", "a", "--max-message-size", "0"), "'0' is not from 1 to 20971520 bytes (20MB)"),
        (("cluster", "alter", "--max-message-size", "1.5MB"), "'1.5MB' is not a number of bytes; write one as 1500000"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anybody_is_asked(
    tube: Tube, api: FakeApi, arguments: tuple[str, ...], says: str
) -> None:
    found = tube(*arguments, "--http", api.url)
    assert (found.code, api.asked) == (ExitCode.USAGE, [])
    assert says in found.err


def test_the_longest_message_may_be_given_in_units(tube: Tube, api: FakeApi) -> None:
    for text in ("100KB", "2 mb", "1500000", "7b"):
        assert tube("topic", "alter", "a", "--max-message-size", text, "--http", api.url).code == ExitCode.DONE
    assert [body["max_message_bytes"] for _, _, body in api.asked] == [102_400, 2_097_152, 1_500_000, 7]


@pytest.mark.parametrize(
    ("retention", "is_less"),
    [("1s", True), ("7d,10GB", True), ("default", True), ("200h", False), ("30d", False), ("forever", False)],
)
def test_what_deletes_messages_must_be_confirmed(tube: Tube, api: FakeApi, retention: str, is_less: bool) -> None:
    api.answers["/api/v1/topics/flights"] = (200, {"retention": "200h"})
    for command in (("topic", "alter", "flights"), ("cluster", "alter")):
        if command[0] == "cluster":
            api.answers["/api/v1/cluster/defaults"] = (200, {"retention": "200h"})
        arguments = (*command, "--retention", retention, "--http", api.url)
        found = tube(*arguments)
        assert found.code == (ExitCode.USAGE if is_less else ExitCode.DONE), command
        assert ("confirm with --yes" in found.err) == is_less
        assert any(method == "PATCH" for method, _, _ in api.asked) != is_less
        if is_less:
            assert tube(*arguments, "--yes").code == ExitCode.DONE
        api.asked.clear()


def test_the_list_says_who_was_not_asked_and_what_is_being_removed(tube: Tube, api: FakeApi) -> None:
    gone = {"name": "old", "state": "removing", "partitions": 0, "brokers": [], "messages": 0}
    away = {**ANSWERS["/api/v1/topics/flights"], "unreachable": ["broker 2 at h:1: it is away"]}
    api.answers["/api/v1/topics"] = (200, [away, gone])
    found = tube("topic", "list", "--http", api.url, "-o", "csv")
    assert found.out.splitlines()[-1].endswith(",removing")
    assert "unknown: broker 2 at h:1: it is away" in found.err


def test_many_topics_are_created_in_steps_of_a_thousand(tube: Tube, api: FakeApi, tmp_path: Path) -> None:
    listed = tmp_path / "names"
    listed.write_text("# by number\n" + "".join(f"t{number}  # one\n\n" for number in range(1_000)))
    api.batches = [{"created": ["a"], "existing": ["t0"]}, {"created": ["t998", "t999"], "existing": []}]
    found = tube("topic", "create", "a", "b", "a", "--file", str(listed), "-p", "2", "--exist-ok", "--http", api.url)
    assert (found.code, found.out) == (ExitCode.DONE, "")
    assert "created 3 topics, each with 2 partitions on each Broker; 1 existed already" in found.err
    (_, path, first), (_, _, second) = api.asked
    assert path == "/api/v1/topics%3Abatch"
    assert [topic["name"] for topic in first["topics"][:3]] == ["a", "b", "t0"]
    assert (len(first["topics"]), len(second["topics"])) == (1_000, 2)
    assert second == {"topics": [{"name": f"t{n}", "partitions": 2} for n in (998, 999)], "exist_ok": True}


def test_a_wrong_name_in_a_file_is_named_with_its_line(tube: Tube, api: FakeApi, tmp_path: Path) -> None:
    listed = tmp_path / "names"
    listed.write_text("good\nnot good\n")
    found = tube("topic", "create", "--file", str(listed), "--http", api.url)
    assert found.code == ExitCode.USAGE
    assert f"{listed}, line 2: " in found.err
    assert tube("topic", "create", "--http", api.url).code == ExitCode.USAGE
    assert api.asked == []


TWO = [{"broker": 1, "partitions": 2, "ready": True}, {"broker": 2, "partitions": 2, "ready": True}]
UNLIKE = [{"broker": 1, "partitions": 1, "ready": True}, {"broker": 2, "partitions": 3, "ready": True}]


@pytest.mark.parametrize(
    ("places", "text"),
    [
        (TWO[:1], "created a with 4 partitions"),
        (TWO, "created a with 4 partitions: 2 on each of 2 Brokers"),
        (UNLIKE, "created a with 4 partitions on 2 Brokers"),
    ],
)
def test_a_creation_counts_partitions_as_the_list_does(
    tube: Tube, api: FakeApi, places: list[dict[str, Any]], text: str
) -> None:
    api.places = places
    api.counts = 4
    assert text in tube("topic", "create", "a", "-p", "2", "--http", api.url).err.splitlines()


def test_a_change_of_partitions_says_how_many_there_are_in_all(tube: Tube, api: FakeApi) -> None:
    api.places = TWO
    api.counts = 4
    found = tube("topic", "alter", "a", "-p", "2", "--http", api.url)
    assert found.err.splitlines() == ["altered a: partitions 2 (4 partitions: 2 on each of 2 Brokers)"]
