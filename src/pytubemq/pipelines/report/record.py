"""The record of one run: its batches, its end, its audit; from events, or from a state directory.

The invariant: memory is bounded. More than `MOST_BATCHES` batches are added up in pairs, so that a long run's record is
coarser and never wrong in its sums. Each query reads the source for itself, so only the first one's records count as
read.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from pytubemq.pipelines.analysis.guarantees import SourceKind, promise_of, source_kind
from pytubemq.pipelines.events import MAIN, BatchDone, Failed, Finished, RunStatus, Started, Totals
from pytubemq.pipelines.file.model import DeadLetter, Guarantee
from pytubemq.pipelines.file.writing.normal_form import as_dict
from pytubemq.pipelines.frames.audit import OTHERS
from pytubemq.pipelines.state.files import RUN, SPEC, ledger_entries, progress_lines, read_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytubemq.pipelines.events import Event
    from pytubemq.pipelines.file.model import Pipeline
    from pytubemq.pipelines.state.files import StateFiles

MOST_BATCHES: Final = 2_000
MOST_AUDIT_ROWS: Final = 1_000
ALL_STREAMS: Final = "(all streams)"


@dataclass(slots=True)
class RunRecord:
    """A run as its events have shown it so far."""

    pipeline: str = ""
    called: str = ""
    """What people are shown, if it is more than the pipeline's name: `orders, backfill 20ac`."""
    run_id: str = ""
    pipeline_id: str = ""
    state: str = ""
    began_s: float | None = None
    ready_s: float | None = None
    """When Spark was up and the queries ran."""
    ended_s: float | None = None
    status: RunStatus = RunStatus.RUNNING
    message: str | None = None
    hint: str | None = None
    sinks: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()
    batches: list[BatchDone] = field(default_factory=list)
    spec: Mapping[str, Any] = field(default_factory=dict)
    audit: list[dict[str, Any]] = field(default_factory=list)
    java: bool | None = None
    """True if it read from Java Brokers, as far as it said."""
    promised: Mapping[str, str] = field(default_factory=dict)
    """By sink, its default promise when the run began, as far as it said."""
    guarantees: list[tuple[str, str, str]] = field(default_factory=list)
    """Sink, guarantee, why."""
    look: str = ""
    """The command that shows the dead letters."""
    rows_in: int = 0
    rows_out: dict[str, int] = field(default_factory=dict)
    busy_s: float = 0.0
    """What the batches took whose rows are in `rows_in`."""
    rejected: int = 0
    batch_count: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)
    """By reason, what was wrong with one of its records."""

    def take(self, event: Event) -> None:
        """Add an event."""
        if isinstance(event, Started):
            self.pipeline, self.run_id, self.pipeline_id = event.pipeline, event.run_id, event.pipeline_id
            self.state, self.sinks, self.ready_s = event.state, tuple(event.sinks), event.at_s
            self.began_s = event.at_s if event.began_s is None else event.began_s
            self.java, self.promised, self.queries = event.java, event.promised, tuple(event.queries)
        elif isinstance(event, BatchDone):
            self._batch(event)
        elif isinstance(event, Finished):
            self.status, self.ended_s = RunStatus(event.status), event.at_s
            self.message, self.hint = event.message, event.hint
        elif isinstance(event, Failed):
            self.status, self.ended_s = RunStatus.FAILED, event.at_s
            self.message, self.hint = event.message, event.hint

    @property
    def title(self) -> str:
        """The name that people are shown."""
        return self.called or self.pipeline

    @property
    def seconds(self) -> float:
        """From the start to the end, or to the last batch while it runs."""
        if self.began_s is None:
            return 0.0
        last_s = self.ended_s or (self.batches[-1].at_s if self.batches else self.began_s)
        return max(0.0, last_s - self.began_s)

    @property
    def rows_per_s(self) -> float:
        """Rows in, by the time that their batches took."""
        return self.rows_in / self.busy_s if self.busy_s > 0 else 0.0

    @property
    def totals(self) -> Totals:
        """The sums."""
        return Totals(self.batch_count, self.rows_in, dict(self.rows_out), self.rejected)

    def counts(self, event: BatchDone) -> bool:
        """True if `rows_in` includes what this batch read."""
        return event.query == next(iter(self.queries), event.query)

    def _batch(self, event: BatchDone) -> None:
        self.batch_count += 1
        self.queries = self.queries or (event.query,)
        if self.counts(event):
            self.rows_in += event.rows_in
            self.busy_s += event.seconds
        self.rejected += event.rejected
        add(self.rows_out, event.rows_out)
        add(self.reasons, event.reasons)
        self.examples = {**event.examples, **self.examples}
        if event.rows_in or event.rejected or event.rows_out:
            self.batches.append(event)
        if len(self.batches) > MOST_BATCHES:
            pairs = [self.batches[at : at + 2] for at in range(0, len(self.batches), 2)]
            self.batches = [merged(pair) for pair in pairs]


