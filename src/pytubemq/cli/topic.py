"""`pytubemq topic`: over the JSON API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pytubemq.cli.api import SERVER_WAIT_S, Api
from pytubemq.cli.names import topic_name
from pytubemq.cli.options import GlobalOptions, current, global_options, http_option
from pytubemq.cli.output import emit_object, emit_rows
from pytubemq.cli.target import http_url
from pytubemq.cli.topic_options import given, settings_options
from pytubemq.cli.words import count_of

if TYPE_CHECKING:
    from collections.abc import Mapping

COLUMNS = ["name", "partitions", "brokers", "messages"]


@click.group()
def topic() -> None:
    """Create, list, show, alter and delete topics."""


@topic.command("create")
@click.argument("name", callback=topic_name)
@click.option("-p", "--partitions", type=click.IntRange(1, 10_000), default=4, show_default=True,
              help="Partitions on each Broker.")  # fmt: skip
@settings_options
@click.option("--exist-ok", is_flag=True, help="A topic that exists already is no error.")
@http_option
@global_options
def create(name: str, partitions: int, exist_ok: bool, http: str | None, **settings: str | int | None) -> None:
    """Create a topic; it can be used as soon as this returns."""
    options = current()
    api = Api(http_url(options, http), timeout_s=options.timeout_s + SERVER_WAIT_S)
    if exist_ok and any(row["name"] == name and row["brokers"] for row in api.rows("topics")):
        options.say(f"the topic {name} exists already")
        return
    made = api.post("topics", body={"name": name, "partitions": partitions, **given(settings)})
    if options.output:
        emit_object(options, made, name="name")
    options.say(f"created {name} with {count_of(partitions, 'partition')}")
    _say_away(options, made, "makes it on return")
    options.say(f"Next:  echo hello | {options.next(f'pytubemq produce {name}')}")


@topic.command("list")
@http_option
@global_options
def list_topics(http: str | None) -> None:
    """All topics."""
    options = current()
    rows = Api(http_url(options, http), timeout_s=options.timeout_s).rows("topics")
    emit_rows(options, rows, COLUMNS, name="name")


@topic.command("show")
@click.argument("name", callback=topic_name)
@http_option
@global_options
def show(name: str, http: str | None) -> None:
    """One topic: durability, retention and who said so, its partitions and their offsets."""
    options = current()
    found = Api(http_url(options, http), timeout_s=options.timeout_s).get("topics", name)
    emit_object(options, found, name="name")


@topic.command("alter")
@click.argument("name", callback=topic_name)
@click.option("-p", "--partitions", type=click.IntRange(1, 10_000),
              help="Partitions on each Broker; they can only be more.")  # fmt: skip
@settings_options
@http_option
@global_options
def alter(name: str, http: str | None, **settings: str | int | None) -> None:
    """Change a topic; it is so on every Broker that runs when this returns."""
    options = current()
    body = given(settings)
    if not body:
        raise click.UsageError("say what to change: --partitions, --durability, --retention or --max-message-size")
    api = Api(http_url(options, http), timeout_s=options.timeout_s + SERVER_WAIT_S)
    found = api.patch("topics", name, body=body)
    if options.output:
        emit_object(options, found, name="name")
    options.say(f"altered {name}: {', '.join(f'{key} {value}' for key, value in body.items())}")
    _say_away(options, found, "takes it up on return")


@topic.command("delete")
@click.argument("name", callback=topic_name)
@click.option("--yes", is_flag=True, help="Needed, as all messages of the topic go with it.")
@http_option
@global_options
def delete(name: str, yes: bool, http: str | None) -> None:
    """Delete a topic with its messages from all Brokers, and wait until they have."""
    if not yes:
        raise click.UsageError(f"this deletes all messages of {name}, for ever: say so with --yes")
    options = current()
    api = Api(http_url(options, http), timeout_s=options.timeout_s + SERVER_WAIT_S)
    found = api.delete("topics", name)
    if options.output:
        emit_object(options, found, name="name")
    for place in found["pending"]:
        options.say(f"broker {place['broker']}: {place['why']}")
    if not found["removed"]:
        options.say(f"{name} is out of use, and being removed: it can be created again when that is done")
        return
    kept = "; the rules about who may consume it are kept" if found["record_kept"] else ""
    options.say(f"deleted {name}{kept}")


def _say_away(options: GlobalOptions, found: Mapping[str, Any], then: str) -> None:
    """Name the Brokers that a change has not come to: those that run have it when the Master answers."""
    for place in found.get("places", ()):
        if not place["ready"]:
            options.say(f"broker {place['broker']}: away: {then}")
