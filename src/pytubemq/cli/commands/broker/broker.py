"""`pytubemq broker`: over the JSON API."""

from __future__ import annotations

import click

from pytubemq.cli.command_group import CommandGroup
from pytubemq.cli.commands.broker.story import show_story, story_options
from pytubemq.cli.options import current, global_options, http_option
from pytubemq.cli.target import open_api


@click.group(cls=CommandGroup)
def broker() -> None:
    """Show what happened to a Broker, and why."""


@broker.command("story")
@click.argument("broker_id", metavar="ID", type=click.IntRange(1))
@story_options
@http_option
@global_options
def story(broker_id: int, since: str | None, limit: int, http: str | None) -> None:
    """Show what happened to a Broker, the newest first: registered, lost, faults, changes; each with its reason."""
    options = current()
    show_story(options, open_api(options, http), "brokers", str(broker_id), since=since, limit=limit)
