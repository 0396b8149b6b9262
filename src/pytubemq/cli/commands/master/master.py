"""`pytubemq master`: the store of a stopped Master's records."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytubemq.cli.command_group import CommandGroup
from pytubemq.cli.options import current, global_options
from pytubemq.cli.output.output import emit_object
from pytubemq.cli.output.words import count_of
from pytubemq.errors import ExitCode

if TYPE_CHECKING:
    from pytubemq.core.database.store_options import StoreOptions

_DIRECTORY = "master"


@click.group(cls=CommandGroup)
def master() -> None:
    """Move a stopped Master's records between its directory, a database and ZooKeeper."""


@master.command("migrate")
@click.option(
    "--from",
    "source",
    required=True,
    metavar="PLACE",
    help="A Master's data directory, or the URL of a database or of ZooKeeper.",
)
@click.option("--to", "target", required=True, metavar="PLACE", help="The same, of a store without records.")
@click.option(
    "--password-file",
    default="",
    metavar="FILE",
    help="The file with the password for the database or ZooKeeper; the variable PYTUBEMQ_STORE_PASSWORD takes "
    "precedence.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be copied.")
@click.option("--yes", is_flag=True, help="Copy the records.")
@global_options
def migrate_command(source: str, target: str, password_file: str, dry_run: bool, yes: bool) -> int:
    """Copy all records from one store into another, read them back and compare.

    A PLACE is a Master's data directory, a database as in postgresql://USER@HOST:PORT/DATABASE, or a node as in
    zookeeper://USER@HOST:PORT,HOST:PORT/PATH. No Master may run on either of them. The source stays as it is. A
    database needs the extra [postgres], ZooKeeper the extra [zookeeper].
    """
    from dataclasses import asdict

    from pytubemq.master.leader.migrate import migrate, name_of
    from pytubemq.server.run import run_loop

    if dry_run == yes:
        raise click.UsageError("preview it with --dry-run, then confirm with --yes")
    options = current()
    places = _place(source, password_file), _place(target, password_file)
    if places[0] == places[1]:
        raise click.UsageError("--from and --to are the same")
    found = run_loop(migrate(*places, dry_run=dry_run))
    shown = {"state": "previewed" if dry_run else "copied", "from": name_of(places[0]), "to": name_of(places[1])}
    emit_object(options, {**shown, **asdict(found)}, name="state")
    count = count_of(found.records, "record")
    if dry_run:
        more = f" --password-file {password_file}" if password_file else ""
        again = f"pytubemq master migrate --from '{source}' --to '{target}'{more} --yes"
        options.say(f"would copy {count}; nothing was changed\nNext:  {options.next(again)}")
        return ExitCode.DONE
    options.say(f"copied {count}, read them back and found them equal\nNext:  {_next_step(places[1], target)}")
    return ExitCode.DONE


def _place(text: str, password_file: str) -> Path | StoreOptions:
    from pytubemq.server.keys.store_password import database_options

    if "://" in text:
        return database_options(text, password_file, os.environ)
    path = Path(text).expanduser()
    # As for the other commands about a Master's files, the data directory or the Master's own inside it.
    return path if path.name == _DIRECTORY else path / _DIRECTORY


def _next_step(place: Path | StoreOptions, text: str) -> str:
    store = "sqlite" if isinstance(place, Path) else text
    return f"start the Master with  master.store = {store!r}"
