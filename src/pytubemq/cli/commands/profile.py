"""`pytubemq profile`: clusters by name."""

from __future__ import annotations

from dataclasses import asdict

import click

from pytubemq.cli.command_group import CommandGroup
from pytubemq.cli.names import api_url, masters_address, profile_name
from pytubemq.cli.options import current, global_options, user_options
from pytubemq.cli.output.output import emit_object, emit_rows
from pytubemq.cli.target import find_profile, http_with_absolute_files, masters, with_absolute_files
from pytubemq.server.profiles import Profile, read_profiles, remove_profile, save_profile, use_profile


@click.group(cls=CommandGroup)
def profile() -> None:
    """Name clusters and choose the current one. `pytubemq dev` writes the profile "dev"."""


@profile.command("list")
@global_options
def list_profiles() -> None:
    """List all profiles."""
    profiles = read_profiles()
    rows = [{**asdict(entry), "current": entry.name == profiles.current} for entry in profiles.by_name.values()]
    emit_rows(current(), rows, ["name", "master", "http", "current"], name="name")


@profile.command("show")
@click.argument("name", required=False)
@global_options
def show_profile(name: str | None) -> None:
    """Show a profile; without NAME the current one."""
    options = current()
    emit_object(options, asdict(read_profiles().get(name) if name else find_profile(options)), name="name")


@profile.command("use")
@click.argument("name")
@global_options
def use(name: str) -> None:
    """Make a profile the current one."""
    use_profile(name)
    current().say(f"commands now work with {name!r}")


@profile.command("add")
@click.argument("name", callback=profile_name)
@click.option("--master", required=True, callback=masters_address, metavar="HOST:PORT[,...]", help="The Masters.")
@click.option("--http", required=True, callback=api_url, metavar="URL", help="The JSON API.")
@user_options
@global_options
def add(name: str, master: str, http: str) -> None:
    """Add or replace a profile and make it the current one.

    It has the paths of files with a secret or a token, never what is in them. Relative paths are saved as absolute
    ones, so it works from every directory.
    """
    options = current()
    address = with_absolute_files(masters(options, master))
    path = save_profile(Profile(name, address, http_with_absolute_files(http)))
    options.say(f"saved in {path}; commands now work with {name!r}\nNext:  {options.next('pytubemq cluster health')}")


@profile.command("remove")
@click.argument("name")
@global_options
def remove(name: str) -> None:
    """Remove a profile; its cluster is not touched."""
    options = current()
    was_current = read_profiles().current == name
    left = remove_profile(name)
    options.say(f"removed the profile {name!r}")
    if was_current:
        text = "it was the current one: commands now work with the default ports of this machine"
        if left.by_name:
            text += f"; for another one:  {options.next('pytubemq profile use')} {min(left.by_name)}"
        options.say(text)
