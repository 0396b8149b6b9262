"""`pytubemq demo`: the command line of the demo."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pytubemq.demo.data import ROWS
from pytubemq.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytubemq.demo.run import DemoOptions


@click.command()
@click.option("--rows", type=click.IntRange(1, ROWS), default=ROWS, show_default=True, help="Number of flights.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on the last line of standard output.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), help="Format of the result.")
@click.option("--chaos", is_flag=True, help="Kill the Broker twice while producing and once while Spark reads.")
@click.option("--keep", is_flag=True, help="Leave the cluster up afterwards, until Ctrl-C.")
@click.option(
    "--data", type=click.Path(file_okay=False, path_type=Path), help="Keep all data there [a temporary directory]."
)
@click.pass_context
def demo(
    ctx: click.Context, rows: int, as_json: bool, output: str | None, chaos: bool, keep: bool, data: Path | None
) -> int:
    """Send real flights through a real cluster into Spark and onto disk, and prove that none is missing.

    Starts a Master and a Broker in a temporary directory, produces the 336,776 flights that left New York City in 2013,
    runs the pipeline file flights.yaml from the topic to Parquet, and compares the result with the source row for row.
    Any difference is named and the exit code is 1. The run's report, a page of HTML, is named at the end.
    """
    shared: Any = ctx.obj
    if output is None:
        output = getattr(shared, "output", None)
    if as_json:
        output = "json"
    if shared is not None:
        shared.output = output  # so that an error has this form too
    from pytubemq.demo.run import DemoOptions
    from pytubemq.server.run import run_loop

    options = DemoOptions(rows=rows, chaos=chaos, data=data)
    quiet = bool(getattr(shared, "quiet", False))
    try:
        typed = getattr(shared, "next", str)
        return run_loop(_run(options, as_json=output == "json", keep=keep, quiet=quiet, typed=typed))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


async def _run(options: DemoOptions, *, as_json: bool, keep: bool, quiet: bool, typed: Callable[[str], str]) -> int:
    from pytubemq.demo.report import Bars, print_json, print_report
    from pytubemq.demo.run import Demo

    _stop_on_signals()
    bars = Bars(quiet=quiet)
    async with Demo(options, bars) as demo:
        with bars:
            measured = await demo.run()
        mismatches = measured.verdict.mismatches
        if as_json:
            for mismatch in mismatches:
                click.echo(f"MISMATCH  {mismatch}", err=True)
            print_json(measured)
        else:
            command, meaning = _next(chaos=options.chaos, http=demo.cluster.http if keep else None)
            following = f"{typed(command)}     {meaning}"
            print_report(measured, color=sys.stdout.isatty(), next_command=following)
        if keep:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
    return int(ExitCode.FAILED if mismatches else ExitCode.DONE)


def _stop_on_signals() -> None:
    """Let SIGINT and SIGTERM cancel this task, so that children are stopped and temporary files are gone."""
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)


def _next(*, chaos: bool, http: str | None) -> tuple[str, str]:
    """Return a command, and its meaning."""
    if http is not None:
        return f"pytubemq topic list --http {http}", "in another terminal; Ctrl-C here stops the cluster"
    if chaos:
        return "pytubemq dev", "a cluster of your own"
    return "pytubemq demo --chaos", "the same, while the Broker is killed three times"
