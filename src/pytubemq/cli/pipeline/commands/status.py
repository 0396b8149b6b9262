"""`pytubemq pipeline status`: from the state directory, without Spark."""

from __future__ import annotations

from typing import Any

import click

from pytubemq.cli.options import current, global_options
from pytubemq.cli.output.output import emit_object
from pytubemq.cli.pipeline.command_arguments import as_given, file_argument, set_option
from pytubemq.errors import ExitCode


@click.command()
@file_argument
@set_option
@global_options
def status(file: str, variables: dict[str, str]) -> int:
    """Show the pipeline of FILE (or of a state directory): its run, batches, rows, lag, and backfills.

    Ends with 10 if its last run failed or was killed, and with 3 if it has never run.
    """
    from pytubemq.pipelines import RunState, open_state, read_backfills, read_status

    options = current()
    files = open_state(file, variables=variables)
    found = read_status(files)
    whole = found.as_dict() | {"backfills": read_backfills(files)}
    emit_object(options, shown(whole) if options.output in {None, "table"} else whole, name="pipeline")
    if found.run_state is RunState.DEAD:
        again = f"{options.next('pytubemq pipeline run')} {as_given(file, variables)}"
        options.say(f"its process is gone; when started again, it continues where it stopped\nNext:  {again}")
    return ExitCode.UNHEALTHY if found.run_state in (RunState.DEAD, RunState.FAILED) else ExitCode.DONE


def shown(whole: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a table: without missing ones, and with the rows of each sink below each other."""
    whole["rows_out"] = [{"sink": sink, "rows": rows} for sink, rows in whole["rows_out"].items()]
    return {key: value for key, value in whole.items() if value not in (None, [], "")}
