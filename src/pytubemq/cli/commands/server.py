"""`pytubemq server`: roles from a settings file."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytubemq.cli.command_group import CommandGroup
from pytubemq.cli.options import current, global_options
from pytubemq.cli.output.output import emit_rows
from pytubemq.errors import ConfigError, TubeError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytubemq.server.settings import Settings


@click.group(cls=CommandGroup)
def server() -> None:
    """Run a Master, a Broker or both from a settings file."""


@server.command("run")
@click.argument("role", type=click.Choice(["master", "broker", "all"]))
@click.option("-c", "--config", type=click.Path(path_type=Path), metavar="FILE", help="The settings file (TOML).")
@click.option(
    "--set", "assignments", multiple=True, metavar="KEY=VALUE", help="A setting; overrides file and environment."
)
@click.option(
    "--workers",
    type=click.IntRange(1),
    metavar="N",
    help="Run N Brokers as processes of this machine, with ids, ports and directories that follow each other.",
)
@click.option(
    "--worker-ip",
    "ips",
    default="",
    metavar="IP,...|spread",
    help="An address for each worker, or `spread`: that of broker.listen and those that follow it.",
)
@click.option("--stop-on-eof", is_flag=True, hidden=True, help="Stop when standard input ends.")
@click.option("--log-name", default="", hidden=True, help="A name shown in each log line.")
@global_options
def run(
    role: str,
    config: Path | None,
    assignments: tuple[str, ...],
    workers: int | None,
    ips: str,
    stop_on_eof: bool,
    log_name: str,
) -> int:
    """Run ROLE until SIGINT or SIGTERM.

    When it serves, one line of JSON on standard output has its addresses.
    """
    from pytubemq.observe.logs import configure
    from pytubemq.server.sources import load_settings

    if workers is not None and role != "broker":
        raise click.UsageError("--workers is for the role broker; run the Master separately")
    if ips and workers is None:
        raise click.UsageError("--worker-ip has the addresses of workers: give --workers N as well")
    settings = load_settings(config, environ=os.environ, flags=parse_assignments(assignments))
    level = "debug" if current().verbose else settings.log.level
    name = "workers" if workers is not None else log_name
    configure(level=level, form=settings.log.format, name=name, story=settings.log.story)
    if workers is not None:
        return _run_workers(settings, workers, ips, stop_on_eof=stop_on_eof)
    return _run_node(settings, role, stop_on_eof=stop_on_eof, shares_log=bool(log_name))


def _run_node(settings: Settings, role: str, *, stop_on_eof: bool, shares_log: bool) -> int:
    from pytubemq.server.compose import ROLES, Node
    from pytubemq.server.processes import failed_line
    from pytubemq.server.run import run_node

    node = Node(settings, ROLES[role])
    serves = False

    async def on_ready() -> None:
        nonlocal serves
        serves = True
        refusal = {} if node.refused_by_master is None else {"refused_by_master": node.refused_by_master}
        _ready({**node.endpoints.as_dict(), **refusal})

    try:
        return run_node(node, on_ready=on_ready, stop_on_eof=stop_on_eof, on_message=node.on_message)
    except TubeError as error:
        if stop_on_eof and not serves:  # the parent process waits for this line, and reports the error itself
            click.echo(failed_line(error))
            sys.stdout.flush()
            if shares_log:  # where the parent logs it too
                return error.exit_code
        raise


def _run_workers(settings: Settings, count: int, ips: str, *, stop_on_eof: bool) -> int:
    from pytubemq.server.run import run_node
    from pytubemq.server.workers.worker_plan import check_directories, plan_workers
    from pytubemq.server.workers.workers import Workers

    plans = plan_workers(settings, count, ips=ips)
    check_directories(settings, plans)
    several = Workers(plans)

    async def on_ready() -> None:
        _ready({"workers": [worker.row() for worker in several.workers]})

    return run_node(several, on_ready=on_ready, stop_on_eof=stop_on_eof)


def _ready(where: Mapping[str, object]) -> None:
    click.echo(json.dumps({"ready": True, **where, "pid": os.getpid()}))
    sys.stdout.flush()


@server.command("settings")
@global_options
def settings() -> None:
    """List every setting with its default and meaning."""
    from pytubemq.server.sources import setting_rows

    emit_rows(current(), setting_rows(), ["key", "default", "environment", "meaning"], name="key")


def parse_assignments(assignments: tuple[str, ...]) -> dict[str, object]:
    """Return `("master.listen=127.0.0.1:1",)` as settings.

    Raises:
        ConfigError: one has no `=`.
    """
    found: dict[str, object] = {}
    for item in assignments:
        key, equals, value = item.partition("=")
        if not equals:
            raise ConfigError(f"--set {item!r} has no value", hint="write --set KEY=VALUE, as in --set broker.id=2")
        found[key.strip()] = value.strip()
    return found
