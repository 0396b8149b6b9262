"""`pytubemq cluster export`, `import`, `diff` and `apply`: over the JSON API."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from pytubemq.cli.api import SERVER_WAIT_S, Api
from pytubemq.cli.commands.metadata.metadata_file import metadata_text, read_metadata, write_metadata
from pytubemq.cli.options import current, global_options, http_option
from pytubemq.cli.output.output import emit_lines, emit_object
from pytubemq.cli.output.words import count_of
from pytubemq.cli.target import open_api
from pytubemq.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.cli.options import GlobalOptions

_PATH: Final = ("cluster", "metadata")
_SIGNS: Final = {"create": "+", "change": "~", "remove": "-"}
_FILE: Final = click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
_PRUNE: Final = click.option(
    "--prune",
    is_flag=True,
    help="Remove the topics (with their messages), groups, rules, users and permissions that a section of the file "
    "does not name, and reset the keys that an entry does not; sections that the file does not have stay.",
)
_YES: Final = click.option("--yes", is_flag=True, help="Confirm the changes.")


@click.command("export")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), required=False)
@http_option
@global_options
def export(file: Path | None, http: str | None) -> None:
    """Write the cluster's metadata as TOML to FILE, or to standard output.

    It has the topics, groups, rules, Brokers, users with their permissions, and the cluster's settings, in a stable
    order; no secrets, no messages and no offsets.
    """
    options = current()
    found = open_api(options, http).get(*_PATH)
    if file is not None:
        write_metadata(file, metadata_text(found))
        topics, groups, users = (len(found.get(section, ())) for section in ("topics", "groups", "users"))
        options.say(
            f"wrote {file}: {count_of(topics, 'topic')}, {count_of(groups, 'group')}, {count_of(users, 'user')}"
        )
    elif options.output:
        emit_object(options, found, name="format")
    else:
        emit_lines(metadata_text(found).removesuffix("\n").split("\n"))


@click.command("diff")
@_FILE
@_PRUNE
@http_option
@global_options
def diff(file: Path, prune: bool, http: str | None) -> int:
    """Show what `apply` would change. The exit code is 0 if nothing differs, and 11 if something does."""
    options = current()
    found = _diff(open_api(options, http), read_metadata(file), _query(prune=prune))
    _show(options, found)
    _say_notes(options, found)
    return ExitCode.DIFFERENT if found["changes"] else ExitCode.DONE


@click.command("apply")
@_FILE
@_PRUNE
@_YES
@http_option
@global_options
def apply(file: Path, prune: bool, yes: bool, http: str | None) -> int:
    """Change the cluster's metadata as FILE declares, in one step or not at all, after a preview.

    What the file does not name stays, unless it is pruned. A new user has no secret: `pytubemq user rotate` makes one.
    """
    return _apply(file, _query(prune=prune), yes=yes, http=http)


@click.command("import")
@_FILE
@_YES
@http_option
@global_options
def import_(file: Path, yes: bool, http: str | None) -> int:
    """Create what FILE has and the cluster does not; nothing that exists is changed."""
    return _apply(file, {"only_new": "true"}, yes=yes, http=http)


def _apply(file: Path, query: dict[str, str], *, yes: bool, http: str | None) -> int:
    options = current()
    metadata = read_metadata(file)
    api = open_api(options, http, extra_s=SERVER_WAIT_S)
    found = _diff(api, metadata, query)
    if not found["changes"]:
        _show(options, found)
        _say_notes(options, found)
        return ExitCode.DONE
    if not yes:
        _show(options, found)
        _say_notes(options, found)
        raise click.UsageError("nothing was changed: confirm these changes with --yes")
    done = api.post(*_PATH, body=metadata, query={**query, "expect": found["fingerprint"]})
    _show(options, done)
    _say_notes(options, done)
    options.say(f"applied: {_summary(done)}")
    for line in done["pending"]:
        options.say(f"not yet everywhere: {line}")
    return ExitCode.UNREACHABLE if done["pending"] else ExitCode.DONE


def _query(*, prune: bool) -> dict[str, str]:
    return {"prune": "true"} if prune else {}


def _diff(api: Api, metadata: dict[str, Any], query: dict[str, str]) -> dict[str, Any]:
    return api.post("cluster", "metadata:diff", body=metadata, query=query)


def _show(options: GlobalOptions, found: dict[str, Any]) -> None:
    if options.output:
        emit_object(options, found, name="fingerprint")
    elif found["changes"]:
        emit_lines(_lines(found["changes"]))
    else:
        options.say("no differences")


def _say_notes(options: GlobalOptions, found: dict[str, Any]) -> None:
    for line in found["notes"]:
        options.say(f"note: {line}")


def _lines(changes: list[dict[str, Any]]) -> Iterator[str]:
    for change in changes:
        name = change["kind"] if change["kind"] == "cluster" else f"{change['kind']} {change['name']}"
        warning = f"   ({change['warning']})" if change["warning"] else ""
        yield f"{_SIGNS[change['action']]} {name}{warning}"
        for field in change["fields"]:
            before, after = _word(field["before"]), _word(field["after"])
            yield f"    {field['key']}: " + (after if change["action"] == "create" else f"{before} -> {after}")


def _word(value: Any) -> str:
    if value is None:
        return "not set"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if value != "" else '""'


def _summary(found: dict[str, Any]) -> str:
    actions = [change["action"] for change in found["changes"]]
    words = {"create": "created", "change": "changed", "remove": "removed"}
    return ", ".join(f"{actions.count(one):,} {words[one]}" for one in words if one in actions)
