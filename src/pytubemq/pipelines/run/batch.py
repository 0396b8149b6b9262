"""One batch into all sinks that take it, with a line in the ledger for each.

The invariant: nothing of a batch is written before its records are counted and found to be within the limits; a sink
that has the batch is not written to again; the batch is given back to Spark as done only when every sink has it.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pytubemq.model.ids import Partition
from pytubemq.pipelines.events import MAIN
from pytubemq.pipelines.failpoints import reach
from pytubemq.pipelines.file.model import DEAD_LETTER, INPUT
from pytubemq.pipelines.frames import audit
from pytubemq.pipelines.frames.source import decoded_names, fails_on_reject
from pytubemq.pipelines.frames.steps import apply_steps
from pytubemq.pipelines.sinks.rows import RowCount
from pytubemq.pipelines.sinks.sink_writer import SinkContext
from pytubemq.pipelines.spark_faults import PipelineError, TooManyRejectedError, failed
from pytubemq.pipelines.state.ledger import Entry, Ledger, add_totals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame

    from pytubemq.errors import TubeError
    from pytubemq.pipelines.file.model import Pipeline
    from pytubemq.pipelines.frames.audit import Counts
    from pytubemq.pipelines.frames.source import Opened
    from pytubemq.pipelines.sinks.sink_writer import SinkWriter

MOST_EXAMPLES: Final = 20
"""The most reasons of rejects of which a run reports an example each."""
MOST_EXAMPLE_CHARACTERS: Final = 500


@dataclass(frozen=True, slots=True)
class Output:
    """A sink and the step whose rows it takes."""

    writer: SinkWriter
    step: str

    @property
    def name(self) -> str:
        """The sink's name."""
        return self.writer.spec.name


@dataclass(slots=True)
class BatchResult:
    """The result of a batch, until Spark has reported its part."""

    query: str
    batch_id: int
    rows_in: int | None = None
    rows_out: dict[str, int] = field(default_factory=dict)
    rejected: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)
    newest_s: float | None = None
    parts: dict[str, float] = field(default_factory=dict)
    replayed: list[str] = field(default_factory=list)
    ended_s: float = 0.0

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Count the time of a part."""
        begun = time.monotonic()
        yield
        self.parts[part] = self.parts.get(part, 0.0) + time.monotonic() - begun


class StopRequestedError(Exception):
    """A batch was not begun because the run is to end."""


@dataclass(slots=True)
class Shared:
    """State that the batches of all queries of a run share with the engine."""

    stop: threading.Event = field(default_factory=threading.Event)
    """Set when the run is to end after the batch."""
    asked: bool = False
    """True if that is because somebody asked."""
    begun: threading.Event = field(default_factory=threading.Event)
    """Set when all queries are started, or when one was refused and `stop` is set: no batch begins before."""
    results: dict[tuple[str, int], BatchResult] = field(default_factory=dict)
    error: TubeError | None = None
    busy: set[str] = field(default_factory=set)
    """Queries that are in a batch."""
    turned_away: set[str] = field(default_factory=set)
    """Queries that ended because a batch was not begun after `stop`: their error is none."""
    check_held: Callable[[], None] = lambda: None
    """Raises if the state directory is another run's by now; asked before each batch."""

    def ask_to_stop(self) -> None:
        """Let the run end after the batch, as somebody asked."""
        self.asked = True
        self.stop.set()

    def fail(self, error: TubeError) -> None:
        """Let the run end with an error, unless it has one already."""
        self.error = self.error or error


