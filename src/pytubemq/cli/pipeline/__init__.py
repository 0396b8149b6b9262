"""`pytubemq pipeline`: write, check, run and look after one pipeline file.

The invariant: no command loads Spark before it needs it; `lint` never does.
"""

from __future__ import annotations

import click

from pytubemq.cli.lazy import Lazy, LazyGroup

COMMANDS = {
    "lint": Lazy("pytubemq.cli.pipeline.lint:lint", "Find what is wrong with a file, without Spark or a cluster."),
}

EPILOG = """\b
Examples:
  pytubemq pipeline lint orders.yaml          what is wrong with it, and where
"""


@click.group("pipeline", cls=LazyGroup, lazy=COMMANDS, epilog=EPILOG)
def pipeline() -> None:
    """From a topic to a table, as one file says it."""
