"""`pytubemq cluster`: how it is, and who is in it."""

from __future__ import annotations

import click

from pytubemq.cli.api import Api
from pytubemq.cli.options import current, global_options, http_option
from pytubemq.cli.output import emit_object
from pytubemq.cli.target import http_url
from pytubemq.errors import ExitCode


@click.group()
def cluster() -> None:
    """Health of the cluster and who is in it."""


@cluster.command("health")
@http_option
@global_options
def health(http: str | None) -> int:
    """A verdict with reasons; exit code 10 when it is not healthy."""
    options = current()
    found = Api(http_url(options, http), timeout_s=options.timeout_s).health()
    emit_object(options, found, name="status")
    return ExitCode.DONE if is_healthy(found) else ExitCode.UNHEALTHY


@cluster.command("info")
@http_option
@global_options
def info(http: str | None) -> None:
    """Masters, Brokers and their versions."""
    options = current()
    api = Api(http_url(options, http), timeout_s=options.timeout_s)
    emit_object(options, api.get("cluster"), name="name")


def is_healthy(found: dict[str, object]) -> bool:
    """The verdict of a health object."""
    return found.get("status") == "healthy"