class BatchBody(ABC):
    """The function that Spark calls for each batch of a query (`foreachBatch`)."""

    def __init__(
        self,
        query: str,
        pipeline: Pipeline,
        outputs: Sequence[Output],
        *,
        shared: Shared,
        ledger: Ledger,
        pipeline_id: Callable[[], str],
        checkpoint: str | None = None,
        deterministic: bool = True,
    ) -> None:
        self._query = query
        self._checkpoint = checkpoint
        self._deterministic = deterministic
        self._pipeline = pipeline
        self._outputs = tuple(outputs)
        self._shared = shared
        self._ledger = ledger
        self._pipeline_id = pipeline_id
        self._first = True
        self._made = decoded_names(pipeline)

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The sinks, in the order in which they get a batch."""
        return self._outputs

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        """Carry a batch out. What goes wrong is kept for the engine, then given to Spark, which ends the query."""
        shared = self._shared
        shared.begun.wait()
        if shared.stop.is_set():
            shared.turned_away.add(self._query)
            raise StopRequestedError
        shared.busy.add(self._query)
        try:
            shared.check_held()
            self._carry_out(rows, batch_id)
        except Exception as error:
            shared.fail(failed(error, f"batch {batch_id}"))
            raise
        finally:
            shared.busy.discard(self._query)
            self._first = False

    def _carry_out(self, rows: DataFrame, batch_id: int) -> None:
        reach("batch-begun", batch_id)
        context = SinkContext(
            rows.sparkSession,
            self._pipeline_id(),
            map_only=self.map_only and self._pipeline.source.format == "tubemq",  # others may divide rows otherwise
            checkpoint=self._checkpoint,
            deterministic=self._deterministic,
        )
        entry = self._ledger.entry(batch_id, context.pipeline_id)
        result = BatchResult(self._query, batch_id)
        if not entry.complete:
            with self._frames(rows, entry, result) as frames:
                self._deliver(frames, entry, context, result)
            if frames.passed is not None and len(result.replayed) < len(self._outputs):
                entry.read = {"rows": frames.passed.value(), "rejected": 0}
            entry.totals = add_totals(self._ledger.totals_before(batch_id, context.pipeline_id), entry)
            entry.complete = True
            self._ledger.save(entry)
        else:
            result.replayed = list(entry.sinks)
        reach("ledger-written", batch_id)
        result.rows_in = entry.read.get("rows")
        result.rejected = entry.read.get("rejected", 0)
        result.reasons = entry.read.get("reasons", {})
        result.rows_out = {name: done["rows"] for name, done in entry.sinks.items()}
        result.ended_s = time.time()
        self._shared.results[self._query, batch_id] = result

    map_only = True

    @abstractmethod
    def _frames(self, rows: DataFrame, entry: Entry, result: BatchResult) -> _Frames:
        """Return the rows of each step that a sink takes, and put what was read into `entry`."""

    def _deliver(
        self, frames: Mapping[str, DataFrame], entry: Entry, context: SinkContext, result: BatchResult
    ) -> None:
        for output in self._outputs:
            if output.name in entry.sinks:
                result.replayed.append(output.name)
                continue
            frame = frames[output.step]
            with result.timed(f"sink:{output.name}"):
                before = output.writer.done(entry.batch_id, context) if self._first else None
                rows = before if before is not None else self._write(output, frame, entry, context)
            if before is not None:
                result.replayed.append(output.name)
            reach(f"sink-written:{output.name}", entry.batch_id)
            entry.put(output.name, rows, replayed=before is not None, audit=self._audit_out(frame))
            self._ledger.save(entry)

    def _write(self, output: Output, frame: DataFrame, entry: Entry, context: SinkContext) -> int:
        if output.name == DEAD_LETTER and entry.read.get("rejected") == 0:
            return 0
        try:
            return output.writer.write(frame, entry.batch_id, context)
        except Exception as error:
            raise failed(error, f"sink {output.name} could not write batch {entry.batch_id}") from error

    @property
    def _counts_out(self) -> bool:
        """True if each sink's rows are counted by minute."""
        return self._pipeline.audit is not None and self._pipeline.audit.time is not None

    def _audit_out(self, frame: DataFrame) -> list[dict[str, object]] | None:
        wanted = self._pipeline.audit
        return audit.count_out(frame, wanted.time, made=self._made) if wanted is not None and wanted.time else None


class _Frames(dict[str, "DataFrame"]):
    """The rows by step, some of them held in memory while the batch lasts."""

    def __init__(self) -> None:
        super().__init__()
        self._held: list[DataFrame] = []
        self.passed: RowCount | None = None
        """The count of the source's rows, where they are not held and counted before."""

    def hold(self, rows: DataFrame) -> DataFrame:
        """Keep rows, once made, until the batch is done."""
        self._held.append(rows.persist())
        return rows

    def __enter__(self) -> _Frames:
        return self

    def __exit__(self, *_: object) -> None:
        for rows in reversed(self._held):
            rows.unpersist()


