"""`pytubemq group`: over the JSON API."""

from __future__ import annotations

import click

from pytubemq.cli.api import SERVER_WAIT_S, Api
from pytubemq.cli.command_group import CommandGroup
from pytubemq.cli.commands.broker.story import show_story, story_options
from pytubemq.cli.names import group_name, optional_topic_name, partition_names, reset_place, this_user, topic_name
from pytubemq.cli.options import current, global_options, http_option
from pytubemq.cli.output.output import emit_object, emit_rows
from pytubemq.cli.output.words import count_of
from pytubemq.cli.target import open_api
from pytubemq.errors import ExitCode, NotFoundError, TubeError

MOVED = ["partition", "old_offset", "new_offset", "old_lag", "new_lag"]
HISTORY = ["time", "user", "partition", "asked", "old_offset", "new_offset"]
COLUMNS = ["name", "state", "topics", "members", "lag_messages"]


@click.group(cls=CommandGroup)
def group() -> None:
    """List, show and reset consumer groups, and show their past."""


@group.command("list")
@http_option
@global_options
def list_groups(http: str | None) -> None:
    """List all groups, including those without members that have committed offsets."""
    options = current()
    rows = open_api(options, http).rows("groups")
    emit_rows(options, rows, COLUMNS, name="name")
    for line in sorted({line for row in rows for line in (*row.get("unreachable", ()), *row.get("unsupported", ()))}):
        options.say(f"unknown: {line}")


@group.command("show")
@click.argument("name", callback=group_name)
@click.option("--topic", callback=optional_topic_name, metavar="TOPIC",
              help="Show this topic only: its lag, and whether the group may consume it.")  # fmt: skip
@http_option
@global_options
def show(name: str, topic: str | None, http: str | None) -> None:
    """Show a group: its members, their partitions and lag, and the reason if it gets no messages."""
    options = current()
    api = open_api(options, http)
    found = api.get("groups", name, query=None if topic is None else {"topic": topic})
    emit_object(options, found, name="name")


@group.command("reset")
@click.argument("name", callback=group_name)
@click.option("--topic", required=True, callback=topic_name, help="The topic whose offsets are reset.")
@click.option("--partition", "partitions", multiple=True, callback=partition_names, metavar="P",
              help="Only this one: 0 (of each Broker) or 1:0 (of Broker 1); may be repeated.")  # fmt: skip
@click.option("--to", "place", required=True, callback=reset_place, metavar="PLACE",
              help="earliest, latest, a time (2026-01-31T12:00:00Z; without a zone: of this machine's clock), one ago "
              "(-10m; s, m, h, d), offset:N, or number:N (N messages from the first one ever).")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Show the result without changing anything.")
@click.option("--yes", is_flag=True, help="Confirm the reset; active members continue at the new offset at once.")
@http_option
@global_options
def reset(
    name: str, topic: str, partitions: tuple[str, ...], place: str, dry_run: bool, yes: bool, http: str | None
) -> None:
    """Move a group to another offset in a topic, with or without active members."""
    if not dry_run and not yes:
        raise click.UsageError("this moves the group: preview it with --dry-run, then confirm with --yes")
    options = current()
    api = open_api(options, http, extra_s=SERVER_WAIT_S)
    body = {"topic": topic, "to": place, "partitions": list(partitions), "dry_run": dry_run, "user": this_user()}
    found = api.post("groups", name, "resets", body=body)
    emit_rows(options, found["partitions"], MOVED, name="partition")
    done = "would move" if dry_run else "moved"
    options.say(f"{done} {name} in {topic} to {found['to']}: {count_of(len(found['partitions']), 'partition')}")
    if dry_run and all(one["old_offset"] is None for one in found["partitions"]) and not _is_known(api, name):
        options.say(f"note: no group {name} is known yet; the reset gives it its first offsets")


@group.command("history")
@click.argument("name", callback=group_name)
@http_option
@global_options
def history(name: str, http: str | None) -> int:
    """Show who reset a group, when, from where to where; the newest first.

    Ends with 5 if Brokers do not respond, and with 3 if there is no such group and never was a reset.
    """
    options = current()
    api = open_api(options, http, extra_s=SERVER_WAIT_S)
    found = api.get("groups", name, "resets")
    if not found["resets"] and not found["unreachable"]:
        api.get("groups", name)  # fails if there is none, as for a misspelt name
    emit_rows(options, found["resets"], HISTORY, name="partition")
    for line in (*found["unreachable"], *found["unsupported"]):
        options.say(f"unknown: {line}")
    return ExitCode.UNREACHABLE if found["unreachable"] else ExitCode.DONE


@group.command("story")
@click.argument("name", callback=group_name)
@story_options
@http_option
@global_options
def story(name: str, since: str | None, limit: int, http: str | None) -> None:
    """Show what happened to a group, the newest first, with reasons.

    Members that joined, left or timed out, partitions given and taken, resets, rules.
    """
    options = current()
    api = open_api(options, http)
    if not show_story(options, api, "groups", name, since=since, limit=limit) and since is None:
        api.get("groups", name)  # fails if there is none, as for a misspelt name


def _is_known(api: Api, group: str) -> bool:
    """Return False if the cluster knows no such group."""
    try:
        api.get("groups", group)
    except NotFoundError:
        return False
    except TubeError:
        pass  # Brokers that are away may know it
    return True
