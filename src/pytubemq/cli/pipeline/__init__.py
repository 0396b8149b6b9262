"""`pytubemq pipeline`: write, check, run and look after one pipeline file.

The invariant: no command loads Spark before it needs it; `init`, `lint`, `status` and `stop` never do.
"""

from __future__ import annotations

import click

from pytubemq.cli.lazy import Lazy, LazyGroup


def _command(name: str, about: str) -> Lazy:
    return Lazy(f"pytubemq.cli.pipeline.commands.{name}:{name}", about)


COMMANDS = {
    "init": _command("init", "Write a first pipeline file."),
    "lint": Lazy(
        "pytubemq.cli.pipeline.commands.lint:lint", "Find what is wrong with a file, without Spark or a cluster."
    ),
    "test": _command("test", "Run the tests inside a file, without a cluster."),
    "dry-run": _command("dry_run", "Connect, read ten messages, write nothing."),
    "plan": Lazy(
        "pytubemq.cli.pipeline.commands.plan:plan", "Show what will run, what it reads and what is guaranteed."
    ),
    "run": _command("run", "Run a pipeline, with its progress."),
    "status": _command("status", "Show the state of a pipeline."),
    "stop": _command("stop", "End a run after the current batch."),
    "report": _command("report", "Write the last run as a page of HTML."),
    "tap": _command("tap", "Show rows at a stage, of a few real messages."),
    "backfill": _command("backfill", "Run a range of the topic through a pipeline again."),
    "reset": _command("reset", "Forget a pipeline's progress."),
    "dlq": _command("dlq", "List, show, send again and drop rejected records."),
}

EPILOG = """\b
Examples:
  pytubemq pipeline init orders.yaml          write a first file
  pytubemq pipeline lint orders.yaml          what is wrong with it, and where
  pytubemq pipeline test orders.yaml          its own tests, without a cluster
"""


@click.group("pipeline", cls=LazyGroup, lazy=COMMANDS, epilog=EPILOG)
def pipeline() -> None:
    """Write, check and run pipeline files, from a topic to a table."""
