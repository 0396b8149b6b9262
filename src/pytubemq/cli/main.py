"""The root command, and the run of one command line."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from pytubemq._version import __version__
from pytubemq.cli.command_table import COMMANDS
from pytubemq.cli.failures import report
from pytubemq.cli.lazy import LazyGroup
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
    """Run one command line; every error becomes a message and an exit code."""
    options = GlobalOptions()
    if "_PYTUBEMQ_COMPLETE" in os.environ:  # the shell requests completions
        root.main(prog_name="pytubemq")
    from pytubemq.observe.logs import escape_last_resort

    escape_last_resort()
    try:
        # Not `root.main`, which turns a closed pipe into an exit code of its own.
        given = sys.argv[1:] if arguments is None else list(arguments)
        with root.make_context("pytubemq", given, obj=options) as context:
            result = root.invoke(context)
    except BaseException as error:
        try:
            return report(error, options)
        except KeyboardInterrupt as interrupt:  # while the error was printed, to a pipe that nobody reads
            return report(interrupt, options)
    return int(result) if isinstance(result, int) else int(ExitCode.DONE)
