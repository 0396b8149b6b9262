"""A pipeline's plan as one value: what is read, what is done to it, where it goes, and what is promised.

The invariant: the same file, cluster and state give the same plan, to the byte.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pytubemq.pipelines.analysis.default_place import with_place
from pytubemq.pipelines.analysis.guarantees import promise_of, source_kind
from pytubemq.pipelines.analysis.sql_names import names_read
from pytubemq.pipelines.analysis.step_state import keeps_state
from pytubemq.pipelines.file.model import DEAD_LETTER, INPUT, DeadLetter, Guarantee, OnError, TriggerKind
from pytubemq.pipelines.file.secrets import redact
from pytubemq.pipelines.file.writing.file_form import as_written
from pytubemq.pipelines.file.writing.normal_form import as_dict, differences
from pytubemq.pipelines.frames.steps import input_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pytubemq.pipelines.file.model import Pipeline, Sink
    from pytubemq.pipelines.plan.cluster_state import Looked, PartitionLook

EXACTLY: Final = "exactly once"
_CONSEQUENCES: Final = (
    (r"source\.(topics?|topic_pattern|format|path)", "the progress is that of the old one: use a new state, or reset"),
    (r"source\.start", "applies only where there is no progress yet; this pipeline continues where it stopped"),
    (r"sinks", "a new sink gets new batches; with a query of its own, all from source.start"),
    (r"sinks\.[^.]+\.(partition_by|layout)", "needs a new path: the files there have another layout"),
    (r"sinks\.[^.]+\.(path|table|url|topic)", "gets new batches only; `pipeline backfill` adds old ones"),
    (r"decode\.schema|steps.*", "applies to new batches; on_schema_change decides about changed columns"),
    (r"spark\.conf\.spark\.sql\.shuffle\.partitions", "has no effect on state in an existing checkpoint"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PlannedSource:
    """The topic to read."""

    format: str
    what: str
    """Topics, a pattern, or a path."""
    start: str | None
    partitions: int | None = None
    waiting: int | None = None
    batches: int | None = None
    """The number of batches for the waiting messages; None if unknown or if batches have no limit."""
    brokers: str | None = None
    offsets: tuple[PartitionLook, ...] = ()
    """Where the next batch begins, and where messages end now, by partition."""


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One step."""

    name: str
    reads: tuple[str, ...]
    keeps_state: bool
    columns: str | None = None
    """As Spark writes them, where Spark was asked."""


@dataclass(frozen=True, slots=True)
class PlannedSink:
    """One sink, or the dead letters."""

    name: str
    format: str
    input: str
    target: str
    guarantee: str
    why: str
    needs: str


@dataclass(frozen=True, slots=True)
class Change:
    """A difference from the last run."""

    path: str
    before: Any
    after: Any
    consequence: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole."""

    name: str
    source: PlannedSource
    decode: str | None
    columns: str | None
    """Of `input`, where they are known."""
    steps: tuple[PlannedStep, ...]
    sinks: tuple[PlannedSink, ...]
    dead_letter: PlannedSink | None
    trigger: str
    batch: str | None
    """The bounds of one; None where there is none."""
    rejects: str | None
    """What becomes of the run where records cannot be decoded; None where all can."""
    spark: str
    """The Spark master, if the runner starts Spark."""
    state: str
    ran_before: bool
    running: bool
    """True if a run is at work."""
    changes: tuple[Change, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the plan as plain values."""
        return asdict(self)

    def with_columns(self, columns: Mapping[str, str]) -> Plan:
        """Return the plan with the columns of `input` and of each step, as `step_columns` returns them."""
        steps = tuple(replace(step, columns=columns.get(step.name)) for step in self.steps)
        return replace(self, columns=columns.get(INPUT), steps=steps)


def build_plan(
    pipeline: Pipeline,
    *,
    looked: Looked | None = None,
    last: Mapping[str, Any] | None = None,
    repeating: Collection[str] = (),
    running: bool = False,
) -> Plan:
    """Plan a run of the pipeline.

    Args:
        pipeline: its state named.
        looked: the source as it is; None if nobody asked.
        last: the normal form of the last run; None if there was none.
        repeating: the sinks by number whose Brokers store repeats.
        running: True if a run is at work.
    """
    kind = source_kind(pipeline, java=looked is not None and looked.java)
    steps = _steps(pipeline)
    state_of = {step.name.lower(): step.keeps_state for step in steps}
    sinks = []
    for sink in pipeline.sinks:
        name = input_of(pipeline, sink.input)
        stateful, drops = state_of.get(name.lower(), False), sink.name not in repeating
        promise = promise_of(sink, source=kind, stateful=stateful, drops_repeats=drops)
        sinks.append(_sink(sink, name, promise.guarantee, promise.why, promise.needs))
    letters = None
    decode = pipeline.decode
    if decode is not None and decode.format != "raw" and decode.on_error is OnError.DEAD_LETTER:
        as_sink = _letters(pipeline.dead_letter or DeadLetter(), pipeline.state_or_default)
        promise = promise_of(as_sink, source=kind, drops_repeats=as_sink.name not in repeating)
        letters = _sink(as_sink, "rejects", promise.guarantee, promise.why, promise.needs)
    return Plan(
        name=pipeline.name,
        source=_source(pipeline, looked, kind.value),
        decode=pipeline.decode.format if pipeline.decode is not None else None,
        columns=None,
        steps=steps,
        sinks=tuple(sinks),
        dead_letter=letters,
        trigger=_trigger(pipeline),
        batch=_batch(pipeline),
        rejects=_rejects(pipeline),
        spark=pipeline.spark.master,
        state=pipeline.state_or_default,
        ran_before=last is not None,
        running=running,
        changes=_changes(pipeline, last),
    )


