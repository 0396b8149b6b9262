"""`pytubemq pipeline report`: the last run as one page of HTML."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytubemq.cli.options import current, global_options
from pytubemq.cli.output.output import emit_object
from pytubemq.cli.pipeline.options import file_argument, set_option
from pytubemq.cli.pipeline.pipeline_file import files_of
from pytubemq.errors import ConfigError

if TYPE_CHECKING:
    from pytubemq.cli.options import GlobalOptions
    from pytubemq.pipelines.file.model import Pipeline
    from pytubemq.pipelines.report.record import RunRecord


@click.command()
@file_argument
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path),
              help="The page [report.html beside where you are].")  # fmt: skip
@set_option
@global_options
def report(file: str, out: Path | None, variables: dict[str, str]) -> None:
    """Write the last run of FILE (or of a state directory) as one page: rates, times, lag, rejects, audit.

    The page needs nothing else and opens without a network. It has no secrets.
    """
    from pytubemq.pipelines.report.record import recorded

    options = current()
    record = recorded(files_of(file, variables))
    if Path(file).is_file():
        from pytubemq.pipelines import load_checked

        put_promises(record, load_checked(file, variables=variables).require())
        record.look = look_of(options, file)
    written = write_report(record, out or Path("report.html"))
    emit_object(options, {"report": str(written), "bytes": written.stat().st_size}, name="report")


def look_of(options: GlobalOptions, file: str) -> str:
    """Return the command that shows the dead letters of a pipeline file."""
    return f"{options.next('pytubemq pipeline dlq')} show {shlex.quote(file)} -n 10"


def write_report(record: RunRecord, out: Path) -> Path:
    """Write the page.

    Raises:
        ConfigError: the file cannot be written.
    """
    from pytubemq.pipelines.report.page import page

    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(page(record), "utf-8")
    except OSError as error:
        raise ConfigError(
            f"the report {out} cannot be written: {error.strerror}", hint="name another file for it"
        ) from error
    return out


def put_promises(record: RunRecord, pipeline: Pipeline) -> None:
    """Put what each sink guarantees into the record, by the Brokers that the run found at both ends."""
    from pytubemq.pipelines.analysis.guarantees import SourceKind, promise_of, source_kind
    from pytubemq.pipelines.file.model import DeadLetter, Guarantee

    kind = source_kind(pipeline, java=bool(record.java))
    unknown = record.java is None and kind is SourceKind.OURS
    letters = () if pipeline.decode is None else ((pipeline.dead_letter or DeadLetter()).as_sink(),)
    for sink in (*letters, *pipeline.sinks):
        drops_repeats = record.promised.get(sink.name) != Guarantee.AT_LEAST_ONCE.value
        promise = promise_of(sink, source=kind, drops_repeats=drops_repeats)
        needs = "needs: " if promise.guarantee is Guarantee.EXACTLY_ONCE else ""
        why = f"{promise.why}; {needs}{promise.needs}" if promise.needs else promise.why
        if unknown:
            why += "; the run did not record its Brokers: this holds for pytubemq Brokers"
        record.guarantees.append((sink.name, promise.guarantee.value.replace("_", " "), why))
