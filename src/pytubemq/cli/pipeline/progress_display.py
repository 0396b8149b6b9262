"""The display of a run: bars on a terminal, a line every ten seconds elsewhere, or JSON; on standard error.

The invariant: the display costs nothing per row and never affects the run; between events only a clock is computed.
"""

from __future__ import annotations

import json
import threading
import time
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Protocol

from pytubemq.model.names import escaped
from pytubemq.pipelines import BatchDone, RunStatus, Started, Starting, event_as_json

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

    from rich.progress import Progress, Task, TaskID

    from pytubemq.cli.options import GlobalOptions
    from pytubemq.pipelines import Event, RunRecord

LINE_EVERY_S: Final = 10.0


class Shown(StrEnum):
    """The values of `--progress`."""

    AUTO = "auto"
    BARS = "bars"
    LOG = "log"
    JSON = "json"
    NONE = "none"


class Display(Protocol):
    """A way to show a run."""

    def show(self, event: Event, record: RunRecord) -> None:
        """Show an event, which the record includes already."""
        ...

    def close(self) -> None:
        """End the display and leave the terminal as it was."""
        ...


def chosen(wanted: Shown, options: GlobalOptions) -> Shown:
    """Return the meaning of `auto` here: bars on a terminal, lines elsewhere, nothing with -q."""
    if wanted is not Shown.AUTO:
        return wanted
    return Shown.NONE if options.quiet else Shown.BARS if options.bars else Shown.LOG


def display(wanted: Shown, stream: TextIO, *, colour: bool) -> Display:
    """Return the chosen display on `stream`."""
    if wanted is Shown.BARS:
        return Bars(stream, colour=colour)
    if wanted is Shown.LOG:
        return Lines(stream)
    return Json(stream) if wanted is Shown.JSON else Nothing()


class Nothing:
    """A display that shows nothing."""

    def show(self, event: Event, record: RunRecord) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class Json:
    """A display with one line of JSON per event."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def show(self, event: Event, record: RunRecord) -> None:
        """Print the event's line."""
        print(json.dumps(event_as_json(event), default=str), file=self._stream, flush=True)

    def close(self) -> None:
        """Do nothing."""


class Lines:
    """A display with a line at the start, then one every `LINE_EVERY_S` seconds, also during a long batch."""

    def __init__(self, stream: TextIO, *, every_s: float = LINE_EVERY_S) -> None:
        self._stream = stream
        self._every_s = every_s
        self._record: RunRecord | None = None
        self._ended = threading.Event()
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None
        self._said = ""

    def show(self, event: Event, record: RunRecord) -> None:
        """Remember an event; the start of a run is printed at once."""
        with self._guard:
            if isinstance(event, Starting):
                self._say(f"{record.title}  starting Spark")
                return
            self._record = record
            if isinstance(event, Started):
                self._say(f"{record.title} runs, sinks {', '.join(event.sinks)}, state in {event.state}")
        if self._thread is None:
            self._thread = threading.Thread(target=self._tick, name="pipeline-progress", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Print the last state, unless it was printed."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        with self._guard:
            if self._record is None or self._record.began_s is None:
                return
            if self._record.batch_count == 0 and self._record.status is RunStatus.FINISHED:
                self._say(f"{self._record.title}  nothing new")
            elif self._record.batch_count and line(self._record) != self._said:
                self._say(line(self._record))

    def _tick(self) -> None:
        while not self._ended.wait(self._every_s):
            with self._guard:
                if self._record is not None:
                    self._say(line(self._record))

    def _say(self, text: str) -> None:
        self._said = text
        print(f"{time.strftime('%H:%M:%S')}  {escaped(text)}", file=self._stream, flush=True)


class Bars:
    """A bar of the messages read out of those known to wait, with the figures of the last batch behind it."""

    def __init__(self, stream: TextIO, *, colour: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn

        class Clock(ProgressColumn):
            """The column with progress and time."""

            def render(self, task: Task) -> str:
                return clock(task.percentage if task.total else None, task.elapsed or 0.0, task.time_remaining)

        self._progress: Progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            Clock(),
            TextColumn("{task.fields[figures]}"),
            console=Console(file=stream, no_color=not colour, soft_wrap=True, force_terminal=stream.isatty()),
        )
        self._task: TaskID | None = None
        self._progress.start()
        self._waiting = self._progress.add_task("starting Spark", total=None, figures="")

    def show(self, event: Event, record: RunRecord) -> None:
        """Move the bar."""
        if isinstance(event, Starting):
            return  # shown already
        if self._task is None:
            self._progress.remove_task(self._waiting)
            self._task = self._progress.add_task(record.title, total=None, figures="waiting for the first batch")
        if isinstance(event, BatchDone):
            self._progress.update(self._task, figures=figures(record))
            if record.counts(event):
                lag = event.lag_rows or 0
                self._progress.update(self._task, completed=record.rows_in, total=max(1, record.rows_in + lag))

    def close(self) -> None:
        """Leave the last state on the screen."""
        if self._task is None:
            self._progress.update(self._waiting, visible=False)
        self._progress.stop()


def clock(percent: float | None, elapsed_s: float, left_s: float | None) -> str:
    """Return the text beside the bar: progress, the time taken, and the time left once it is known."""
    done = "" if percent is None else f"{percent:.0f}%  "
    left = f", about {_duration(left_s)} left" if left_s else ""
    return f"{done}{_duration(elapsed_s)}{left}"


def _duration(seconds: float) -> str:
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes = f"{whole // 60 % 60}:{whole % 60:02}"
    return minutes + " min" if whole < 3_600 else f"{whole // 3_600}:{minutes.rjust(5, '0')} h"


def line(record: RunRecord) -> str:
    """Return all figures of a run in one line."""
    if not record.batches:
        return f"{record.title}  no batch yet"
    return f"{record.title}  {record.rows_in:,} rows  {figures(record)}"


def figures(record: RunRecord) -> str:
    """Return the text behind the bar: speed, lag, the last batch, and the number of rejected records if any."""
    if not record.batches:
        return ""
    last = record.batches[-1]
    speed = last.rows_in / last.seconds if last.seconds > 0 else 0.0
    parts = [f"{speed:,.0f} rows/s", f"batch {last.batch_id} in {last.seconds:.1f} s"]
    if last.lag_rows is not None:
        seconds = f" ({last.lag_s:,.0f} s)" if last.lag_s and last.lag_rows else ""
        parts.append(f"{last.lag_rows:,} behind{seconds}")
    if record.rejected:
        parts.append(f"{record.rejected:,} rejected")
    return "  ".join(parts)


def follower(record: RunRecord, shown: Display) -> Callable[[Event], None]:
    """Return the engine's callback that updates the record and the display."""

    def on_event(event: Event) -> None:
        record.take(event)
        shown.show(event, record)

    return on_event
