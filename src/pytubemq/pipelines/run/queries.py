"""Spark's queries of a pipeline: one for all that goes batch by batch, one more for each step that keeps state.

The invariant: each sink is fed by exactly one query, and each query has its own checkpoint and its own part of the
ledger, so that (query, batch id) names what a sink gets. What one query alone can do, the first one does: it publishes
progress; and `main`, which is the first where anything is decoded, counts what cannot be.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pytubemq.pipelines.events import MAIN
from pytubemq.pipelines.file.model import DEAD_LETTER, LOG, DeadLetter, OnError, TriggerKind
from pytubemq.pipelines.file.secrets import resolve
from pytubemq.pipelines.file.source_positions import unplaced
from pytubemq.pipelines.frames.source import open_source, reads_otherwise_beside
from pytubemq.pipelines.frames.state_need import keeps_state
from pytubemq.pipelines.frames.steps import apply_steps, input_of, make_tables
from pytubemq.pipelines.rules.registry import BEFORE_SPARK, EVERYTHING, refuse
from pytubemq.pipelines.rules.rule import Compiled, Context
from pytubemq.pipelines.run.batch import MapOnlyBody, Output, StateBody
from pytubemq.pipelines.run.progress import LOG_ROWS, PREFIX
from pytubemq.pipelines.sinks.files import HadoopFiles
from pytubemq.pipelines.sinks.rows import is_deterministic
from pytubemq.pipelines.sinks.sink_factory import make_dead_letters, make_sink
from pytubemq.pipelines.spark_faults import PipelineError, format_error, of_spark
from pytubemq.pipelines.state.fed_queries import checkpoint_of, log_query, query_of, remember, step_query
from pytubemq.pipelines.state.ledger import Ledger
from pytubemq.pipelines.state.log_owner import LogOwner
from pytubemq.pipelines.state.progress import remember_source

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import DataFrame, SparkSession

    from pytubemq.errors import TubeError
    from pytubemq.pipelines.file.model import Pipeline, Sink, Trigger
    from pytubemq.pipelines.frames.source import Opened
    from pytubemq.pipelines.run.batch import BatchBody, Shared
    from pytubemq.pipelines.state.directory import StateDirectory

_LOG: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class Query:
    """A query of a run: batches that a body puts into sinks, or, without a body, Spark's own file sink."""

    name: str
    rows: DataFrame
    outputs: tuple[Output, ...]
    """The sinks that it feeds."""
    state: StateDirectory
    pipeline: str
    body: BatchBody | None = None
    log: Sink | None = None
    mode: str = "append"
    _running: Any = None

    @property
    def checkpoint(self) -> str:
        """The directory of Spark's progress, below the state directory."""
        return checkpoint_of(self.name)

    def start(self, trigger: Trigger) -> None:
        """Begin.

        Raises:
            ConfigError: Spark does not run this plan as a stream.
        """
        from pyspark.errors import PySparkException

        if self.log is not None:
            self.owner(self.log).claim()
        writer: Any = self.rows.writeStream.queryName(f"{PREFIX}{self.pipeline}:{self.name}").outputMode(self.mode)
        writer = writer.option("checkpointLocation", self.state.of_spark(self.checkpoint))
        try:
            self._running = self._into(writer.trigger(**_trigger(trigger))).start()
        except PySparkException as error:
            hint = "an aggregate needs a watermark, or sinks with keys" if self.name != MAIN else None
            raise of_spark(error, f"Spark does not run {self.name} as a stream", hint=hint) from error

    def _into(self, writer: Any) -> Any:
        if self.body is not None:
            return writer.foreachBatch(self.body)
        assert self.log is not None
        writer = writer.format("parquet").options(**{k: resolve(v) for k, v in self.log.options.items()})
        writer = writer.partitionBy(*self.log.partition_by) if self.log.partition_by else writer
        return writer.option("path", resolve(self.log.path or ""))

    def owner(self, log: Sink) -> LogOwner:
        """Return the owner of the files of Spark's own file sink."""
        return LogOwner(HadoopFiles(self.rows.sparkSession), self.state, self.checkpoint, log)

    def pipeline_id(self) -> str:
        """Return the id of this query's progress: new when the checkpoint is."""
        return progress_id(self.state, self.checkpoint, self.pipeline)

    @property
    def run_id(self) -> str:
        """Spark's id of this start of it; empty before."""
        return str(self._running.runId) if self._running is not None else ""

    @property
    def is_active(self) -> bool:
        """True if it runs."""
        return bool(self._running is not None and self._running.isActive)

    def error(self) -> TubeError | None:
        """Return the error that ended it, if one did."""
        wrong = self._running.exception() if self._running is not None else None
        if wrong is None:
            return None
        return PipelineError(f"pipeline {self.pipeline}: {format_error(wrong)}")

    def recent_progress(self) -> list[Any]:
        """Return Spark's progress of the last batches."""
        return list(self._running.recentProgress) if self._running is not None else []

    def end(self) -> None:
        """Stop it, wherever it is."""
        if self.is_active:
            self._running.stop()


def start_order(query: Query) -> int:
    """Return the rank: queries with state first, as Spark may refuse them; its file sink last: nothing delays it."""
    if query.log is not None:
        return 2
    return 1 if query.name == MAIN else 0


def progress_id(state: StateDirectory, checkpoint: str, pipeline: str) -> str:
    """Read Spark's id of a query from its checkpoint: it stays over restarts, and changes when progress is reset."""
    deadline = time.monotonic() + 10
    while (metadata := state.read(f"{checkpoint}/metadata")) is None or "id" not in metadata:
        if time.monotonic() > deadline:
            raise PipelineError(f"pipeline {pipeline}: {state.of_spark(checkpoint)} has no query's id")
        time.sleep(0.05)
    return f"{pipeline}-{metadata['id']}"


