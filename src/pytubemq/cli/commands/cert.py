"""`pytubemq cert`: certificates for a trial cluster."""

from __future__ import annotations

from pathlib import Path

import click

from pytubemq.cli.command_group import CommandGroup
from pytubemq.cli.options import current, global_options
from pytubemq.cli.output.output import emit_object
from pytubemq.server.trial_certificates import DEFAULT_DAYS, MAX_DAYS, key_of, make_trial_certificates


@click.group(cls=CommandGroup)
def cert() -> None:
    """Make a CA and certificates for TLS in a trial cluster."""


@cert.command("make")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path), metavar="DIR")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="A name or address of a server, besides localhost, 127.0.0.1 and this machine's name; repeatable.",
)
@click.option("--client", "client_name", default="client", metavar="NAME", help="The client's name [client].")
@click.option(
    "--days",
    type=click.IntRange(1, MAX_DAYS),
    default=DEFAULT_DAYS,
    help=f"How long they are valid [{DEFAULT_DAYS}].",
)
@global_options
def make(directory: Path, hosts: tuple[str, ...], client_name: str, days: int) -> None:
    """Write a CA, a server's and a client's certificate into DIR, each with its key.

    Existing files are never overwritten. Needs the extra [secure].
    """
    options = current()
    files = make_trial_certificates(directory, hosts=hosts, client_name=client_name, days=days)
    emit_object(
        options,
        {
            "ca": str(files.ca),
            "server_cert": str(files.server),
            "server_key": str(key_of(files.server)),
            "client_cert": str(files.client),
            "client_key": str(key_of(files.client)),
            "days": days,
        },
        name="ca",
    )
    options.say(
        f"Next:  pytubemq server run all --set tls.cert={files.server} --set tls.key={key_of(files.server)}\n"
        f"then:  pytubemq consume TOPIC --master 'tls://127.0.0.1?ca={files.ca}'"
    )
