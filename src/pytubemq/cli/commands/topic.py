"""`pytubemq topic`: over the JSON API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pytubemq.cli.api import SERVER_WAIT_S, Api
from pytubemq.cli.command_group import CommandGroup
from pytubemq.cli.commands.topic_options import check_shorter, given, settings_options, yes_option
from pytubemq.cli.names import read_topic_names, topic_name, topic_names
from pytubemq.cli.options import GlobalOptions, current, global_options, http_option
from pytubemq.cli.output.output import emit_object, emit_rows
from pytubemq.cli.output.words import count_of
from pytubemq.cli.target import open_api
from pytubemq.errors import TubeError
from pytubemq.model.limits import MAX_TOPICS_PER_CALL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TextIO

_MOST_NAMED = 8
"""Topics in one line about Brokers that are not online."""
COLUMNS = ["name", "partitions", "brokers", "messages", "state"]


@click.group(cls=CommandGroup)
def topic() -> None:
    """Create, list, show, alter and delete topics."""


@topic.command("create")
@click.argument("names", metavar="NAME...", nargs=-1, callback=topic_names)
@click.option("--file", "listed", type=click.File(encoding="utf-8"), metavar="FILE",
              help="A file with more names, one per line; - for standard input.")  # fmt: skip
@click.option("-p", "--partitions", type=click.IntRange(1, 10_000), default=4, show_default=True,
              help="Partitions on each Broker.")  # fmt: skip
@settings_options
@click.option("--exist-ok", is_flag=True, help="A topic that exists already is no error.")
@http_option
@global_options
def create(
    names: tuple[str, ...],
    listed: TextIO | None,
    partitions: int,
    exist_ok: bool,
    http: str | None,
    **settings: str | int | None,
) -> None:
    """Create topics; they can be used as soon as this returns.

    Several are created in one step, all of them or none (1,000 at a time).
    """
    options = current()
    api = open_api(options, http, extra_s=SERVER_WAIT_S)
    wanted = list(dict.fromkeys([*names, *read_topic_names(listed)]))
    if not wanted:
        raise click.UsageError("name a topic, or give a file of names with --file")
    if len(wanted) > 1:
        _create_many(options, api, wanted, {"partitions": partitions, **given(settings)}, exist_ok=exist_ok)
        return
    name = wanted[0]
    if exist_ok and any(row["name"] == name and row["brokers"] for row in api.rows("topics")):
        options.say(f"the topic {name} exists already")
        return
    made = api.post("topics", body={"name": name, "partitions": partitions, **given(settings)})
    if options.output:
        emit_object(options, made, name="name")
    options.say(f"created {name} with {_spread(made)}")
    _say_away(options, made, "creates it on return")
    options.say(f"Next:  echo hello | {options.next(f'pytubemq produce {name}')}")


def _create_many(
    options: GlobalOptions, api: Api, names: Sequence[str], settings: Mapping[str, Any], *, exist_ok: bool
) -> None:
    """Create topics in steps as large as the API takes; after an error the topics of earlier steps exist."""
    created: list[str] = []
    existing: list[str] = []
    for begin in range(0, len(names), MAX_TOPICS_PER_CALL):
        topics = [{"name": name, **settings} for name in names[begin : begin + MAX_TOPICS_PER_CALL]]
        try:
            made = api.post("topics:batch", body={"topics": topics, "exist_ok": exist_ok})
        except TubeError:
            if created or existing:
                options.say(f"the first {begin} of {len(names)} topics exist")
            raise
        created += made["created"]
        existing += made["existing"]
    if options.output:
        emit_rows(options, [{"name": name, "created": name not in set(existing)} for name in names],
                  ["name", "created"], name="name")  # fmt: skip
    there = f"; {len(existing)} existed already" if existing else ""
    each = f", each with {count_of(settings['partitions'], 'partition')} on each Broker" if created else ""
    options.say(f"created {count_of(len(created), 'topic')}{each}{there}")


@topic.command("list")
@http_option
@global_options
def list_topics(http: str | None) -> None:
    """List all topics."""
    options = current()
    rows = open_api(options, http).rows("topics")
    emit_rows(options, rows, COLUMNS, name="name")
    untold = (row for row in rows if row.get("messages") is None)
    for line in sorted({line for row in untold for line in (*row.get("unreachable", ()), *row.get("unsupported", ()))}):
        options.say(f"unknown: {line}")
    for why in sorted({row["why"] for row in rows if row.get("why")}):
        names = [row["name"] for row in rows if row.get("why") == why]
        options.say(f"{why}: {', '.join(names[:_MOST_NAMED])}{' and more' if len(names) > _MOST_NAMED else ''}")


@topic.command("show")
@click.argument("name", callback=topic_name)
@http_option
@global_options
def show(name: str, http: str | None) -> None:
    """Show a topic: its settings and the origin of each, its partitions and their offsets."""
    options = current()
    found = open_api(options, http).get("topics", name)
    emit_object(options, found, name="name")


@topic.command("alter")
@click.argument("name", callback=topic_name)
@click.option("-p", "--partitions", type=click.IntRange(1, 10_000),
              help="Partitions on each Broker; the number can only grow.")  # fmt: skip
@settings_options
@yes_option
@http_option
@global_options
def alter(name: str, yes: bool, http: str | None, **settings: str | int | None) -> None:
    """Change a topic; when this returns, the change is in force on every Broker that runs."""
    options = current()
    body = given(settings)
    if not body:
        raise click.UsageError("say what to change: --partitions, --durability, --retention or --max-message-size")
    api = open_api(options, http, extra_s=SERVER_WAIT_S)
    check_shorter(api, ("topics", name), body, yes=yes)
    found = api.patch("topics", name, body=body)
    if options.output:
        emit_object(options, found, name="name")
    options.say(f"altered {name}: {', '.join(f'{key} {value}' for key, value in body.items())}{_in_all(found, body)}")
    _say_away(options, found, "applies it on return")


@topic.command("delete")
@click.argument("name", callback=topic_name)
@click.option("--yes", is_flag=True, help="Confirm the deletion of the topic and all its messages.")
@http_option
@global_options
def delete(name: str, yes: bool, http: str | None) -> None:
    """Delete a topic with its messages from all Brokers, and wait until they have."""
    if not yes:
        raise click.UsageError(f"this permanently deletes all messages of {name}: confirm with --yes")
    options = current()
    api = open_api(options, http, extra_s=SERVER_WAIT_S)
    found = api.delete("topics", name)
    if options.output:
        emit_object(options, found, name="name")
    for place in found["pending"]:
        options.say(f"broker {place['broker']}: {place['why']}")
    if not found["removed"]:
        options.say(f"{name} is no longer in use and is being removed: it can be created again after that")
        return
    kept = "; the rules about who may consume it are kept" if found["record_kept"] else ""
    options.say(f"deleted {name}{kept}")


def _spread(topic: Mapping[str, Any]) -> str:
    """Return how many partitions a topic has in all, as in `topic list`, and on each Broker."""
    text = count_of(topic["partitions"], "partition")
    places = topic.get("places", ())
    if len(places) < 2:
        return text
    each = {place["partitions"] for place in places}
    if len(each) > 1:
        return f"{text} on {len(places)} Brokers"
    return f"{text}: {each.pop():,} on each of {len(places)} Brokers"


def _in_all(topic: Mapping[str, Any], body: Mapping[str, Any]) -> str:
    """Return how many partitions there are in all after a change of their number on each Broker."""
    several = "partitions" in body and len(topic.get("places", ())) > 1
    return f" ({_spread(topic)})" if several else ""


def _say_away(options: GlobalOptions, found: Mapping[str, Any], then: str) -> None:
    """Name the Brokers that a change has not reached: those that run have it when the Master responds."""
    for place in found.get("places", ()):
        if not place["ready"]:
            options.say(f"broker {place['broker']}: away: {then}")
