"""Forgetting a pipeline's progress.

The invariant: nothing is thrown away at once. What is forgotten is put aside in `forgotten/` of the state directory,
whole, until the next reset; what the sinks hold is not touched.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytubemq.errors import ConfigError, RefusedError
from pytubemq.pipelines.events import MAIN, BatchDone
from pytubemq.pipelines.operate.status import read_status
from pytubemq.pipelines.report.record import event_of
from pytubemq.pipelines.state.fed_queries import NAME as QUERIES
from pytubemq.pipelines.state.files import LEDGER, PROGRESS, SPEC, ledger_entries, progress_lines

if TYPE_CHECKING:
    from pytubemq.pipelines.state.files import StateFiles

ASIDE: Final = "forgotten"
_NAMES: Final = (LEDGER, PROGRESS, SPEC, "source.json", QUERIES)
_CHECKPOINTS: Final = "checkpoint*"
_LOG: Final = "checkpoint-log-"
"""What begins the name of the progress of Spark's own file sink."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress that a reset would forget."""

    batches: int
    rows_in: int
    offsets: dict[str, Any]
    """The offsets at which the next batch would have begun, as the source writes them."""
    names: tuple[str, ...]
    """Files and directories of the state that hold it."""

    @property
    def logs(self) -> list[str]:
        """Sinks of layout log, whose directories the next run refuses: their log is of the progress forgotten."""
        return [name.removeprefix(_LOG) for name in self.names if name.startswith(_LOG)]


def read_progress(files: StateFiles) -> Progress:
    """Look at what there is to forget: of all runs since the last reset."""
    names = sorted({path.name for path in _root(files).glob(_CHECKPOINTS)} | set(_there(files)))
    batches = [event for event in map(event_of, progress_lines(files)) if isinstance(event, BatchDone)]
    offsets = next((dict(event.offsets) for event in reversed(batches) if event.query == MAIN), {})
    sums: dict[str, Any] = next(
        (entry["totals"] for entry in reversed(ledger_entries(files)) if entry.get("totals")), {}
    )
    return Progress(int(sums.get("batches", len(batches))), int(sums.get("rows_in", 0)), offsets, tuple(names))


def forget_progress(files: StateFiles) -> Path:
    """Put the progress aside; returns where it is.

    Raises:
        RefusedError: a run is at work.
        ConfigError: the state is not on this machine.
    """
    there = read_status(files)
    if there.runs:
        raise RefusedError(
            f"pipeline {there.record.pipeline} runs: its progress cannot be forgotten while it runs",
            hint="pytubemq pipeline stop FILE --wait",
        )
    root = _root(files)
    aside = root / ASIDE
    names = read_progress(files).names
    if aside.exists():
        shutil.rmtree(aside)
    aside.mkdir()
    # The checkpoint goes first: without it a run starts anew, whatever else is still there.
    for name in sorted(names, key=lambda name: (not name.startswith("checkpoint"), name)):
        (root / name).rename(aside / name)
    return aside


def _there(files: StateFiles) -> list[str]:
    return [name for name in _NAMES if (_root(files) / name).exists()]


def _root(files: StateFiles) -> Path:
    if "://" in files.location:
        raise ConfigError(
            f"the state {files.location} is not on this machine, so it cannot be reset from here",
            hint="stop the pipeline and delete its directories checkpoint* and ledger with the storage's own tools",
        )
    return Path(files.location)
