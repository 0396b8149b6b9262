"""`pytubemq dev`: a cluster in one command."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytubemq._version import __version__
from pytubemq.cli.api import TOKEN_VARIABLE
from pytubemq.cli.invocation import commands_as_typed
from pytubemq.cli.options import GlobalOptions, current, global_options, is_default
from pytubemq.cli.output.output import emit_object
from pytubemq.cli.output.words import count_of, size
from pytubemq.cli.target import DEV_DATA
from pytubemq.errors import DirectoryLockedError
from pytubemq.model.names import escaped

if TYPE_CHECKING:
    from pytubemq.server.dev import DevReady


@click.command()
@click.option("--data", type=click.Path(path_type=Path), default=DEV_DATA, show_default=True, metavar="DIR",
              help="The data directory.")  # fmt: skip
@click.option("--ephemeral", is_flag=True, help="Use a temporary directory and delete it at the end.")
@click.option(
    "--set", "assignments", multiple=True, metavar="KEY=VALUE",
    help="A setting, as in master.listen=127.0.0.1:9715; `server settings` lists all.",
)  # fmt: skip
@click.option("--secure", is_flag=True, help="Authentication and TLS, no port without TLS; needs the extra [secure].")
@click.option("--until-ready", is_flag=True, help="Stop as soon as it is ready (for scripts).")
@global_options
def dev(data: Path, ephemeral: bool, assignments: tuple[str, ...], secure: bool, until_ready: bool) -> int:
    """Run Master, Broker and HTTP in one process on this machine.

    A second start on the same directory continues where the first stopped. Other commands find the cluster by the
    profile "dev", which exists while it runs; of two at once the second is "dev-2" and reached with -P dev-2.

    With --secure it makes certificates, a user "admin" and an HTTP token in DIR/access, and opens no port without TLS.
    """
    if ephemeral and not is_default("data"):
        raise click.UsageError("--ephemeral keeps nothing, --data DIR keeps everything: give one of them")
    from pytubemq.cli.commands.server import parse_assignments
    from pytubemq.observe.logs import configure
    from pytubemq.server.dev import run_dev

    flags = parse_assignments(assignments)
    if "data" in flags:
        raise click.UsageError("set the data directory of dev with --data DIR, not with --set data=DIR")
    started_s = time.perf_counter()
    options = current()
    configure(level="info" if options.verbose else "warning", form="text")
    scratch = Path(tempfile.mkdtemp(prefix="pytubemq-dev-")) if ephemeral else None

    def announce(ready: DevReady) -> None:
        seconds = time.perf_counter() - started_s
        show(options, ready, seconds=seconds, kept=scratch is None, stays=not until_ready)

    try:
        code = run_dev(
            data_dir=scratch or data,
            environ=os.environ,
            flags=flags,
            announce=announce,
            until_ready=until_ready,
            secure=secure,
        )
    except DirectoryLockedError as error:
        error.hint = f"stop that process, or start a second cluster:  {options.next('pytubemq dev')} --data DIR"
        raise
    finally:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)
    options.say(f"stopped; {'everything is deleted' if scratch else f'kept in {data}'}")
    return code


def show(options: GlobalOptions, ready: DevReady, *, seconds: float, kept: bool, stays: bool) -> None:
    """Print the addresses, the next commands and how to stop."""
    endpoints = ready.endpoints
    if options.output:
        row = {**endpoints.as_dict(), "data": str(ready.data_dir), "profile": ready.profile, **_files(ready)}
        emit_object(options, row, name="master" if ready.access is None else "master_tls")
    tick = click.style("✓", fg="green") if options.colour else "✓"
    broker = f"broker {ready.broker_id}".ljust(8)
    free = size(shutil.disk_usage(ready.data_dir).free)
    lines = [
        f"pytubemq {__version__}   Master, Broker and HTTP in one process   "
        f"data {ready.data_dir} ({'kept' if kept else 'deleted at the end'})",
        *(f"  ! {escaped(_typed(note))}" for note in ready.notes),
        f"  {tick} master    {endpoints.master or f'{endpoints.master_tls} over TLS'}",
        f"  {tick} {broker}  {endpoints.broker or f'{endpoints.broker_tls} over TLS'}    disk free {free}",
        f"  {tick} http      {endpoints.http}    {_protection(ready)}; a page of links",
        *([f"  {tick} {broker}  {endpoints.broker_http}"] if endpoints.broker_http else []),
        f"  {'!' if ready.away or not ready.partitions else tick} topic     {_topic(ready)}    {_reached_by(ready)}",
        *(
            []
            if ready.access is None
            else [f"  {tick} access    user {ready.access.user}, files in {ready.access.directory}"]
        ),
        f"ready in {seconds:.1f} s" + ("; Ctrl-C stops everything" if stays else ""),
    ]
    if stays and ready.partitions and ready.is_served:
        lines += _next_steps(options, ready)
    options.say("\n".join(lines))


def _files(ready: DevReady) -> dict[str, str]:
    """Return the files that a client needs to connect; empty without --secure."""
    access = ready.access
    if access is None:
        return {}
    return {
        "ca": str(access.certificates.ca),
        "user": access.user,
        "secret_file": str(access.secret_file),
        "token_file": str(access.token_file),
    }


def _next_steps(options: GlobalOptions, ready: DevReady) -> list[str]:
    """Return the lines that say what to type next."""
    where = "" if ready.current else f" -P {ready.profile}"
    produce, consume = (options.next(f"pytubemq {name} {ready.topic}{where}") for name in ("produce", "consume"))
    lines = [f"Next, in another terminal:  echo hello | {produce} && {consume}"]
    if ready.access is not None and ready.endpoints.master_tls is not None:
        address = ready.access.master_address(ready.endpoints.master_tls)
        create = options.next(f"pytubemq user create NAME{where}")
        lines += [f"for a user with fewer permissions:  {create}", f'in Python:  pytubemq.connect("{address}")']
    return lines


def _topic(ready: DevReady) -> str:
    """Return the demo topic's state."""
    if not ready.partitions:
        return f"{ready.topic} does not exist"
    partitions = f"{ready.topic}, {count_of(ready.partitions, 'partition')}"
    if not ready.away:
        return partitions
    return f"{partitions}, of which those of {' and '.join(f'Broker {broker}' for broker in ready.away)} are away"


def _typed(note: str) -> str:
    from pytubemq.cli.command_table import COMMANDS

    return commands_as_typed(note, list(COMMANDS))


def _protection(ready: DevReady) -> str:
    """Return who may use the HTTP address, and whether a change needs the token."""
    if ready.access is not None:
        return "TLS, loopback only; calls need the token, which the profile names"
    has_tls = (ready.endpoints.http or "").startswith("https:")
    lacks = [
        name for name, is_there in (("TLS", has_tls or not ready.insecure), ("login", ready.asks_who)) if not is_there
    ]
    reach = "insecure = true" if ready.insecure else "loopback only"
    if lacks:
        reach += f", no {' and no '.join(lacks)}"
    return f"{reach}, but changes need the token ({TOKEN_VARIABLE})" if ready.has_token else reach


def _reached_by(ready: DevReady) -> str:
    if ready.current:
        return f'profile "{ready.profile}" is current'
    return f"another one runs: reach this one with -P {ready.profile}"
