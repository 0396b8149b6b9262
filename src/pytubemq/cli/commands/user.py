"""`pytubemq user`: over the JSON API."""

from __future__ import annotations

import click

from pytubemq.cli.api import Api
from pytubemq.cli.names import this_user
from pytubemq.cli.options import current, global_options, http_option
from pytubemq.cli.output.output import emit_object, emit_rows
from pytubemq.cli.target import http_url

COLUMNS = ["name", "enabled", "permissions", "changed_by", "changed_at"]
_KEEP = "keep it now: it cannot be shown again"


@click.group()
def user() -> None:
    """Create, list, rotate, disable and remove the users of a cluster."""


@user.command("create")
@click.argument("name")
@http_option
@global_options
def create(name: str, http: str | None) -> None:
    """Create a user without permissions, and print its secret once."""
    options = current()
    found = Api(http_url(options, http), timeout_s=options.timeout_s).post(
        "users", body={"name": name, "by": this_user()}
    )
    emit_object(options, found, name="secret")
    options.say(_KEEP)
    options.say(f"Next:  pytubemq permission grant {name} produce topic TOPIC")


@user.command("list")
@http_option
@global_options
def list_users(http: str | None) -> None:
    """List all users with their permissions."""
    options = current()
    rows = Api(http_url(options, http), timeout_s=options.timeout_s).rows("users")
    for row in rows:
        row["permissions"] = [" ".join(one.values()) for one in row["permissions"]]
    emit_rows(options, rows, COLUMNS, name="name")


@user.command("rotate")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Confirm that clients with the old secret are refused from now on.")
@http_option
@global_options
def rotate(name: str, yes: bool, http: str | None) -> None:
    """Give a user another secret, and print it once; the old one counts no longer."""
    if not yes:
        raise click.UsageError("clients with the old secret are refused at once: confirm with --yes")
    options = current()
    api = Api(http_url(options, http), timeout_s=options.timeout_s)
    emit_object(options, api.post("users", name, "secret", body={"by": this_user()}), name="secret")
    options.say(_KEEP)


@user.command("disable")
@click.argument("name")
@http_option
@global_options
def disable(name: str, http: str | None) -> None:
    """Refuse a user from now on; its permissions stay."""
    _set_enabled(name, http, enabled=False)


@user.command("enable")
@click.argument("name")
@http_option
@global_options
def enable(name: str, http: str | None) -> None:
    """Let a disabled user in again."""
    _set_enabled(name, http, enabled=True)


@user.command("remove")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Confirm the removal.")
@http_option
@global_options
def remove(name: str, yes: bool, http: str | None) -> None:
    """Remove a user with all its permissions."""
    if not yes:
        raise click.UsageError("this removes the user with its permissions: confirm with --yes")
    options = current()
    Api(http_url(options, http), timeout_s=options.timeout_s).delete("users", name)
    options.say(f"removed user {name}")


def _set_enabled(name: str, http: str | None, *, enabled: bool) -> None:
    options = current()
    api = Api(http_url(options, http), timeout_s=options.timeout_s)
    api.patch("users", name, body={"enabled": enabled, "by": this_user()})
    options.say(f"{'enabled' if enabled else 'disabled'} user {name}")
