"""Every command has its row in the table of permissions, and calls over HTTP what the row says."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

import click
import pytest

from pytubemq.admin.access.needs import Subject
from pytubemq.admin.access.route_permissions import ROUTE_PERMISSIONS
from pytubemq.cli.main import root
from pytubemq.errors import ExitCode
from pytubemq.security.permissions import Operation, ResourceKind
from pytubemq.wire.rpc.methods import Method
from scripts.docs.cli_permissions import COMMANDS, Use, permissions_of, subjects_of
from tests.unit.cli.fake_api import TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.unit.cli.conftest import Ran
    from tests.unit.cli.fake_api import FakeApi

USER: Final = {"name": "ann", "enabled": True, "permissions": [], "changed_by": "", "changed_at": ""}
RUNS: Final[dict[str, list[tuple[str, ...]]]] = {
    "audit list": [()],
    "broker story": [("1",)],
    "cluster adopt": [()],
    "cluster alter": [("--retention", "1000d")],
    "cluster apply": [("metadata.toml", "--yes")],
    "cluster diff": [("same.toml",)],
    "cluster export": [()],
    "cluster health": [()],
    "cluster import": [("metadata.toml", "--yes")],
    "cluster info": [()],
    "cluster show": [()],
    "group history": [("others",)],
    "group list": [()],
    "group reset": [("others", "--topic", "flights", "--to", "latest", "--dry-run")],
    "group show": [("readers",)],
    "group story": [("others",)],
    "permission grant": [("ann", "produce", "topic", "flights")],
    "permission list": [(), ("ann",)],
    "permission revoke": [("ann", "produce", "topic", "flights", "--force")],
    "permission test": [("ann", "produce", "topic", "flights")],
    "topic alter": [("flights", "--retention", "1000d"), ("flights", "--retention", "default")],
    "topic create": [("one",), ("one", "two"), ("flights", "--exist-ok")],
    "topic delete": [("flights", "--yes")],
    "topic list": [()],
    "topic show": [("flights",)],
    "user create": [("ann",)],
    "user disable": [("ann", "--force")],
    "user enable": [("ann",)],
    "user list": [()],
    "user password": [("ann", "--file", "password")],
    "user remove": [("ann", "--yes", "--force")],
    "user rotate": [("ann", "--yes", "--keep-tokens")],
    "user token create": [("ann",)],
    "user token list": [("ann",)],
    "user token revoke": [("ann", "0")],
}
"""Arguments of each command that uses the JSON API alone, for each way to use it."""


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None, name
            yield from leaves(found, (*path, name))
    else:
        yield " ".join(path), command


def over_http(command: str) -> set[str]:
    """Return the routes in the row of a command."""
    return {call for use in COMMANDS[command] for call in use.calls if isinstance(call, str)}


def is_rpc(command: str) -> bool:
    return any(isinstance(call, Method) for use in COMMANDS[command] for call in use.calls)


def route_of(method: str, path: str) -> str:
    """Return the key of the route that serves a request."""
    for key in ROUTE_PERMISSIONS:
        served, _, pattern = key.partition(" ")
        if served == method and re.fullmatch(re.sub(r"\{\w+\}", r"[^/:]+", pattern), path.partition("?")[0]):
            return key
    raise AssertionError(f"no route serves {method} {path}")


def test_every_command_has_a_row_and_every_row_a_command() -> None:
    assert [name for name, _ in sorted(leaves(root))] == list(COMMANDS)


def test_a_command_with_an_address_has_calls_in_its_row() -> None:
    for name, command in leaves(root):
        options = {option for parameter in command.params for option in parameter.opts}
        if name.startswith("profile "):
            continue  # they keep addresses
        if "--http" in options:
            assert over_http(name), name
        if "--master" in options:
            assert is_rpc(name), name


def test_every_command_over_http_alone_is_run_here() -> None:
    assert set(RUNS) == {name for name in COMMANDS if over_http(name) and not is_rpc(name)}


def prepare(api: FakeApi, command: str) -> None:
    api.answers["/api/v1/topics/flights"] = (200, {**TOPIC, "retention": "1h"})
    api.answers["/api/v1/users"] = (200, [USER])
    api.answers["/api/v1/users/ann"] = (200, USER)
    api.answers["/api/v1/users/ann/tokens"] = (200, [])
    api.answers["/api/v1/audit"] = (200, [])
    api.answers["/api/v1/groups/others"] = (200, {"name": "others"})
    api.answers["/api/v1/groups/others/resets"] = (200, {"resets": [], "unreachable": [], "unsupported": []})
    story = {"since": "2026-01-31T12:00:00.000Z", "entries": []}
    api.answers["/api/v1/groups/others/story"] = api.answers["/api/v1/brokers/1/story"] = (200, story)
    api.posted["/api/v1/users/ann/permissions%3Atest"] = {"allowed": True}
    api.posted["/api/v1/cluster/adopt"] = {"adopted": []}
    same = {"changes": [], "fingerprint": "0", "notes": [], "pending": []}
    change = {"kind": "topic", "name": "flights", "action": "create", "fields": [], "warning": ""}
    api.posted["/api/v1/cluster/metadata%3Adiff"] = same if command == "cluster diff" else {**same, "changes": [change]}
    api.posted["/api/v1/cluster/metadata"] = {**same, "changes": [change]}
    api.answers["/api/v1/cluster/metadata"] = (200, {"format": 1, "topics": {"flights": {"partitions": 4}}})
    api.batches.append({"created": ["one", "two"], "existing": []})


@pytest.mark.parametrize("command", RUNS)
def test_a_command_calls_what_its_row_says(
    tube: Callable[..., Ran], api: FakeApi, command: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    prepare(api, command)
    home = tmp_path_factory.mktemp("files")
    files = {"password": "four random words here", "metadata.toml": "[topics.flights]", "same.toml": ""}
    for name, text in files.items():
        (home / name).write_text(text)
    for arguments in RUNS[command]:
        given = [str(home / one) if one in files else one for one in arguments]
        found = tube(*command.split(), *given, "--http", api.url)
        assert found.code == ExitCode.DONE, (arguments, found.err)
    asked = {route_of(method, unquote(path)) for method, path, _ in api.asked}
    assert asked == over_http(command)


def test_what_is_needed_is_what_the_servers_check() -> None:
    topic, group, cluster = ResourceKind.TOPIC, ResourceKind.GROUP, ResourceKind.CLUSTER
    (produce,) = COMMANDS["produce"]
    alone, joined = COMMANDS["consume"]
    assert permissions_of(produce) == [(Operation.PRODUCE, topic)]
    assert permissions_of(alone) == [(Operation.CONSUME, topic)]
    assert permissions_of(joined) == [(Operation.CONSUME, topic), (Operation.CONSUME, group)]
    assert permissions_of(COMMANDS["cluster alter"][0]) == [(Operation.OPERATE, cluster)]
    assert permissions_of(COMMANDS["server run"][0]) == [(Operation.BROKER, cluster)]
    assert subjects_of(COMMANDS["user token create"][0]) == [Subject.ITS_USER]
    assert subjects_of(COMMANDS["cluster health"][0]) == [Subject.ANYONE]
    for use in (use for uses in COMMANDS.values() for use in uses):
        assert bool(use.calls) is bool(permissions_of(use) or subjects_of(use)), use
    with pytest.raises(KeyError):
        permissions_of(Use(("GET /api/v1/nosuch",)))
