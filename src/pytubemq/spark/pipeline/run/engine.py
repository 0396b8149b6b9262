"""A pipeline's run from start to end: everything checked, then batches until there are no more or someone asks to stop.

The invariant: until every check has passed nothing is written outside of the state directory; however a run ends, the
next one goes on with the first batch that is not in every sink.
"""

from __future__ import annotations

import queue
import signal
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pytubemq.errors import ConfigError, TubeError
from pytubemq.spark.pipeline.plan.look import reads_java
from pytubemq.spark.pipeline.run import events
from pytubemq.spark.pipeline.run.batch import Shared
from pytubemq.spark.pipeline.run.events import RunResult, RunStatus, Totals
from pytubemq.spark.pipeline.run.faults import failed
from pytubemq.spark.pipeline.run.lock import RunLock
from pytubemq.spark.pipeline.run.progress import ProgressListener, batch_done, log_result
from pytubemq.spark.pipeline.run.queries import Query, plan_queries
from pytubemq.spark.pipeline.run.session import check_session, open_session
from pytubemq.spark.pipeline.run.state import StateDirectory
from pytubemq.spark.pipeline.spec.model import TriggerKind
from pytubemq.spark.pipeline.spec.normal import as_dict

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from pytubemq.spark.pipeline.run.events import BatchDone, Event
    from pytubemq.spark.pipeline.spec.model import Pipeline

STOP: Final = "stop"
"""A file of this name in the state directory asks the run to end after the batch."""
SPEC: Final = "spec.json"
"""What the last run was asked for, without secrets."""
LOOK_S: Final = 0.25
"""How often that file is looked for."""
LAST_WORDS_S: Final = 5.0
"""How long the progress of the last batch may take to arrive."""


def run(
    pipeline: Pipeline,
    *,
    spark: SparkSession | None = None,
    once: bool = False,
    on_event: Callable[[Event], None] = lambda event: None,
) -> RunResult:
    """Run a pipeline until it ends, fails, or is asked to stop.

    Args:
        pipeline: what to run.
        spark: the session; the active one, or a new one as the pipeline says, if None. A new one is stopped at the end.
        once: take all that is there now, then end, whatever the pipeline's trigger is.
        on_event: told of the start, each batch and the end, on the caller's thread.

    Raises:
        ConfigError: something is wrong that was found before anything ran; nothing was written.
        TubeError: the run failed; the next run goes on from the batch that failed.
    """
    if once and pipeline.trigger.kind is not TriggerKind.ONCE:
        pipeline = replace(pipeline, trigger=replace(pipeline.trigger, kind=TriggerKind.AVAILABLE_NOW))
    if not pipeline.sinks:
        raise ConfigError(f"pipeline {pipeline.name} has no sinks", hint="add at least one, as console")
    state = StateDirectory(pipeline.state or f".pytubemq/{pipeline.name}")
    pipeline = _with_masters(replace(pipeline, state=state.location))
    lock = RunLock(state, pipeline.name)
    lock.take()
    state.delete(STOP)
    return _Run(pipeline, state, lock, on_event).go(spark)


def _with_masters(pipeline: Pipeline) -> Pipeline:
    """The pipeline with the source's Masters for topics of sinks that name none."""
    letters, master = pipeline.dead_letter, pipeline.source.master
    sinks = tuple(replace(sink, master=sink.master or master) for sink in pipeline.sinks)
    letters = None if letters is None else replace(letters, master=letters.master or master)
    return replace(pipeline, sinks=sinks, dead_letter=letters)


