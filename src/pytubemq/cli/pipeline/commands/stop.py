"""`pytubemq pipeline stop`: the run ends after the batch in hand."""

from __future__ import annotations

import click

from pytubemq.cli.options import current, global_options
from pytubemq.cli.output.output import emit_object
from pytubemq.cli.pipeline.command_arguments import file_argument, set_option
from pytubemq.cli.pipeline.commands.status import shown
from pytubemq.errors import ExitCode

WAIT_S = 60.0


@click.command()
@file_argument
@click.option("--wait", "wait_s", type=click.FloatRange(min=0), is_flag=False, flag_value=WAIT_S, default=None,
              metavar="[SECONDS]",
              help=f"Return when it has ended; fail after this many seconds [{WAIT_S:g}].")  # fmt: skip
@set_option
@global_options
def stop(file: str, wait_s: float | None, variables: dict[str, str]) -> int:
    """End the run of FILE (or of a state directory) after the current batch. Nothing is lost and nothing repeated.

    Ends with 4 if it does not run, with 3 if it never has, and with 1 if the run failed while it was waited for.
    """
    from pytubemq.pipelines import RunState, ask_to_stop, open_state, wait_for_end

    options = current()
    files = open_state(file, variables=variables)
    found = ask_to_stop(files)
    if wait_s is not None:
        options.say(f"asked {found.record.pipeline} to end after its batch")
        found = wait_for_end(files, wait_s=wait_s)
    emit_object(
        options, shown(found.as_dict()) if options.output in {None, "table"} else found.as_dict(), name="pipeline"
    )
    return ExitCode.FAILED if found.run_state is RunState.FAILED else ExitCode.DONE
