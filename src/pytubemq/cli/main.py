"""The tree of commands, each loaded when it is asked for."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from pytubemq._version import __version__
from pytubemq.cli.failures import report
from pytubemq.cli.lazy import Lazy, LazyGroup
from pytubemq.cli.options import GlobalOptions, global_options
from pytubemq.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Sequence

EPILOG = """\b
Examples:
  pytubemq dev                                a cluster on this machine, until Ctrl-C
  echo hello | pytubemq produce demo          a message into the topic demo
  pytubemq consume demo                       what the topic holds
"""

COMMANDS = {
    "dev": Lazy("pytubemq.cli.dev:dev", "Run Master, Broker and HTTP in one process on this machine."),
    "demo": Lazy("pytubemq.demo.command:demo", "Real flights through a cluster into Spark and Parquet, with proof."),
    "produce": Lazy("pytubemq.cli.produce:produce", "Send lines, files or JSON to a topic."),
    "consume": Lazy("pytubemq.cli.consume:consume", "Print a topic's messages, in a group or freely."),
    "topic": Lazy("pytubemq.cli.topic:topic", "Create, list, show, alter and delete topics."),
    "group": Lazy("pytubemq.cli.group:group", "List and show groups: members and lag; move them, and who did."),
    "cluster": Lazy(
        "pytubemq.cli.cluster:cluster", "Health of the cluster, who is in it, and the defaults of its topics."
    ),
    "pipeline": Lazy("pytubemq.cli.pipeline:pipeline", "From a topic to a table: write, check and run pipeline files."),
    "server": Lazy("pytubemq.cli.server:server", "Run a Master, a Broker or both from a settings file."),
    "store": Lazy("pytubemq.cli.store:store", "Look into, check, mend, export and fill a stopped server's data."),
    "bench": Lazy("pytubemq.cli.bench:bench", "Measure producing, consuming and the way from end to end."),
    "profile": Lazy("pytubemq.cli.profile:profile", "Name clusters and pick the current one."),
    "errors": Lazy("pytubemq.cli.errors:errors", "Meaning, cause and remedy of every error code."),
}


@click.group(
    "pytubemq",
    cls=LazyGroup,
    lazy=COMMANDS,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
@global_options
@click.version_option(__version__, prog_name="pytubemq", message="%(prog)s %(version)s")
def root() -> None:
    """Apache InLong TubeMQ in Python: servers, clients and tools."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; everything that goes wrong becomes a message and an exit code."""
    options = GlobalOptions()
    if "_PYTUBEMQ_COMPLETE" in os.environ:  # the shell asks what may come next
        root.main(prog_name="pytubemq")
    from pytubemq.observe.logs import escape_last_resort

    escape_last_resort()
    try:
        # Not `root.main`, which turns a closed pipe into an exit code of its own.
        given = sys.argv[1:] if arguments is None else list(arguments)
        with root.make_context("pytubemq", given, obj=options) as context:
            result = root.invoke(context)
    except BaseException as error:
        return report(error, options)
    return int(result) if isinstance(result, int) else int(ExitCode.DONE)
