"""`bench/compare`: takes the measures one after the other and prints the table of ratios.

The invariant: a measure that fails or takes too long is a row that says so; the others are still taken.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from bench.harness.bench import Bench, Options
from bench.harness.decisions import exit_code, failed_row
from bench.harness.processes import RunError
from bench.harness.table import table
from bench.measures import NAMES
from pytubemq.errors import TubeError
from pytubemq.server.run import run_loop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bench.harness.bench import Measure
    from bench.harness.decisions import Row

INTERRUPTED = 130


def command(
    program: str, about: str, quick: str, known: Sequence[str], find: Callable[[str], Measure]
) -> click.Command:
    """The command of a group of measures: parse, run, print; exit code 0 when all targets are met, 1 when not, 2 when
    a measure failed.
    """

    @click.command(help=about)
    @click.option("--json", "as_json", is_flag=True, help="One JSON object a row instead of the table.")
    @click.option("--quick", is_flag=True, help=quick)
    @click.option("--only", "only", multiple=True, type=click.Choice(known), metavar="NAME",
                  help=f"Only this measure; may be given more than once. Names: {', '.join(known)}.")  # fmt: skip
    @click.option("--runs", type=click.IntRange(1, 99), default=None, help="Runs of each side; the median counts [3].")
    @click.option("--data", type=click.Path(file_okay=False, exists=True, path_type=Path), default=None,
                  help="A directory on the device to measure [the system's place for temporary files].")  # fmt: skip
    def run(as_json: bool, quick: bool, only: tuple[str, ...], runs: int | None, data: Path | None) -> None:
        names = [name for name in known if not only or name in only]
        options = Options(runs=runs or 3, quick=quick, data=data)
        show = (lambda row: print(json.dumps(row.as_json()), flush=True)) if as_json else (lambda row: None)
        try:
            rows = run_loop(compare(names, options, show, find=find))
        except (KeyboardInterrupt, asyncio.CancelledError):
            print(f"{program}: ended before all was measured", file=sys.stderr)
            sys.exit(INTERRUPTED)
        if not as_json:
            print(table(rows))
        sys.exit(exit_code(rows))

    return run


async def compare(
    names: Sequence[str], options: Options, show: Callable[[Row], None], *, find: Callable[[str], Measure]
) -> list[Row]:
    """Take these measures; `show` gets each row when it is known."""
    rows: list[Row] = []
    with _progress() as bar, _ended_by_sigterm():
        task = bar.add_task("", total=len(names))
        measure_name = [""]

        def step(text: str) -> None:
            bar.update(task, description=f"{measure_name[0]}: {text}")

        async with Bench(options, step) as bench:
            for name in names:
                measure_name[0] = name
                step("begins")
                found = await _taken(find(name), bench)
                rows += found
                for row in found:
                    show(row)
                bar.advance(task)
    return rows


def load(name: str) -> Measure:
    """The measure of that name."""
    module = importlib.import_module(f"bench.measures.{name.replace('-', '_')}")
    found: Measure = module.MEASURE
    return found


main = command(
    "compare",
    "Measure pytubemq beside the Java TubeMQ and Kafka on this machine, and print the ratios.",
    "Shorter runs, and 1 GB instead of 10 for the restart.",
    NAMES,
    load,
)


@contextlib.contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """SIGTERM ends the run with everything that it started, also where the shell made Ctrl-C be ignored."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


async def _taken(measure: Measure, bench: Bench) -> list[Row]:
    try:
        async with asyncio.timeout(measure.limit_s * max(1.0, bench.options.runs / 3)):
            return await measure.run(bench)
    except TimeoutError:
        return [failed_row(measure.name, f"it took longer than {measure.limit_s:g} s")]
    except (RunError, TubeError, OSError) as error:
        return [failed_row(measure.name, str(error))]


def _progress() -> Progress:
    """On standard error; plain lines are left out where that is no terminal."""
    console = Console(stderr=True)
    columns = (SpinnerColumn(), BarColumn(), TextColumn("{task.completed}/{task.total}"), TimeElapsedColumn())
    return Progress(*columns, TextColumn("{task.description}"), console=console, transient=True)
