"""`pytubemq pipeline report`: the last run as one page of HTML."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytubemq.cli.options import current, global_options
from pytubemq.cli.output.output import emit_object
from pytubemq.cli.pipeline.command_arguments import file_argument, set_option

if TYPE_CHECKING:
    from pytubemq.cli.options import GlobalOptions


@click.command()
@file_argument
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path),
              help="The page [report.html in the current directory].")  # fmt: skip
@set_option
@global_options
def report(file: str, out: Path | None, variables: dict[str, str]) -> None:
    """Write the last run of FILE (or of a state directory) as one page: rates, times, lag, rejects, audit.

    The page needs nothing else and opens without a network. It has no secrets.
    """
    from pytubemq.pipelines import open_state, put_promises, read, read_record, write_report

    options = current()
    record = read_record(open_state(file, variables=variables))
    if Path(file).is_file():
        put_promises(record, read(file, variables=variables))
        record.look = look_of(options, file)
    written = write_report(record, out or Path("report.html"))
    emit_object(options, {"report": str(written), "bytes": written.stat().st_size}, name="report")


def look_of(options: GlobalOptions, file: str) -> str:
    """Return the command that shows the dead letters of a pipeline file."""
    return f"{options.next('pytubemq pipeline dlq')} show {shlex.quote(file)} -n 10"
