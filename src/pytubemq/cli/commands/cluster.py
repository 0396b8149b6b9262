"""`pytubemq cluster`: its health, its members and its defaults for topics."""

from __future__ import annotations

from typing import Any

import click

from pytubemq.cli.api import SERVER_WAIT_S, Api
from pytubemq.cli.command_group import CommandGroup
from pytubemq.cli.commands.cluster_wait import DEFAULT_WAIT_S, await_healthy
from pytubemq.cli.commands.metadata import metadata
from pytubemq.cli.commands.topic_options import DEFAULTS, check_shorter, given, settings_options, yes_option
from pytubemq.cli.options import current, global_options, http_option
from pytubemq.cli.output.output import emit_object, emit_rows
from pytubemq.cli.output.words import count_of
from pytubemq.cli.target import http_url, open_api
from pytubemq.errors import ExitCode


@click.group(cls=CommandGroup)
def cluster() -> None:
    """Show the cluster's health, its members and the defaults for topics; keep its metadata in a file."""


for _command in (metadata.export, metadata.import_, metadata.diff, metadata.apply):
    cluster.add_command(_command)


@cluster.command("health")
@click.option(
    "--wait",
    "wait_s",
    is_flag=False,
    flag_value=f"{DEFAULT_WAIT_S:g}",
    type=click.FloatRange(min=0, min_open=True),
    metavar="[SECONDS]",
    help=f"Wait until it is healthy, at most this many seconds [{DEFAULT_WAIT_S:g}]; show meanwhile what is missing.",
)
@http_option
@global_options
def health(http: str | None, wait_s: float | None) -> int:
    """Show whether the cluster is healthy, and if not, why; then the exit code is 10."""
    options = current()
    url = http_url(options, http)

    def ask(timeout_s: float) -> dict[str, Any]:
        return Api(url, timeout_s=timeout_s).health()

    found = ask(options.timeout_s) if wait_s is None else await_healthy(ask, wait_s=wait_s, options=options)
    emit_object(options, found, name="status")
    return ExitCode.DONE if is_healthy(found) else ExitCode.UNHEALTHY


@cluster.command("info")
@http_option
@global_options
def info(http: str | None) -> None:
    """Show Masters and Brokers with their versions."""
    options = current()
    api = open_api(options, http)
    emit_object(options, api.get("cluster"), name="name")


@cluster.command("show")
@http_option
@global_options
def show(http: str | None) -> None:
    """Show the defaults for topics without settings of their own, and the origin of each."""
    options = current()
    api = open_api(options, http)
    emit_object(options, api.get("cluster", "defaults"), name="durability")


@cluster.command("alter")
@settings_options
@yes_option
@http_option
@global_options
def alter(yes: bool, http: str | None, **settings: str | int | None) -> None:
    """Change the defaults for topics without settings of their own, existing topics included."""
    options = current()
    body = given(settings)
    if not body:
        raise click.UsageError("say what to change: --durability, --retention or --max-message-size")
    api = open_api(options, http)
    check_shorter(api, DEFAULTS, body, yes=yes)
    found = api.patch(*DEFAULTS, body=body)
    if options.output:
        emit_object(options, found, name="durability")
    options.say(f"altered the defaults: {', '.join(f'{key} {value}' for key, value in body.items())}")


@cluster.command("adopt")
@click.option("--discard", is_flag=True,
              help="Take nothing over: the Brokers stop serving these topics but keep their files.")  # fmt: skip
@click.option("--yes", is_flag=True, help="Confirm --discard.")
@http_option
@global_options
def adopt(http: str | None, discard: bool, yes: bool) -> None:
    """Take over the topics that Brokers hold and the Master does not know, as after a loss of its metadata.

    They get the settings that their Brokers report; rules about groups are not among them. A Broker that has lost its
    topics.json too knows only how many partitions it stores: such a topic keeps its messages forever until you set its
    retention with `topic alter`.
    """
    if discard and not yes:
        raise click.UsageError("with --discard the Brokers stop serving these topics: confirm with --yes")
    options = current()
    api = open_api(options, http, extra_s=SERVER_WAIT_S)
    found = api.post("cluster", "adopt", body={"discard": discard})
    rows = found["discarded" if discard else "adopted"]
    if options.output:
        emit_rows(options, rows, ["topic", "broker", "partitions", "retention"], name="topic")
    done = "discarded" if discard else "took over"
    options.say(f"{done} {count_of(len({row['topic'] for row in rows}), 'topic')}" if rows else
                "the Master knows every topic that a Broker has: nothing to do")  # fmt: skip


def is_healthy(found: dict[str, object]) -> bool:
    """True if a health object is healthy."""
    return found.get("status") == "healthy"
