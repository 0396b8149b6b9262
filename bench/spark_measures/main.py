"""`bench/spark`: the measures of Spark, taken and shown as `bench/compare` does its own."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.harness.bench import Options
from bench.harness.decisions import exit_code
from bench.harness.main import INTERRUPTED, compare
from bench.harness.table import table
from bench.spark_measures import NAMES
from pytubemq.server.run import run_loop

if TYPE_CHECKING:
    from bench.harness.bench import Measure


@click.command(help="Measure TubeMQ on Spark beside Spark's own Kafka source on this machine, and print the ratios.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a row instead of the table.")
@click.option("--quick", is_flag=True, help="300,000 rows instead of 2,000,000, and shorter waits.")
@click.option("--only", "only", multiple=True, type=click.Choice(NAMES), metavar="NAME",
              help=f"Only this measure; may be given more than once. Names: {', '.join(NAMES)}.")  # fmt: skip
@click.option("--runs", type=click.IntRange(1, 99), default=None, help="Runs of each side; the median counts [3].")
@click.option("--data", type=click.Path(file_okay=False, exists=True, path_type=Path), default=None,
              help="A directory on the device to measure [the system's directory for temporary files].")  # fmt: skip
def main(as_json: bool, quick: bool, only: tuple[str, ...], runs: int | None, data: Path | None) -> None:
    """Parse, run, print; the exit code is 0 when all targets are met, 1 when not, 2 when a measure failed."""
    names = [name for name in NAMES if not only or name in only]
    options = Options(runs=runs or 3, quick=quick, data=data)
    show = (lambda row: print(json.dumps(row.as_json()), flush=True)) if as_json else (lambda row: None)
    try:
        rows = run_loop(compare(names, options, show, find=load))
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("spark: ended before all was measured", file=sys.stderr)
        sys.exit(INTERRUPTED)
    if not as_json:
        print(table(rows))
    sys.exit(exit_code(rows))


def load(name: str) -> Measure:
    """The measure of that name."""
    found: Measure = importlib.import_module(f"bench.spark_measures.{name.replace('-', '_')}").MEASURE
    return found