def _source(pipeline: Pipeline, looked: Looked | None, brokers: str) -> PlannedSource:
    source = pipeline.source
    what = ", ".join(source.topics) or source.topic_pattern or source.path or source.format
    if source.format != "tubemq":
        return PlannedSource(source.format, what, None)
    start = source.start if isinstance(source.start, str) else "as named by partition" if source.start else "latest"
    if looked is None:
        return PlannedSource(source.format, what, start)
    batches = None
    if source.limit.rows is not None:
        batches = -(-looked.waiting // source.limit.rows)
    elif not any((source.limit.size_bytes, source.limit.fetch_s)):
        batches = min(1, looked.waiting)
    if pipeline.trigger.kind is TriggerKind.ONCE:
        batches = min(1, looked.waiting)
    start = "where the last run ended" if looked.goes_on else start
    return PlannedSource(
        source.format, what, start, len(looked.partitions), looked.waiting, batches, brokers, looked.partitions
    )


def _steps(pipeline: Pipeline) -> tuple[PlannedStep, ...]:
    made = []
    before = INPUT
    state: dict[str, bool] = {}
    for step in pipeline.steps:
        reads = tuple(read.name for read in names_read(step.sql)) if step.sql is not None else (before,)
        keeps = keeps_state(step) or any(state.get(name.lower(), False) for name in reads)
        state[step.name.lower()] = keeps
        made.append(PlannedStep(step.name, reads, keeps))
        before = step.name
    return tuple(made)


def _sink(sink: Sink, name: str, guarantee: Guarantee, why: str, needs: str) -> PlannedSink:
    table = " ".join(part for part in (sink.url, sink.table) if part)
    own = ", ".join(str(value) for value in sink.more.values())
    place = sink.path or table or sink.topic or own or "the terminal"
    key = "url" if sink.url else "path"
    words = EXACTLY if guarantee is Guarantee.EXACTLY_ONCE else "at least once"
    return PlannedSink(sink.name, sink.format, name, redact(key, place), words, why, needs)


def _letters(letters: DeadLetter, state: str) -> Sink:
    if letters.topic is None:  # else the path is of those that are too long for it
        letters = with_place(letters, f"{state}/{DEAD_LETTER}")
    return letters.as_sink()


def _trigger(pipeline: Pipeline) -> str:
    trigger = pipeline.trigger
    return {
        TriggerKind.DEFAULT: "a batch as soon as there are new messages",
        TriggerKind.INTERVAL: f"a batch every {trigger.interval}",
        TriggerKind.AVAILABLE_NOW: "all available messages, in batches, then the run ends",
        TriggerKind.ONCE: "all available messages, in one batch, then the run ends",
    }[trigger.kind]


def _batch(pipeline: Pipeline) -> str | None:
    limit = pipeline.source.limit
    if pipeline.source.format != "tubemq" or pipeline.trigger.kind is TriggerKind.ONCE:
        return None
    most = [
        f"{limit.rows:,} rows" if limit.rows is not None else "",
        _size(limit.size_bytes) if limit.size_bytes is not None else "",
        f"{limit.fetch_s:g} s of fetching in a task" if limit.fetch_s is not None else "",
    ]
    parts = [f"at most {', '.join(filter(None, most))}"] if any(most) else []
    if limit.min_rows is not None:
        after = "" if limit.max_delay_s is None else f", or fewer after {limit.max_delay_s:g} s"
        parts.append(f"at least {limit.min_rows:,} rows{after}")
    return "; ".join(parts) or None


def _size(size_bytes: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes % size == 0:
            return f"{size_bytes // size:,} {unit}"
    return f"{size_bytes:,} bytes"


def percent(ratio: float) -> str:
    """Format a ratio for people: `0.01` is `1%`."""
    return f"{ratio:.6%}".rstrip("0%").rstrip(".") + "%"


def _rejects(pipeline: Pipeline) -> str | None:
    decode, letters = pipeline.decode, pipeline.dead_letter
    if decode is None or decode.format == "raw":
        return None
    if decode.on_error is OnError.FAIL:
        return "the first ends the run"
    if decode.on_error is OnError.DROP:
        return "are counted and dropped"
    most = []
    if letters is not None and letters.max_ratio is not None:
        most.append(f"{percent(letters.max_ratio)} of a batch")
    if letters is not None and letters.max_rows is not None:
        most.append(f"{letters.max_rows:,} records in all")
    return f"more than {' or '.join(most)} end the run" if most else "do not end the run, however many there are"


def _changes(pipeline: Pipeline, last: Mapping[str, Any] | None) -> tuple[Change, ...]:
    if last is None:
        return ()
    found = differences(as_written(last), as_written(as_dict(pipeline)))
    return tuple(Change(path, before, after, _consequence(path)) for path, before, after in found)


def _consequence(path: str) -> str:
    return next((text for pattern, text in _CONSEQUENCES if re.fullmatch(pattern, path)), "")
