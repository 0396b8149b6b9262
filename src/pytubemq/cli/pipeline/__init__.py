"""`pytubemq pipeline`: write, check, run and look after one pipeline file.

The invariant: no command loads Spark before it needs it; `init`, `lint`, `status` and `stop` never do.
"""

from __future__ import annotations

import click

from pytubemq.cli.lazy import Lazy, LazyGroup

COMMANDS = {
    "init": Lazy("pytubemq.cli.pipeline.init:init", "Write a pipeline file to begin with."),
    "lint": Lazy("pytubemq.cli.pipeline.lint:lint", "Find what is wrong with a file, without Spark or a cluster."),
    "test": Lazy("pytubemq.cli.pipeline.test:test", "Run the tests inside a file, without a cluster."),
    "dry-run": Lazy("pytubemq.cli.pipeline.dry_run:dry_run", "Connect, read ten messages, write nothing."),
    "plan": Lazy("pytubemq.cli.pipeline.plan:plan", "Say what will run, what it reads and what is guaranteed."),
    "run": Lazy("pytubemq.cli.pipeline.run:run", "Run a pipeline, with its progress."),
    "status": Lazy("pytubemq.cli.pipeline.status:status", "How a pipeline does now."),
    "stop": Lazy("pytubemq.cli.pipeline.stop:stop", "End a run after the batch in hand."),
    "report": Lazy("pytubemq.cli.pipeline.report:report", "The last run as a page of HTML."),
    "tap": Lazy("pytubemq.cli.pipeline.tap:tap", "Rows at a stage, of a few real messages."),
    "backfill": Lazy("pytubemq.cli.pipeline.backfill:backfill", "Put a range through a pipeline again."),
    "reset": Lazy("pytubemq.cli.pipeline.reset:reset", "Forget a pipeline's progress."),
    "dlq": Lazy("pytubemq.cli.pipeline.dlq:dlq", "List, show, send again and drop rejected records."),
}

EPILOG = """\b
Examples:
  pytubemq pipeline init orders.yaml          a file to begin with
  pytubemq pipeline lint orders.yaml          what is wrong with it, and where
  pytubemq pipeline test orders.yaml          its own tests, without a cluster
"""


@click.group("pipeline", cls=LazyGroup, lazy=COMMANDS, epilog=EPILOG)
def pipeline() -> None:
    """Write, check and run pipeline files, from a topic to a table."""
