"""The demo's display: bars while it works, then a table and a chart; at most 30 lines, the last one a command.

The invariant: bars and talk go to standard error; standard output gets the report, or with JSON one object on one line.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from rich.progress import TaskID

    from pytubemq.demo.verify import Carrier, Verdict

_BAR_CELLS = 40
_DELAY_CELLS = 20
_MAX_CARRIERS = 16
_MAX_MISMATCHES = 8
_EIGHTHS = " ▏▎▍▌▋▊▉"


@dataclass(frozen=True, slots=True)
class Measured:
    """All measurements of the demo. Rates are per second, times in seconds."""

    rows_produced: int
    produce_msgs_per_s: float
    first_message_s: float
    spark_rows_per_s: float
    spark_start_s: float
    batches: int
    total_s: float
    repeats: int
    kills: int | None
    verdict: Verdict
    report: Path
    """The page of the pipeline's run."""

    def as_dict(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        found: dict[str, Any] = {
            "rows_produced": self.rows_produced,
            "rows_written": self.verdict.rows,
            "duplicates": self.verdict.duplicates,
            "mismatches": len(self.verdict.mismatches),
            "produce_msgs_per_s": round(self.produce_msgs_per_s),
            "spark_rows_per_s": round(self.spark_rows_per_s),
            "first_message_s": round(self.first_message_s, 3),
            "total_s": round(self.total_s, 1),
        }
        if self.kills is not None:
            found |= {"kills": self.kills, "repeats": self.repeats}
        return found


class Bars:
    """Progress bars on standard error; off a terminal, one line for each when all is done."""

    def __init__(self, *, quiet: bool) -> None:
        self._progress = Progress(
            TextColumn("{task.description:<9}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}"),
            console=Console(stderr=True, quiet=quiet, soft_wrap=True),
        )

    def __enter__(self) -> Bars:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def add(self, name: str, total: int) -> Bar:
        """Add a bar below the others."""
        return Bar(self._progress, self._progress.add_task(name, total=total, note=""))


class Bar:
    """The bar of one stage."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def show(self, done: int) -> None:
        """Show the progress."""
        self._progress.update(self._task, completed=done)

    def note(self, text: str) -> None:
        """Show a text behind the bar."""
        self._progress.update(self._task, note=text)


def print_json(measured: Measured) -> None:
    """Print one object, as the last line of standard output."""
    print(json.dumps(measured.as_dict()), flush=True)


def print_report(measured: Measured, *, color: bool, next_command: str) -> None:
    """Print the table of figures, the chart and the next command."""
    console = Console(no_color=not color, highlight=False, soft_wrap=True)
    console.print(_figures(measured))
    verdict = measured.verdict
    if verdict.mismatches:
        for mismatch in verdict.mismatches[:_MAX_MISMATCHES]:
            console.print(Text(f"MISMATCH  {mismatch}", style="red"))
        if len(verdict.mismatches) > _MAX_MISMATCHES:
            console.print(f"and {len(verdict.mismatches) - _MAX_MISMATCHES} more")
    else:
        _print_chart(console, verdict.carriers)
    console.print(f"Report {measured.report}")
    console.print(f"Next:  {next_command}")


def _figures(measured: Measured) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_column()
    table.add_row("produced", f"{measured.rows_produced:,}", f"{measured.produce_msgs_per_s:,.0f} messages/s")
    table.add_row("new consumer", f"{measured.first_message_s:.3f} s", "from its start to its first message")
    into = f"{measured.spark_rows_per_s:,.0f} rows/s into Parquet, {measured.batches} batches"
    table.add_row("written", f"{measured.verdict.rows:,}", into)
    wrong = len(measured.verdict.mismatches)
    proof = "every row as in the source, none twice" if not wrong else "see below"
    table.add_row("mismatches", f"{wrong:,}", proof)
    table.add_row("total", f"{measured.total_s:.1f} s", f"{measured.spark_start_s:.1f} s of it to start Spark")
    if measured.kills is not None:
        table.add_row("kills", f"{measured.kills}", f"{measured.repeats:,} messages were in the topic twice")
    return table


def _print_chart(console: Console, carriers: tuple[Carrier, ...]) -> None:
    shown = carriers[:_MAX_CARRIERS]
    if not shown:
        return
    most = max(carrier.flights for carrier in shown)
    latest = max(carrier.mean_delay_min for carrier in shown)
    console.print(Text(f"carrier  flights{'':<{_BAR_CELLS + 2}}mean delay at departure, minutes", style="dim"))
    for carrier in shown:
        flights = bar(carrier.flights, most, _BAR_CELLS)
        delay = bar(carrier.mean_delay_min, latest, _DELAY_CELLS)
        line = Text(f"{carrier.name:<7} {carrier.flights:>8,} ")
        line.append(f"{flights:<{_BAR_CELLS}}", style="cyan")
        line.append(f" {carrier.mean_delay_min:>5.1f} ")
        line.append(delay, style="yellow")
        console.print(line)


def bar(value: float, most: float, cells: int) -> str:
    """Return a bar of up to `cells` characters, to an eighth of one; empty for values of 0 and below."""
    if value <= 0 or most <= 0:
        return ""
    eighths = max(1, round(min(value / most, 1.0) * cells * 8))
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
