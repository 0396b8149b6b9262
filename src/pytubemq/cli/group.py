"""`pytubemq group`: over the JSON API."""

from __future__ import annotations

import click

from pytubemq.cli.api import Api
from pytubemq.cli.names import group_name
from pytubemq.cli.options import current, global_options, http_option
from pytubemq.cli.output import emit_object, emit_rows
from pytubemq.cli.target import http_url

COLUMNS = ["name", "state", "topics", "members", "lag_messages"]


@click.group()
def group() -> None:
    """List and show groups: members and lag."""


@group.command("list")
@http_option
@global_options
def list_groups(http: str | None) -> None:
    """All groups, also those without members that have confirmed something."""
    options = current()
    rows = Api(http_url(options, http), timeout_s=options.timeout_s).get("groups")
    emit_rows(options, rows, COLUMNS, name="name")


@group.command("show")
@click.argument("name", callback=group_name)
@http_option
@global_options
def show(name: str, http: str | None) -> None:
    """One group: its members, who holds what, and the lag of each partition."""
    options = current()
    found = Api(http_url(options, http), timeout_s=options.timeout_s).get("groups", name)
    emit_object(options, found, name="name")