def plan_queries(
    spark: SparkSession, pipeline: Pipeline, state: StateDirectory, shared: Shared, *, apart: str | None = None
) -> list[Query]:
    """Plan the queries of a pipeline, everything checked, nothing begun.

    Args:
        spark: the session.
        pipeline: what is to run.
        state: its state directory.
        shared: what its batches share.
        apart: as `a backfill`, where it runs over a part of its rows; steps that keep state are refused then.

    Raises:
        ConfigError: a part of the pipeline is refused; naming it, with the remedy.
    """
    outputs = [Output(make_sink(sink), input_of(pipeline, sink.input)) for sink in pipeline.sinks]
    make_tables(spark, pipeline)
    opened = open_source(spark, pipeline)
    made = apply_steps(opened.accepted(), pipeline)
    stateful = frozenset(step for step in {output.step for output in outputs} if keeps_state(made[step]))
    feeds = {output.name: _query_of(output, stateful) for output in outputs}
    own = [output for output in outputs if feeds[output.name] != MAIN]
    main = [output for output in outputs if feeds[output.name] == MAIN]
    if opened.decoded and pipeline.decode is not None and pipeline.decode.on_error is OnError.DEAD_LETTER:
        letters = make_dead_letters(pipeline.dead_letter or DeadLetter(), beside=state.of_spark(DEAD_LETTER))
        main.insert(0, Output(letters, DEAD_LETTER))
        feeds[DEAD_LETTER] = MAIN
    schemas = {step: rows.schema for step, rows in made.items()}
    compiled = Compiled(spark, schemas, opened.rows, made, stateful, feeds)
    context = Context(pipeline, unplaced(pipeline), EVERYTHING, state, compiled, apart)
    refuse(context, already=BEFORE_SPARK, warn=lambda fault: _LOG.warning("%s", fault.text))
    for output in [*main, *own]:
        schema = opened.rejected(opened.rows).schema if output.step == DEAD_LETTER else schemas[output.step]
        output.writer.check(spark, None if _is_log(output) else schema)
    queries = [_main_query(pipeline, state, shared, opened, main)] if main or opened.decoded else []
    if own:
        again = reads_otherwise_beside(pipeline)
        beside = apply_steps(open_source(spark, pipeline, beside=True).accepted(), pipeline) if again else made
        queries += _own_queries(pipeline, state, shared, beside if queries else made, beside, own)
    remember_source(state, pipeline)
    remember(state, feeds)
    return queries


def _is_log(output: Output) -> bool:
    return output.writer.spec.layout == LOG


def _query_of(output: Output, stateful: Collection[str]) -> str:
    return query_of(output.writer.spec, output.step, stateful=output.step in stateful)


def _main_query(
    pipeline: Pipeline, state: StateDirectory, shared: Shared, opened: Opened, outputs: list[Output]
) -> Query:
    """Plan the query of all that goes batch by batch; it counts what is rejected even if it feeds no sink."""
    body = MapOnlyBody(
        opened,
        pipeline,
        outputs,
        shared=shared,
        ledger=Ledger(state),
        pipeline_id=lambda: progress_id(state, checkpoint_of(MAIN), pipeline.name),
        checkpoint=state.of_spark(checkpoint_of(MAIN)),
    )
    return Query(MAIN, opened.rows, body.outputs, state, pipeline.name, body)


def _own_queries(
    pipeline: Pipeline,
    state: StateDirectory,
    shared: Shared,
    first: dict[str, DataFrame],
    others: dict[str, DataFrame],
    outputs: list[Output],
) -> list[Query]:
    """Plan the other queries; `first` and `others`: the rows of each step, for the first of them and for the rest."""
    groups: dict[tuple[str, str], list[Output]] = {}
    queries: list[Query] = []
    for output in outputs:
        if _is_log(output):
            queries.append(_log_query(output, pipeline, state, others if queries else first))
            continue
        mode = "update" if output.writer.spec.keys else "append"
        groups.setdefault((output.step, mode), []).append(output)
    for (step, mode), taking in groups.items():
        name = step_query(step, updates=mode == "update")
        rows = (others if queries else first)[step]
        queries.append(_state_query(name, rows, mode, pipeline, state, shared, taking))
    return queries


def _log_query(output: Output, pipeline: Pipeline, state: StateDirectory, made: dict[str, DataFrame]) -> Query:
    from pyspark.sql import functions as f

    rows = made[output.step].observe(LOG_ROWS, f.count(f.lit(1)).alias("rows"))
    return Query(log_query(output.writer.spec), rows, (output,), state, pipeline.name, log=output.writer.spec)


def _state_query(
    name: str,
    rows: DataFrame,
    mode: str,
    pipeline: Pipeline,
    state: StateDirectory,
    shared: Shared,
    outputs: list[Output],
) -> Query:
    body = StateBody(
        name,
        pipeline,
        outputs,
        shared=shared,
        ledger=Ledger(state, query=name),
        pipeline_id=lambda: progress_id(state, checkpoint_of(name), pipeline.name),
        checkpoint=state.of_spark(checkpoint_of(name)),
        deterministic=is_deterministic(rows),
    )
    return Query(name, rows, body.outputs, state, pipeline.name, body, mode=mode)


def _trigger(trigger: Trigger) -> dict[str, Any]:
    if trigger.kind is TriggerKind.AVAILABLE_NOW:
        return {"availableNow": True}
    if trigger.kind is TriggerKind.ONCE:
        return {"once": True}
    if trigger.kind is TriggerKind.INTERVAL:
        return {"processingTime": trigger.interval}
    return {"processingTime": "0 seconds"}
