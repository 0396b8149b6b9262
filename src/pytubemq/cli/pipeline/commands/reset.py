"""`pytubemq pipeline reset`: the next run begins as if there had been none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pytubemq.cli.options import current, global_options
from pytubemq.cli.output.output import emit_lines, emit_object
from pytubemq.cli.output.words import count_of
from pytubemq.cli.pipeline.command_arguments import file_argument, set_option

if TYPE_CHECKING:
    from pytubemq.pipelines import Progress


@click.command()
@file_argument
@click.option("--dry-run", is_flag=True, help="Show what would be forgotten, without changing anything.")
@click.option("--yes", is_flag=True, help="Confirm the reset: the next run begins at the file's `source.start`.")
@set_option
@global_options
def reset(file: str, dry_run: bool, yes: bool, variables: dict[str, str]) -> None:
    """Forget the progress of FILE (or of a state directory): the next run begins at the source's start.

    The forgotten progress is moved to a folder of the state directory until the next reset. The sinks keep their rows,
    so rows that are read again are duplicated in those without keys. Refused while a run is at work.
    """
    if not dry_run and not yes:
        raise click.UsageError("this forgets the progress: preview it with --dry-run, then confirm with --yes")
    from pytubemq.pipelines import forget_progress, open_state, read_progress

    options = current()
    files = open_state(file, variables=variables)
    found = read_progress(files)
    aside = None if dry_run else str(forget_progress(files))
    shown = {"state": files.location, "batches": found.batches, "rows_in": found.rows_in, "aside": aside}
    table = options.output in {None, "table"}
    if table:
        emit_lines(in_words(found, files.location))
    else:
        emit_object(options, shown | {"names": list(found.names), "offsets": found.offsets}, name="state")
    if found.logs:
        options.say(f"{', '.join(found.logs)}: layout log needs a new or an empty path before the next run")
    if dry_run:
        options.say("nothing was forgotten")
    else:
        options.say(f"forgotten: {count_of(len(found.names), 'file')} moved to {aside}")


def in_words(found: Progress, state: str) -> list[str]:
    """Return a line for each thing that would be forgotten."""
    if not found.names:
        return [f"{state} has no progress: the next run begins at source.start anyway"]
    done = f"{found.batches:,} batch{'' if found.batches == 1 else 'es'}"
    lines = [
        f"progress in {state}: {done}, {found.rows_in:,} read",
        f"stored in: {', '.join(found.names)}",
        "without it the next run begins at source.start" + (", instead of at:" if found.offsets else ""),
    ]
    return lines + [f"  {partition}  {place}" for partition, place in sorted(found.offsets.items())]
