"""`pytubemq pipeline run`: the run itself, with its progress and its results."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from pytubemq.cli.options import GlobalOptions, current, global_options
from pytubemq.cli.output.output import emit_object
from pytubemq.cli.pipeline.command_arguments import as_given, file_argument, need_spark, set_option
from pytubemq.cli.pipeline.pipeline_file import open_file
from pytubemq.cli.pipeline.progress_display import Shown
from pytubemq.errors import ConfigError, ExitCode, TubeError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import FrameType

    from pytubemq.pipelines import Event, Pipeline, RunRecord, RunResult


def progress_option(command: Any) -> Any:
    """Decorator: `--progress`."""
    return click.option(
        "--progress", type=click.Choice([kind.value for kind in Shown]), default=Shown.AUTO.value, show_default=True,
        help="Bars, a line every 10 s, a line of JSON per event, or nothing, on standard error; auto: bars on a "
        "terminal, else lines.",
    )(command)  # fmt: skip


@click.command()
@file_argument
@click.option("--once", is_flag=True, help="Process all messages available now, then end.")
@progress_option
@click.option("--report", "report_to", type=click.Path(dir_okay=False, path_type=Path), metavar="PAGE.html",
              help="Write an HTML report with plots at the end.")  # fmt: skip
@set_option
@global_options
def run(file: str, once: bool, progress: str, report_to: Path | None, variables: dict[str, str]) -> int:
    """Run the pipeline of FILE until it ends, Ctrl-C, or `pytubemq pipeline stop`.

    Started again, it continues where it stopped. Ctrl-C ends it after the current batch, a second one at once. Spark's
    own output goes to spark.log in the state directory.
    """
    options = current()
    pipeline = open_file(options, file, variables)
    need_spark("pipeline run")
    try:
        return carry_out(
            options, pipeline, file, once=once, progress=Shown(progress), report_to=report_to, variables=variables
        )
    except ConfigError as error:
        from pytubemq.pipelines import load, place_step_error

        raise place_step_error(error, pipeline, load(file, variables=variables).places) from error


def carry_out(
    options: GlobalOptions,
    pipeline: Pipeline,
    file: str,
    *,
    once: bool,
    progress: Shown = Shown.AUTO,
    report_to: Path | None = None,
    apart: str | None = None,
    called: str = "",
    variables: Mapping[str, str] = MappingProxyType({}),
) -> int:
    """Run a pipeline and print its results, as a table or an object; `called` as `engine_run` takes it."""
    ran = engine_run(
        options, pipeline, file, once=once, progress=progress, report_to=report_to, apart=apart, called=called
    )
    _print_results(options, ran.record, ran.result, as_given(file, variables))
    return ExitCode.INTERRUPTED if ran.interrupted else ExitCode.DONE


class Ran(NamedTuple):
    """A finished run."""

    record: RunRecord
    result: RunResult
    interrupted: bool


def engine_run(
    options: GlobalOptions,
    pipeline: Pipeline,
    file: str = "FILE",
    *,
    once: bool,
    progress: Shown,
    report_to: Path | None = None,
    apart: str | None = None,
    called: str = "",
) -> Ran:
    """Run a pipeline with everything around it: display, log, signals, report.

    `apart` is as the engine takes it, and `called` what people are shown, if it is not the pipeline's own run.

    Raises:
        TubeError: as the engine; a note has the path of Spark's log.
    """
    from pytubemq.cli.pipeline.commands.report import look_of
    from pytubemq.cli.pipeline.progress_display import chosen, display, follower
    from pytubemq.cli.pipeline.spark_log import length, log_place, spark_log
    from pytubemq.pipelines import complete_record, new_record, open_state, put_promises, write_report

    assert pipeline.state is not None
    record = new_record(pipeline, called=called)
    log = log_place(pipeline.state, pipeline.name)
    before = length(log)
    kind, colour = chosen(progress, options), options.colour  # both ask what standard error is, before it is the log
    try:
        with spark_log(log) as talk:
            shown = display(kind, talk, colour=colour)
            try:
                with _Interrupts(pipeline.state, talk) as interrupts:
                    result = _run(pipeline, once, interrupts.around(follower(record, shown)), apart)
            finally:
                shown.close()
    except TubeError as error:
        if length(log) != before:  # else Spark had no part in it
            error.add_note(f"Spark's whole output: {log}")
        raise
    finally:
        put_promises(record, pipeline)
        if report_to is not None and record.began_s is not None:
            complete_record(record, open_state(pipeline.state))
            record.look = look_of(options, file)
            options.say(f"report {write_report(record, report_to)}")
    return Ran(record, result, interrupts.came)


def _run(pipeline: Pipeline, once: bool, on_event: Any, apart: str | None) -> RunResult:
    from pytubemq.pipelines import run_pipeline

    return run_pipeline(pipeline, once=once, on_event=on_event, apart=apart)


class _Interrupts:
    """Ctrl-C while a pipeline runs: the first ends it after the batch, the second at once."""

    def __init__(self, state: str, talk: Any) -> None:
        self.came = False
        self._state = state
        self._talk = talk
        self._before: Any = signal.SIG_DFL

    def __enter__(self) -> _Interrupts:
        self._before = signal.getsignal(signal.SIGINT)
        return self

    def __exit__(self, *exc: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def around(self, on_event: Any) -> Any:
        """Handle Ctrl-C once the run has begun: Spark sets a handler of its own when it starts."""
        from pytubemq.pipelines import Started

        def handle(event: Event) -> None:
            if isinstance(event, Started):
                signal.signal(signal.SIGINT, self._take)
            on_event(event)

        return handle

    def _take(self, number: int, frame: FrameType | None) -> None:
        if self.came:
            raise KeyboardInterrupt
        self.came = True
        print("ending after this batch; Ctrl-C again ends at once", file=self._talk, flush=True)
        from pytubemq.pipelines import ask_to_stop, open_state

        ask_to_stop(open_state(self._state))


def _print_results(options: GlobalOptions, record: RunRecord, result: RunResult, given: str) -> None:
    if options.output not in {None, "table"}:
        emit_object(options, as_object(record, result), name="pipeline")
        return
    from rich.console import Console
    from rich.table import Table

    promised = {name: guarantee for name, guarantee, _ in record.guarantees}
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("", "rows", "rows/s", "guarantee"):
        table.add_column(name, justify="right" if name.startswith("rows") else "left")
    busy_s = sum(batch.seconds for batch in record.batches)

    def add(name: str, rows: int, guarantee: str = "") -> None:
        table.add_row(name, f"{rows:,}", f"{rows / busy_s:,.0f}" if busy_s else "-", guarantee)

    add("read", record.rows_in)
    if record.rejected:  # of those that were read; the sink dead_letter tells how many it has got
        add("  rejected", record.rejected)
    for sink, rows in record.rows_out.items():
        add(sink, rows, promised.get(sink, ""))
    console = Console(file=sys.stdout, no_color=not options.colour, highlight=False, soft_wrap=True)
    console.print(table)
    batches = f"{record.batch_count:,} batch{'' if record.batch_count == 1 else 'es'}"
    console.print(f"{result.status.value} after {result.seconds:.1f} s, {batches}; state in {result.state}")
    if record.message:
        options.say(f"{record.message}; {record.hint}")
    options.say(f"Next:  {options.next('pytubemq pipeline status')} {given}")


def as_object(record: RunRecord, result: RunResult) -> dict[str, Any]:
    """Return the results of a run for machines."""
    return {
        "pipeline": record.pipeline,
        "status": result.status.value,
        "run_id": record.run_id,
        "batches": record.batch_count,
        "rows_in": record.rows_in,
        "rows_out": dict(record.rows_out),
        "rejected": record.rejected,
        "reasons": dict(record.reasons),
        "rows_per_s": round(record.rows_per_s, 1),
        "seconds": round(result.seconds, 3),
        "state": result.state,
    }