class _Run:
    def __init__(
        self, pipeline: Pipeline, state: StateDirectory, lock: RunLock, on_event: Callable[[Event], None]
    ) -> None:
        self._pipeline = pipeline
        self._state = state
        self._lock = lock
        self._on_event = on_event
        self._shared = Shared()
        self._totals = Totals()
        self._begun = time.monotonic()
        self._listener: ProgressListener | None = None
        self._pipeline_id = ""
        self._logs: dict[str, str] = {}
        """By query, the sink that is Spark's own."""
        self._counting = ""
        """The query whose records count: each query reads the source for itself."""
        self._told: set[tuple[str, int]] = set()

    def go(self, given: SparkSession | None) -> RunResult:
        """The whole run."""
        session = None
        restore = _on_sigterm(self._shared.stop)
        try:
            if given is not None:
                check_session(given)
            session = given or open_session(self._pipeline)
            return self._finished(self._carry_out(session))
        except TubeError as error:
            self._failed(error)
            raise
        except Exception as error:
            wrong = failed(error, f"pipeline {self._pipeline.name}")
            self._failed(wrong)
            raise wrong from error
        except BaseException:
            self._lock.release(RunStatus.STOPPED)
            raise
        finally:
            restore()
            if session is not None and given is None:
                session.stop()

    def _carry_out(self, session: SparkSession) -> RunStatus:
        queries = plan_queries(session, self._pipeline, self._state, self._shared)
        self._state.write(SPEC, as_dict(self._pipeline))
        self._listener = listener = ProgressListener()
        session.streams.addListener(listener)
        try:
            return self._watch(queries, session)
        finally:
            for query in queries:
                query.end()
            session.streams.removeListener(listener)

    def _watch(self, queries: list[Query], session: SparkSession) -> RunStatus:
        self._counting = queries[0].name
        self._logs = {query.name: query.log.name for query in queries if query.log is not None}
        for query in queries:
            query.start(self._pipeline.trigger)
        self._pipeline_id = queries[0].pipeline_id()
        self._lock.note(pipeline_id=self._pipeline_id)
        self._tell_started(queries)
        while any(query.is_active for query in queries):
            self._take_progress(LOOK_S)
            if self._state.exists(STOP):
                self._shared.stop.set()
            if self._shared.stop.is_set() and not self._shared.busy and not self._waiting():
                break
            if self._shared.error is not None:
                break
        self._last_words(queries)
        stopped = self._shared.stop.is_set()
        if self._shared.error is not None:
            raise self._shared.error
        for query in queries:
            wrong = query.error()
            if wrong is not None and not stopped:
                raise wrong
        self._state.delete(STOP)
        return RunStatus.STOPPED if stopped else RunStatus.FINISHED

    def _tell_started(self, queries: list[Query]) -> None:
        names = [name for query in queries for name in query.sinks]
        java = reads_java(self._pipeline)
        self._lock.note(java=java)
        self._on_event(
            events.Started(
                pipeline=self._pipeline.name,
                run_id=self._lock.run_id,
                pipeline_id=self._pipeline_id,
                state=self._state.location,
                sinks=tuple(names),
                queries=tuple(query.name for query in queries),
                at_s=time.time(),
                java=java,
            )
        )

    def _waiting(self) -> bool:
        """Whether batches are done whose progress Spark has not told yet."""
        return bool(self._shared.results)

    def _take_progress(self, wait_s: float) -> None:
        assert self._listener is not None
        try:
            name, progress = self._listener.progress.get(timeout=wait_s)
        except queue.Empty:
            return
        self._tell(name, progress)

    def _tell(self, name: str, progress: Any) -> None:
        result = self._shared.results.pop((name, progress.batchId), None)
        if result is None and name in self._logs and (name, progress.batchId) not in self._told:
            result = log_result(name, self._logs[name], progress)
            self._told.add((name, progress.batchId))
        if result is None:
            return
        event = batch_done(result, progress)
        self._add(event)
        self._state.add_line("progress.jsonl", events.as_json(event))
        self._on_event(event)

    def _last_words(self, queries: list[Query]) -> None:
        deadline = time.monotonic() + LAST_WORDS_S
        while self._waiting() and self._shared.error is None and time.monotonic() < deadline:
            self._take_progress(LOOK_S)
        for query in queries:
            for progress in query.recent_progress():
                self._tell(query.name, progress)

    def _add(self, event: BatchDone) -> None:
        rows_out = dict(self._totals.rows_out)
        for sink, rows in event.rows_out.items():
            rows_out[sink] = rows_out.get(sink, 0) + rows
        self._totals = Totals(
            batches=self._totals.batches + 1,
            rows_in=self._totals.rows_in + (event.rows_in if event.query == self._counting else 0),
            rows_out=rows_out,
            rejected=self._totals.rejected + event.rejected,
        )

    def _finished(self, status: RunStatus) -> RunResult:
        seconds = time.monotonic() - self._begun
        self._lock.release(status)
        self._on_event(events.Finished(status, self._totals, seconds, time.time()))
        return RunResult(status, self._totals, seconds, self._pipeline_id, self._state.location)

    def _failed(self, error: TubeError) -> None:
        self._lock.release(RunStatus.FAILED, error=error.message)
        seconds = time.monotonic() - self._begun
        self._on_event(
            events.Failed(error.message, error.hint, error.code, self._totals, seconds, time.time()),
        )


def _on_sigterm(stop: threading.Event) -> Callable[[], None]:
    """Let SIGTERM end the run after the batch; returns what puts things back."""
    if threading.current_thread() is not threading.main_thread():
        return lambda: None
    before = signal.signal(signal.SIGTERM, lambda *_: stop.set())

    def restore() -> None:
        signal.signal(signal.SIGTERM, before)

    return restore
