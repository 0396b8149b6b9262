"""`pytubemq server`: roles from a settings file."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytubemq.cli.options import current, global_options
from pytubemq.cli.output import emit_rows
from pytubemq.errors import ConfigError

if TYPE_CHECKING:
    from pytubemq.server.compose import Endpoints, Node


@click.group()
def server() -> None:
    """Run a Master, a Broker or both from a settings file."""


@server.command("run")
@click.argument("role", type=click.Choice(["master", "broker", "all"]))
@click.option("-c", "--config", type=click.Path(path_type=Path), metavar="FILE", help="Settings (TOML).")
@click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE", help="A setting over file and environment.")
@click.option("--stop-on-eof", is_flag=True, hidden=True, help="Stop when standard input ends.")
@global_options
def run(role: str, config: Path | None, assignments: tuple[str, ...], stop_on_eof: bool) -> int:
    """Run ROLE until SIGINT or SIGTERM.

    When it serves, one line of JSON on standard output says where.
    """
    from pytubemq.observe.logs import configure
    from pytubemq.server.compose import ROLES, Node
    from pytubemq.server.run import run_node
    from pytubemq.server.sources import load_settings

    settings = load_settings(config, environ=os.environ, flags=parse_assignments(assignments))
    level = "debug" if current().verbose else settings.log.level
    configure(level=level, form=settings.log.format)

    async def on_ready(node: Node, endpoints: Endpoints) -> None:
        click.echo(json.dumps({"ready": True, **endpoints.as_dict(), "pid": os.getpid()}))
        sys.stdout.flush()

    return run_node(Node(settings, ROLES[role]), on_ready=on_ready, stop_on_eof=stop_on_eof)


@server.command("settings")
@global_options
def settings() -> None:
    """Every setting with its default and its meaning."""
    from pytubemq.server.sources import setting_rows

    emit_rows(current(), setting_rows(), ["key", "default", "environment", "meaning"], name="key")


def parse_assignments(assignments: tuple[str, ...]) -> dict[str, object]:
    """`("master.listen=127.0.0.1:1",)` as settings.

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
