"""Moving groups on the command line."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from pytubemq.errors import ExitCode
from tests.unit.cli.conftest import Ran

if TYPE_CHECKING:
    import pytest

    from tests.unit.cli.fake_api import FakeApi

Tube = Callable[..., Ran]

RESET = ("group", "reset", "readers", "--topic", "flights")


def test_a_move_wants_to_be_sure_and_shows_from_where_to_where(
    tube: Tube, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "ann")
    found = tube(*RESET, "--to", "latest", "--http", api.url)
    assert (found.code, api.asked) == (ExitCode.USAGE, [])
    assert "--dry-run" in found.err
    found = tube(*RESET, "--to", "-10m", "--partition", "0", "--partition", "2:1", "--yes", "--http", api.url)
    assert found.code == ExitCode.DONE
    assert [line.split() for line in found.out.splitlines()] == [
        ["partition", "old_offset", "new_offset", "old_lag", "new_lag"],
        ["1:flights:0", "-", "280", "10", "0"],
    ]
    assert "moved readers in flights to latest: 1 partition\n" in found.err
    body = {"topic": "flights", "to": "-10m", "partitions": ["0", "2:1"], "dry_run": False, "user": "ann"}
    assert api.asked == [("POST", "/api/v1/groups/readers/resets", body)]


def test_a_look_changes_nothing(tube: Tube, api: FakeApi) -> None:
    found = tube(*RESET, "--to", "earliest", "--dry-run", "-o", "json", "--http", api.url)
    assert json.loads(found.out)[0]["new_lag"] == 0
    assert "would move" in found.err
    assert api.asked[0][2]["dry_run"] is True


def test_a_time_without_a_zone_goes_out_with_the_one_of_this_machine(
    tube: Tube, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "CST-8")
    time.tzset()
    try:
        tube(*RESET, "--to", "2026-01-31T12:00:00", "--dry-run", "--http", api.url)
        tube(*RESET, "--to", "2026-01-31T12:00:00Z", "--dry-run", "--http", api.url)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert [body["to"] for method, _, body in api.asked if method == "POST"] == [
        "2026-01-31T12:00:00+08:00",
        "2026-01-31T12:00:00+00:00",
    ]


def test_a_place_that_is_none_is_refused_before_anybody_is_asked(tube: Tube, api: FakeApi) -> None:
    found = tube(*RESET, "--to", "soon", "--yes", "--http", api.url)
    assert (found.code, api.asked) == (ExitCode.USAGE, [])
    assert "not a reset target: 'soon'" in found.err


def test_the_history_of_a_group_that_is_none_is_an_error_and_of_one_never_moved_is_empty(
    tube: Tube, api: FakeApi
) -> None:
    nothing: dict[str, list[str]] = {"resets": [], "unreachable": [], "unsupported": []}
    api.answers["/api/v1/groups/nope/resets"] = api.answers["/api/v1/groups/readers/resets"] = (200, nothing)
    api.answers["/api/v1/groups/nope"] = (404, {"code": 404, "message": "no group nope", "try": "look at group list"})
    found = tube("group", "history", "nope", "--http", api.url)
    assert (found.code, found.out) == (ExitCode.NOT_FOUND, "")
    assert "no group nope" in found.err
    assert tube("group", "history", "readers", "--http", api.url).code == ExitCode.DONE


def test_a_history_says_who_did_not_tell(tube: Tube, api: FakeApi) -> None:
    path = "/api/v1/groups/readers/resets"
    api.answers[path] = (200, {"resets": [], "unreachable": ["broker 2: no answer"], "unsupported": ["broker 3"]})
    found = tube("group", "history", "readers", "--http", api.url)
    assert found.code == ExitCode.UNREACHABLE, "what is printed may not be all"
    assert found.err == "unknown: broker 2: no answer\nunknown: broker 3\n"


def test_a_look_at_a_group_that_nobody_knows_says_so(tube: Tube, api: FakeApi) -> None:
    arguments = ("group", "reset", "redaers", "--topic", "flights", "--to", "earliest", "--http", api.url)
    assert "note: no group redaers is known yet" in tube(*arguments, "--dry-run").err
    assert "note:" not in tube(*RESET, "--to", "earliest", "--dry-run", "--http", api.url).err