class MapOnlyBody(BatchBody):
    """Batches of the source's rows; the steps are put on each, and rejected records are part of it."""

    def __init__(
        self,
        opened: Opened,
        pipeline: Pipeline,
        outputs: Sequence[Output],
        *,
        shared: Shared,
        ledger: Ledger,
        pipeline_id: Callable[[], str],
        checkpoint: str | None = None,
    ) -> None:
        super().__init__(
            MAIN, pipeline, outputs, shared=shared, ledger=ledger, pipeline_id=pipeline_id, checkpoint=checkpoint
        )
        self._opened = opened
        self._exampled: set[str] = set()
        """Reasons of which this run has reported an example."""

    def _frames(self, rows: DataFrame, entry: Entry, result: BatchResult) -> _Frames:
        frames = _Frames()
        used = [output.step for output in self._outputs]
        if self._opened.decoded or len(used) > 1 or self._pipeline.audit is not None:
            frames.hold(rows)
            with result.timed("read"):
                self._count(rows, entry, result)
        else:
            frames.passed = RowCount()
            rows = frames.passed.of(rows)
        taken = set(used) - {DEAD_LETTER}
        made = apply_steps(self._opened.accepted(rows), self._pipeline) if taken else {}
        for name in taken:
            again = used.count(name) > 1 or self._counts_out  # what is counted is what was written
            frames[name] = frames.hold(made[name]) if again and name != INPUT else made[name]
        if self._opened.decoded:
            frames[DEAD_LETTER] = self._opened.rejected(rows)
        return frames

    def _count(self, rows: DataFrame, entry: Entry, result: BatchResult) -> None:
        wanted = self._pipeline.audit
        source = self._pipeline.source
        counts = audit.count(
            rows,
            decoded=self._opened.decoded,
            stream=source.topics[0] if len(source.topics) == 1 else source.format,
            time=wanted.time if wanted is not None else None,
            made=self._made,
        )
        result.newest_s = counts.newest_s
        entry.read = {"rows": counts.rows, "rejected": counts.rejected, "reasons": counts.reasons}
        entry.audit = counts.lines
        self._check_rejected(rows, counts, entry)
        result.examples = self._new_examples(rows, counts)

    def _new_examples(self, rows: DataFrame, counts: Counts) -> dict[str, str]:
        """Return the error of one record for each reason that is new to this run; not more than it keeps."""
        new = [reason for reason in counts.reasons if reason not in self._exampled]
        found = {}
        for reason in new[: MOST_EXAMPLES - len(self._exampled)]:
            self._exampled.add(reason)
            rejected = self._opened.rejected(rows)
            first = rejected.filter(rejected["reason"] == reason).select("detail").head()
            if first is not None and first.detail:
                found[reason] = first.detail[:MOST_EXAMPLE_CHARACTERS]
        return found

    def _check_rejected(self, rows: DataFrame, counts: Counts, entry: Entry) -> None:
        if not counts.rejected:
            return
        if fails_on_reject(self._pipeline):
            raise PipelineError(
                f"batch {entry.batch_id} has {counts.rejected} records that cannot be decoded; {self._example(rows)}",
                hint="set decode.on_error to dead_letter or drop to continue without them",
            )
        limits = self._pipeline.dead_letter
        if limits is None:
            return
        ratio = counts.rejected / counts.rows
        if limits.max_ratio is not None and ratio > limits.max_ratio:
            raise TooManyRejectedError(
                f"batch {entry.batch_id}: {counts.rejected} of {counts.rows} records cannot be decoded "
                f"({ratio:.1%}), more than dead_letter.max_ratio = {limits.max_ratio:.1%}; {self._example(rows)}",
                hint="nothing of the batch was written; correct `decode`, or raise max_ratio",
            )
        before = self._ledger.totals_before(entry.batch_id, entry.pipeline_id)["rejected"]
        if limits.max_rows is not None and before + counts.rejected > limits.max_rows:
            raise TooManyRejectedError(
                f"batch {entry.batch_id}: {before + counts.rejected} records were rejected so far, "
                f"more than dead_letter.max_rows = {limits.max_rows}; {self._example(rows)}",
                hint="nothing of the batch was written; correct `decode`, or raise max_rows",
            )

    def _example(self, rows: DataFrame) -> str:
        rejected = self._opened.rejected(rows)
        first = rejected.select("reason", "detail", "topic", "brokerId", "partition", "offset").head()
        return "they have been deleted since" if first is None else rejected_text(first)


def rejected_text(record: Any) -> str:
    """Return an example of a rejected record: `for example 1:demo:0 at offset 28: decode.json (...)`."""
    partition = Partition(record.brokerId, record.topic, record.partition)
    return f"for example {partition} at offset {record.offset}: {record.reason} ({record.detail})"


class StateBody(BatchBody):
    """Batches of what a step that keeps state has made.

    The rows are held whatever is done with them: to make them anew, for a count or a second try, would read the source
    again and commit the same version of the state twice.
    """

    map_only = False

    def _frames(self, rows: DataFrame, entry: Entry, result: BatchResult) -> _Frames:
        frames = _Frames()
        frames.hold(rows)
        for output in self._outputs:
            frames[output.step] = rows
        return frames
