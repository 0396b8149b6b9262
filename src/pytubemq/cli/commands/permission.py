"""`pytubemq permission`: over the JSON API."""

from __future__ import annotations

import click

from pytubemq.cli.command_group import CommandGroup
from pytubemq.cli.names import this_user
from pytubemq.cli.options import current, global_options, http_option
from pytubemq.cli.output.output import emit_object, emit_rows
from pytubemq.cli.target import open_api
from pytubemq.errors import ExitCode

COLUMNS = ["user", "operation", "kind", "pattern"]


@click.group(cls=CommandGroup)
def permission() -> None:
    """Grant, revoke, list and test what users may do."""


@permission.command("grant")
@click.argument("name", metavar="USER")
@click.argument("operation")
@click.argument("kind", metavar="KIND")
@click.argument("pattern", default="*")
@http_option
@global_options
def grant(name: str, operation: str, kind: str, pattern: str, http: str | None) -> None:
    """Grant a user an OPERATION on each topic or group (KIND) that PATTERN covers, or on the cluster.

    PATTERN is a name, the start of names with * behind it, or * (the default).
    """
    options = current()
    api = open_api(options, http)
    body = {"operation": operation, "kind": kind, "pattern": pattern, "by": this_user()}
    api.post("users", name, "permissions", body=body)
    options.say(f"granted {name}: {operation} {kind} {pattern}")


@permission.command("revoke")
@click.argument("name", metavar="USER")
@click.argument("operation")
@click.argument("kind", metavar="KIND")
@click.argument("pattern", default="*")
@click.option("--force", is_flag=True, help="Do it even if that locks out a Broker, or everyone from changing users.")
@http_option
@global_options
def revoke(name: str, operation: str, kind: str, pattern: str, force: bool, http: str | None) -> None:
    """Revoke a permission, named as it was granted."""
    options = current()
    api = open_api(options, http)
    body: dict[str, object] = {"operation": operation, "kind": kind, "pattern": pattern}
    if force:
        body["force"] = True
    api.post("users", name, "permissions:revoke", body=body)
    options.say(f"revoked from {name}: {operation} {kind} {pattern}")


@permission.command("list")
@click.argument("name", metavar="[USER]", required=False)
@http_option
@global_options
def list_permissions(name: str | None, http: str | None) -> None:
    """List the permissions of a user, or of all users."""
    options = current()
    api = open_api(options, http)
    users = api.rows("users") if name is None else [api.get("users", name)]
    rows = [{"user": one["name"], **granted} for one in users for granted in one["permissions"]]
    emit_rows(options, rows, COLUMNS, name="user")


@permission.command("test")
@click.argument("name", metavar="USER")
@click.argument("operation")
@click.argument("kind", metavar="KIND")
@click.argument("resource", default="*")
@http_option
@global_options
def test(name: str, operation: str, kind: str, resource: str, http: str | None) -> int:
    """Show whether a user may do something, and by which permission; ends with 4 if it may not."""
    options = current()
    api = open_api(options, http)
    body = {"operation": operation, "kind": kind, "pattern": resource}
    found = api.post("users", name, "permissions:test", body=body)
    emit_object(options, found, name="allowed")
    return ExitCode.DONE if found["allowed"] else ExitCode.REFUSED
