"""`pytubemq user`: over the JSON API."""

from __future__ import annotations

import getpass
import warnings
from typing import TextIO

import click

from pytubemq.cli.command_group import CommandGroup
from pytubemq.cli.names import this_user
from pytubemq.cli.options import current, global_options, http_option
from pytubemq.cli.output.output import emit_object, emit_rows
from pytubemq.cli.target import open_api

COLUMNS = ["name", "enabled", "permissions", "changed_by", "changed_at"]
TOKEN_COLUMNS = ["id", "created_by", "created_at", "expires_at"]
_KEEP = "keep it now: it cannot be shown again"
_force_option = click.option(
    "--force", is_flag=True, help="Do it even if that locks out a Broker, or everyone from changing users."
)
_keep_tokens_option = click.option(
    "--keep-tokens", is_flag=True, help="Keep the user's bearer tokens, which are revoked otherwise."
)


@click.group(cls=CommandGroup)
def user() -> None:
    """Create, list, rotate, disable and remove the users of a cluster, with passwords and tokens."""


@user.command("create")
@click.argument("name")
@http_option
@global_options
def create(name: str, http: str | None) -> None:
    """Create a user without permissions, and print its secret once; with `-o name` the secret alone."""
    options = current()
    found = open_api(options, http).post("users", body={"name": name, "by": this_user()})
    emit_object(options, found, name="secret")
    options.say(_KEEP)
    options.say(f"Next:  {options.next(f'pytubemq permission grant {name} produce topic TOPIC')}")


@user.command("list")
@http_option
@global_options
def list_users(http: str | None) -> None:
    """List all users with their permissions."""
    options = current()
    rows = open_api(options, http).rows("users")
    for row in rows:
        row["permissions"] = [" ".join(one.values()) for one in row["permissions"]]
    emit_rows(options, rows, COLUMNS, name="name")


@user.command("rotate")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Confirm that clients with the old secret are refused from now on.")
@_keep_tokens_option
@http_option
@global_options
def rotate(name: str, yes: bool, keep_tokens: bool, http: str | None) -> None:
    """Give a user another secret, and print it once; `-o name` prints it alone.

    The old one no longer counts, and neither do the user's sessions and, without --keep-tokens, its bearer tokens.
    """
    if not yes:
        raise click.UsageError(
            "clients with the old secret are refused at once, and the user's sessions"
            f"{' end' if keep_tokens else ' and bearer tokens end, unless --keep-tokens is given'}: confirm with --yes"
        )
    options = current()
    api = open_api(options, http)
    body = {"by": this_user(), **_if_set(keep_tokens=keep_tokens)}
    emit_object(options, api.post("users", name, "secret", body=body), name="secret")
    options.say(_KEEP)


@user.command("disable")
@click.argument("name")
@_force_option
@http_option
@global_options
def disable(name: str, force: bool, http: str | None) -> None:
    """Refuse a user from now on; its permissions stay."""
    _set_enabled(name, http, enabled=False, force=force)


@user.command("enable")
@click.argument("name")
@http_option
@global_options
def enable(name: str, http: str | None) -> None:
    """Accept a disabled user again."""
    _set_enabled(name, http, enabled=True)


@user.command("remove")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Confirm the removal.")
@_force_option
@http_option
@global_options
def remove(name: str, yes: bool, force: bool, http: str | None) -> None:
    """Remove a user with all its permissions."""
    if not yes:
        raise click.UsageError("this removes the user with its permissions: confirm with --yes")
    options = current()
    query = {"force": "true"} if force else None
    open_api(options, http).delete("users", name, query=query)
    options.say(f"removed user {name}")


@user.command("password")
@click.argument("name")
@click.option(
    "--file", "source", type=click.File("r"), help="Read the password from a file, or with - from standard input."
)
@_keep_tokens_option
@http_option
@global_options
def password(name: str, source: TextIO | None, keep_tokens: bool, http: str | None) -> None:
    """Set a user's password for HTTP, typed at a prompt that does not show it.

    This ends the user's sessions and, if it had a password before, its bearer tokens.
    """
    options = current()
    text = _ask_password() if source is None else source.readline().rstrip("\r\n")
    api = open_api(options, http)
    api.patch("users", name, body={"password": text, "by": this_user(), **_if_set(keep_tokens=keep_tokens)})
    options.say(f"set the password of user {name}")


def _ask_password() -> str:
    """Return a password that is typed twice at the terminal, and never shown.

    Raises:
        UsageError: there is no terminal, so it would be shown or is not there.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error", getpass.GetPassWarning)
        try:
            return str(click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
        except getpass.GetPassWarning as error:
            raise click.UsageError(
                "there is no terminal to ask for the password at: give it with --file FILE, or with --file - from "
                "standard input"
            ) from error


@user.group("token")
def token() -> None:
    """Create, list and revoke bearer tokens of a user, for programs that use HTTP."""


@token.command("create")
@click.argument("name")
@click.option(
    "--days", type=click.IntRange(1), metavar="N", help="Days until the token expires; without it, it never expires."
)
@http_option
@global_options
def create_token(name: str, days: int | None, http: str | None) -> None:
    """Create a bearer token and print it once; it allows what its user may do. `-o name` prints it alone."""
    options = current()
    api = open_api(options, http)
    body = {"by": this_user(), **({} if days is None else {"days": days})}
    emit_object(options, api.post("users", name, "tokens", body=body), name="token")
    options.say(_KEEP)


@token.command("list")
@click.argument("name")
@http_option
@global_options
def list_tokens(name: str, http: str | None) -> None:
    """List the bearer tokens of a user, without their text."""
    options = current()
    rows = open_api(options, http).rows("users", name, "tokens")
    emit_rows(options, rows, TOKEN_COLUMNS, name="id")


@token.command("revoke")
@click.argument("name")
@click.argument("token_id", metavar="ID")
@http_option
@global_options
def revoke_token(name: str, token_id: str, http: str | None) -> None:
    """Revoke a bearer token; it is refused from now on."""
    options = current()
    open_api(options, http).delete("users", name, "tokens", token_id)
    options.say(f"revoked token {token_id} of user {name}")


def _set_enabled(name: str, http: str | None, *, enabled: bool, force: bool = False) -> None:
    options = current()
    api = open_api(options, http)
    api.patch("users", name, body={"enabled": enabled, "by": this_user(), **_if_set(force=force)})
    options.say(f"{'enabled' if enabled else 'disabled'} user {name}")


def _if_set(**flags: bool) -> dict[str, bool]:
    """Return the flags that are set, so that a Master that does not know the others is asked for nothing new."""
    return {name: True for name, is_set in flags.items() if is_set}
