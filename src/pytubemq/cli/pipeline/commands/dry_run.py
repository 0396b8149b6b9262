"""`pytubemq pipeline dry-run`: everything but writing."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pytubemq.cli.options import current, global_options
from pytubemq.cli.output.output import emit_lines, emit_rows
from pytubemq.cli.output.words import count_of
from pytubemq.cli.pipeline.command_arguments import as_given, file_argument, need_spark, set_option, tell_for
from pytubemq.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.pipelines import Check

COLUMNS = ["check", "passed", "text"]


@click.command("dry-run")
@file_argument
@click.option("-n", "--messages", type=click.IntRange(1, 1000), default=10, show_default=True,
              help="Number of messages to read.")  # fmt: skip
@set_option
@global_options
def dry_run(file: str, messages: int, variables: dict[str, str]) -> int:
    """Connect, read a few real messages, decode them, put them through every step, check each sink; write nothing.

    Ends with 0 if all is well; with 78 if the file is wrong, 5 if the cluster cannot be reached, 3 if a topic does not
    exist, else 1.
    """
    from pytubemq.cli.pipeline.pipeline_file import open_file
    from pytubemq.cli.pipeline.spark_log import spark_log
    from pytubemq.pipelines import let_steps_import, load_checked

    options = current()
    loaded = load_checked(file, variables=variables)
    loaded.require()
    pipeline = open_file(options, file, variables)
    need_spark("pipeline dry-run")
    let_steps_import(file)
    human = options.output in {None, "table"}
    checks: list[Check] = []
    with tempfile.TemporaryDirectory(prefix="pytubemq-dry-run-") as scratch, spark_log(Path(scratch) / "spark.log"):
        from pytubemq.pipelines import dry_run as checks_of

        for check in checks_of(pipeline, loaded.places, messages=messages):
            checks.append(check)
            if check.error is not None:
                tell_for(check.error, file, variables)
            if human:
                emit_lines(as_text(check))
    if not human:
        emit_rows(options, [as_row(check) for check in checks], COLUMNS, name="check")
    failed = sum(not check.passed for check in checks)
    if failed:
        options.say(f"{count_of(failed, 'fault')}; nothing was written")
    else:
        run = options.next(f"pytubemq pipeline run {as_given(file, variables)}")
        options.say(f"no faults; nothing was written\nNext:  {run}")
    return exit_code(checks)


def as_text(check: Check) -> list[str]:
    """Return a line for a part that is well; the error and its remedy for one that is not."""
    if check.error is None:
        return [f"ok    {check.name}  {check.text}"]
    first, *rest = str(check.error).removeprefix(f"{check.name}: ").splitlines()
    return [f"FAIL  {check.name}  {first}", *(f"      {line}" for line in rest)]


def as_row(check: Check) -> dict[str, Any]:
    """Return a part for machines."""
    return {"check": check.name, "passed": check.passed, "text": str(check.error or check.text)}


def exit_code(checks: Sequence[Check]) -> int:
    """Return the exit code of the first fault."""
    first = next((check.error for check in checks if check.error is not None), None)
    return int(ExitCode.DONE if first is None else first.exit_code)