def add(sums: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Add numbers by name."""
    for name, value in more.items():
        sums[name] = sums.get(name, 0) + value


def merged(batches: Iterable[BatchDone]) -> BatchDone:
    """Merge consecutive batches into one: sums, and the last one's lag and place."""
    every = list(batches)
    last = every[-1]
    if len(every) == 1:
        return last
    rows_out: dict[str, Any] = {}
    parts: dict[str, Any] = {}
    reasons: dict[str, Any] = {}
    for batch in every:
        add(rows_out, batch.rows_out)
        add(parts, batch.parts)
        add(reasons, batch.reasons)
    return replace(
        last,
        rows_in=sum(batch.rows_in for batch in every),
        rejected=sum(batch.rejected for batch in every),
        seconds=sum(batch.seconds for batch in every),
        rows_out=rows_out,
        parts=parts,
        reasons=reasons,
    )


def new_record(pipeline: Pipeline, *, called: str = "") -> RunRecord:
    """Return the record of a run that begins now, for its events; `called` is what people are shown."""
    return RunRecord(pipeline=pipeline.name, called=called, state=pipeline.state or "", spec=as_dict(pipeline))


def complete_record(record: RunRecord, files: StateFiles) -> None:
    """Put into the record of a run that has ended what its events do not have: audit counts, and the normal form."""
    record.audit, record.spec = audit_of(files, record.queries), read_object(files, SPEC)


def read_record(files: StateFiles) -> RunRecord:
    """Read the last run of a state directory, as far as its files still have it."""
    run = read_object(files, RUN)
    record = RunRecord(
        pipeline=str(run.get("pipeline", "")),
        run_id=str(run.get("run_id", "")),
        pipeline_id=str(run.get("pipeline_id", "")),
        state=files.location,
        began_s=_moment(run, "started"),
        ready_s=_moment(run, "ready"),
        ended_s=_moment(run, "ended"),
        sinks=_names(run, "sinks"),
        queries=_names(run, "queries"),
        spec=read_object(files, SPEC),
        java=java if isinstance(java := run.get("java"), bool) else None,
        promised=promised if isinstance(promised := run.get("promised"), dict) else {},
    )
    events = [event_of(line) for line in progress_lines(files)]
    batches = [one for one in events if isinstance(one, BatchDone) and one.at_s >= (record.began_s or 0.0)]
    had = sorted({one.query for one in batches}, key=lambda name: (name != MAIN, name))
    record.queries = record.queries or tuple(had)
    for event in events:
        if isinstance(event, Started) and event.run_id == record.run_id:
            record.sinks, record.queries = tuple(event.sinks), tuple(event.queries)
    for batch in batches:
        record.take(batch)
    status = str(run.get("status", RunStatus.RUNNING.value))
    record.status = next((known for known in RunStatus if known.value == status), RunStatus.RUNNING)
    record.message = run.get("error") or run.get("message")
    record.hint = run.get("hint")
    record.sinks = record.sinks or tuple(record.rows_out)
    record.audit = audit_of(files, record.queries)
    return record


def _moment(run: Mapping[str, Any], name: str) -> float | None:
    value = run.get(name)
    return value if isinstance(value, int | float) else None


def _names(run: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = run.get(name)
    return tuple(str(each) for each in value) if isinstance(value, list) else ()


def event_of(line: Mapping[str, Any]) -> Event | None:
    """Parse a line of `progress.jsonl` to an event; None if it is not known, as from a newer version."""
    kinds: dict[str, Any] = {"Started": Started, "BatchDone": BatchDone}
    kind = kinds.get(str(line.get("event", "BatchDone")))
    if kind is None:
        return None
    known = {name: value for name, value in line.items() if name in kind.__dataclass_fields__}
    try:
        found: Event = kind(**known)
    except TypeError:
        return None
    return found


def audit_of(files: StateFiles, queries: Iterable[str]) -> list[dict[str, Any]]:
    """Audit counts over what the ledger still has of a run's queries."""
    others = [query for query in queries if query != MAIN]
    return audit_rows(entry for query in (MAIN, *others) for entry in ledger_entries(files, query))


def audit_rows(entries: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Audit counts over the ledger's batches, by stream and minute: read, rejected, and written by sink.

    A sink's rows are matched with what was read of their stream, where they have it (`topic`) or there is one; else
    with the sum over all streams in their minute, in a row `ALL_STREAMS`.
    """
    found: dict[tuple[str, str], dict[str, Any]] = {}
    every = list(entries)
    streams = {str(count.get("stream") or "") for entry in every for count in entry.get("audit") or ()}
    only = next(iter(streams - {OTHERS}), "") if len(streams - {OTHERS}) == 1 else ALL_STREAMS

    def row(stream: str, count: Mapping[str, Any]) -> dict[str, Any]:
        key = (stream, str(count.get("minute") or ""))
        return found.setdefault(key, {"stream": key[0], "minute": key[1], "read": 0, "rejected": 0, "written": {}})

    for entry in every:
        for count in entry.get("audit") or ():
            there = row(str(count.get("stream") or ""), count)
            there["read"] += int(count.get("read") or 0)
            there["rejected"] += int(count.get("rejected") or 0)
        for sink, done in (entry.get("sinks") or {}).items():
            counts = done.get("audit") or ()
            is_by_stream = {str(count.get("stream") or "") for count in counts} <= streams | {OTHERS}
            for count in counts:
                stream = str(count.get("stream") or "") if is_by_stream else only
                add(row(stream, count)["written"], {sink: int(count.get("rows") or count.get("written") or 0)})
    _sum_streams(found)
    ordered = sorted(found, key=lambda key: (key[1], key[0]))[-MOST_AUDIT_ROWS:]
    return [found[key] for key in sorted(ordered)]


def _sum_streams(found: Mapping[tuple[str, str], dict[str, Any]]) -> None:
    """Add up the streams in the rows for all of them."""
    for stream, minute in found:
        there = found.get((ALL_STREAMS, minute))
        if there is not None and stream != ALL_STREAMS:
            there["read"] += found[stream, minute]["read"]
            there["rejected"] += found[stream, minute]["rejected"]
            add(there["written"], found[stream, minute]["written"])


def put_promises(record: RunRecord, pipeline: Pipeline) -> None:
    """Put what each sink guarantees into the record, by the Brokers that the run found at both ends."""
    kind = source_kind(pipeline, java=bool(record.java))
    unknown = record.java is None and kind is SourceKind.OURS
    letters = () if pipeline.decode is None else ((pipeline.dead_letter or DeadLetter()).as_sink(),)
    for sink in (*letters, *pipeline.sinks):
        drops_repeats = record.promised.get(sink.name) != Guarantee.AT_LEAST_ONCE.value
        promise = promise_of(sink, source=kind, drops_repeats=drops_repeats)
        needs = "needs: " if promise.guarantee is Guarantee.EXACTLY_ONCE else ""
        why = f"{promise.why}; {needs}{promise.needs}" if promise.needs else promise.why
        if unknown:
            why += "; the run did not record its Brokers: this is the guarantee with pytubemq Brokers"
        record.guarantees.append((sink.name, promise.guarantee.value.replace("_", " "), why))
