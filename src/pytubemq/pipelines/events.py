"""Events of a run and its result: values for progress displays, logs and reports.

The invariant: events hold plain values only (numbers, text, mappings of them), so that each is one line of JSON; a
`BatchDone` comes after the batch is in every sink and in the ledger, and once per batch of a run.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

MAIN: Final = "main"
"""The query of all that goes batch by batch; each other one has a directory of its own in the ledger."""


class RunStatus(StrEnum):
    """The status of a run, as `run.json` has it."""

    RUNNING = "running"
    FINISHED = "finished"
    """All that was asked for is done (`once`, or a source that has an end)."""
    STOPPED = "stopped"
    """Ended because someone asked, by the file `stop` or SIGTERM: after its batch, or cut short in it."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Starting:
    """A session is being made, which takes its time; not sent where there is one."""

    pipeline: str
    at_s: float


@dataclass(frozen=True, slots=True)
class Started:
    """The session is up, every sink was checked, and the queries run."""

    pipeline: str
    run_id: str
    """New for each run."""
    pipeline_id: str
    """The same from run to run, until the progress is reset; the sinks know batches by it."""
    state: str
    sinks: tuple[str, ...]
    queries: tuple[str, ...]
    """`main`; and `step-NAME` for each step that keeps state."""
    at_s: float
    """When, in seconds since 1970, as all `at_s` here."""
    began_s: float | None = None
    """When the run took its state directory, before Spark was started."""
    java: bool | None = None
    """True if a Java Broker has a partition of the source, on which the guarantees depend; None if it is not known."""
    promised: Mapping[str, str] = field(default_factory=dict)
    """By sink, what it promises by itself (`exactly_once`, `at_least_once`), as its target was found."""


@dataclass(frozen=True, slots=True)
class BatchDone:
    """A batch is in every sink."""

    batch_id: int
    rows_in: int
    """Records of the source: accepted and rejected."""
    rows_out: Mapping[str, int]
    """Rows by sink."""
    rejected: int
    """Records that could not be decoded, whether kept as dead letters or dropped."""
    lag_rows: int | None
    """Messages that wait behind this batch; None if the source does not say."""
    lag_s: float | None
    """How old the newest message of the batch was when the batch ended, while messages wait; 0 if none waits."""
    seconds: float
    """From the batch's trigger to its commit."""
    parts: Mapping[str, float]
    """Seconds by part: Spark's own (planning, getBatch, walCommit, ...), `read`, and `sink:NAME` for each sink."""
    offsets: Mapping[str, Any]
    """End of the batch, as the source writes it."""
    query: str = MAIN
    replayed: tuple[str, ...] = ()
    """Sinks that had the batch already, from a run that was killed."""
    reasons: Mapping[str, int] = field(default_factory=dict)
    """Rejected records by reason."""
    examples: Mapping[str, str] = field(default_factory=dict)
    """The error of the first record of a reason, in the first batch of a run that has it."""
    at_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over a run."""

    batches: int = 0
    rows_in: int = 0
    rows_out: Mapping[str, int] = field(default_factory=dict)
    rejected: int = 0


@dataclass(frozen=True, slots=True)
class Finished:
    """The run ended as it should."""

    status: RunStatus
    """FINISHED or STOPPED."""
    totals: Totals
    seconds: float
    """Since the run took its state directory, Spark's start and all."""
    at_s: float
    message: str | None = None
    """What cut it short, if it was asked to stop and something failed before its batch was done."""
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The run ended with an error; what was done is in the ledger, and the next run goes on from there."""

    message: str
    hint: str | None
    code: int | None
    totals: Totals
    seconds: float
    at_s: float


Event = Starting | Started | BatchDone | Finished | Failed


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run, for the caller of `run_pipeline`."""

    status: RunStatus
    totals: Totals
    seconds: float
    pipeline_id: str
    state: str


def event_as_json(event: Event) -> dict[str, Any]:
    """Return the event as plain values: its fields and `event`, the name of its kind."""
    return {"event": type(event).__name__, **asdict(event)}
