"""`pytubemq pipeline backfill`: a range of the topic through the pipeline again."""

from __future__ import annotations

import click

from pytubemq.cli.options import current, global_options
from pytubemq.cli.output.output import emit_rows
from pytubemq.cli.output.words import count_of
from pytubemq.cli.pipeline.command_arguments import file_argument, need_spark, set_option
from pytubemq.cli.pipeline.commands.run import carry_out, progress_option
from pytubemq.cli.pipeline.pipeline_file import open_file
from pytubemq.cli.pipeline.progress_display import Shown
from pytubemq.errors import ExitCode

COLUMNS = ["partition", "from", "to", "messages"]


@click.command()
@file_argument
@click.option("--from", "start", required=True, metavar="PLACE",
              help="Where to begin: earliest, a time (2026-01-31T12:00:00Z), or one ago (-10m).")  # fmt: skip
@click.option("--to", "end", default="latest", show_default=True, metavar="PLACE", help="Where to end, likewise.")
@click.option("--id", "name", metavar="ID", help="A name for this backfill [of its range]; one that was stopped or "
              "killed continues when it is started again.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Only show what would be read, and the effect on each sink.")
@click.option("--yes", is_flag=True, help="Confirm the backfill.")
@progress_option
@set_option
@global_options
def backfill(
    file: str, start: str, end: str, name: str | None, dry_run: bool, yes: bool, progress: str,
    variables: dict[str, str],
) -> int:  # fmt: skip
    """Put a range of the topic through the pipeline of FILE again, as a run of its own.

    The pipeline's own progress is not touched, and it may run meanwhile. Sinks with keys replace their rows, the others
    get them a second time.
    """
    if not dry_run and not yes:
        raise click.UsageError("this writes rows again: preview it with --dry-run, then confirm with --yes")
    from pytubemq.pipelines import backfill_effects, backfill_of, backfill_ranges

    options = current()
    pipeline = open_file(options, file, variables)
    need_spark("pipeline backfill")
    wanted = backfill_of(pipeline, start, end, id=name)
    assert wanted.pipeline.state is not None
    wanted.check_not_done()
    rows = backfill_ranges(wanted)
    total = sum(row["messages"] for row in rows)
    if dry_run:
        emit_rows(options, rows, COLUMNS, name="partition")
        options.say(f"{wanted.title}: {_message_count(total, start, end)}; nothing was written")
        for line in backfill_effects(pipeline) if total else ():
            options.say(f"  {line}")
        return ExitCode.DONE
    options.say(f"{wanted.title}: {count_of(total, 'message')}")
    wanted.keep()
    return carry_out(
        options, wanted.pipeline, wanted.pipeline.state, once=True, progress=Shown(progress), apart=wanted.apart,
        called=wanted.title,
    )  # fmt: skip


def _message_count(total: int, start: str, end: str) -> str:
    if not total:
        return f"there is no message from {start} to {end}"
    return f"{count_of(total, 'message')} would be read again"
