"""A pipeline's run from start to end: everything checked, then batches until there are no more or someone asks to stop.

The invariant: until every check has passed nothing is written outside of the state directory; however a run ends, the
next one goes on with the first batch that is not in every sink.
"""

from __future__ import annotations

import logging
import queue
import signal
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pytubemq.pipelines import events
from pytubemq.pipelines.events import RunResult, RunStatus, Totals
from pytubemq.pipelines.file.model import TriggerKind
from pytubemq.pipelines.file.source_positions import unplaced
from pytubemq.pipelines.file.texts import hide_secrets
from pytubemq.pipelines.file.writing.normal_form import as_dict
from pytubemq.pipelines.frames.brokers import reads_java
from pytubemq.pipelines.rules.registry import BEFORE_SPARK, refuse
from pytubemq.pipelines.rules.rule import Context
from pytubemq.pipelines.run.batch import Shared
from pytubemq.pipelines.run.lock import RunLock
from pytubemq.pipelines.run.progress import ProgressListener, batch_done, log_result
from pytubemq.pipelines.run.queries import Query, plan_queries, start_order
from pytubemq.pipelines.run.session import check_session, open_session, present_session, unheeded
from pytubemq.pipelines.spark_faults import PipelineError, failed, format_error
from pytubemq.pipelines.state.directory import StateDirectory
from pytubemq.pipelines.state.files import PROGRESS, SPEC, STOP
from pytubemq.pipelines.state.state_location import state_location

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from pytubemq.errors import TubeError
    from pytubemq.pipelines.events import BatchDone, Event
    from pytubemq.pipelines.file.model import Pipeline

_LOG: Final = logging.getLogger(__name__)
LOOK_S: Final = 0.25
"""The pause between two looks for that file."""
LAST_WORDS_S: Final = 5.0
"""The time that the progress of the last batch may take to arrive."""


def run_pipeline(
    pipeline: Pipeline,
    *,
    spark: SparkSession | None = None,
    once: bool = False,
    on_event: Callable[[Event], None] = lambda event: None,
    apart: str | None = None,
) -> RunResult:
    """Run a pipeline until it ends, fails, or is asked to stop.

    Args:
        pipeline: what to run.
        spark: the session; the one that is there, or a new one as the pipeline says, if None. Only a new one is stopped
            at the end; in one that is there the settings of the pipeline's `spark` do nothing, which is logged.
        once: take all that is there now, then end, whatever the pipeline's trigger is.
        on_event: called at the start, for each batch and at the end, on the caller's thread.
        apart: what this run is, as `a backfill`, if it is one over a part of the pipeline's rows; steps that keep state
            are refused then.

    Raises:
        ConfigError: something is wrong that was found before anything ran; nothing was written.
        TubeError: the run failed; the next run goes on from the batch that failed.
    """
    asked = pipeline
    if once and pipeline.trigger.kind is not TriggerKind.ONCE:
        pipeline = replace(pipeline, trigger=replace(pipeline.trigger, kind=TriggerKind.AVAILABLE_NOW))
    hide_secrets(pipeline)
    state = StateDirectory(state_location(pipeline))
    pipeline = replace(pipeline, state=state.location).with_masters()
    asked = replace(asked, state=state.location)
    lock = RunLock(state, pipeline.name)
    shared = Shared(check_held=lock.check)
    lock.take(first=lambda: state.delete(STOP), on_lost=shared.fail)
    return _Run(pipeline, state, lock, on_event, shared, apart, asked).go(spark)


class _Run:
    def __init__(
        self,
        pipeline: Pipeline,
        state: StateDirectory,
        lock: RunLock,
        on_event: Callable[[Event], None],
        shared: Shared,
        apart: str | None = None,
        asked: Pipeline | None = None,
    ) -> None:
        """Create the run; `asked` is the pipeline as in its file, with which a plan compares a later file."""
        self._pipeline = pipeline
        self._asked = asked or pipeline
        self._state = state
        self._lock = lock
        self._on_event = on_event
        self._shared = shared
        self._apart = apart
        self._totals = Totals()
        self._listener: ProgressListener | None = None
        self._pipeline_id = ""
        self._logs: dict[str, str] = {}
        """By query, the sink that is Spark's own."""
        self._counting = ""
        """The query whose records count: each query reads the source for itself."""
        self._reported: dict[str, int] = {}
        """By query, the newest batch of Spark's own file sink that was reported."""
        self._names: dict[str, str] = {}
        """Of our queries, by the id of this start of them."""
        self._patience_ends: float | None = None

    def go(self, given: SparkSession | None) -> RunResult:
        """Run the pipeline from start to end."""
        made = None
        restore = _on_sigterm(self._shared.ask_to_stop)
        try:
            self._ask_first()
            session = given or present_session()
            if session is None:
                self._on_event(events.Starting(self._pipeline.name, time.time()))
                session = made = open_session(self._pipeline)
            else:
                check_session(session)
                for setting in unheeded(self._pipeline, session):
                    _LOG.warning("%s of the pipeline has no effect in an existing session", setting)
            return self._finished(self._carry_out(session))
        except Exception as error:
            wrong = failed(error, f"pipeline {self._pipeline.name}")
            if self._shared.asked:
                return self._cut_short(wrong)
            self._failed(wrong)
            if wrong is error:
                raise
            raise wrong from error
        except BaseException:
            self._lock.release(RunStatus.STOPPED)
            raise
        finally:
            restore()
            if made is not None:
                _end_session(made)

    def _ask_first(self) -> None:
        """Ask the rules that need no Spark, before it starts."""
        places = unplaced(self._pipeline)
        refuse(Context(self._pipeline, places, BEFORE_SPARK, state=self._state, apart=self._apart))

    def _carry_out(self, session: SparkSession) -> RunStatus:
        queries = plan_queries(session, self._pipeline, self._state, self._shared, apart=self._apart)
        self._state.write(SPEC, as_dict(self._asked))
        self._listener = listener = ProgressListener()
        session.streams.addListener(listener)
        try:
            return self._watch(queries)
        finally:
            for query in queries:
                query.end()
            session.streams.removeListener(listener)

    def _watch(self, queries: list[Query]) -> RunStatus:
        self._counting = queries[0].name
        self._logs = {query.name: query.log.name for query in queries if query.log is not None}
        self._start(queries)
        self._pipeline_id = queries[0].pipeline_id()
        self._lock.note(pipeline_id=self._pipeline_id)
        self._tell_started(queries)
        while any(query.is_active for query in queries):
            self._take_progress(LOOK_S)
            if self._state.exists(STOP):
                self._shared.ask_to_stop()
            if self._may_stop() or self._shared.error is not None or self._gone(queries) is not None:
                break
        self._last_words(queries)
        stopped = self._shared.stop.is_set()
        wrong = self._shared.error or self._gone(queries)
        if wrong is not None:
            raise wrong
        self._state.delete(STOP)
        return RunStatus.STOPPED if stopped else RunStatus.FINISHED

    def _start(self, queries: list[Query]) -> None:
        """Start them all, those that Spark may refuse first; no batch begins before all are started."""
        try:
            for query in sorted(queries, key=start_order):
                query.start(self._pipeline.trigger)
        except BaseException:
            self._shared.stop.set()
            raise
        finally:
            self._shared.begun.set()
        self._names = {query.run_id: query.name for query in queries}

    def _may_stop(self) -> bool:
        """True if a stop was requested, and no batch is under way or waits for Spark's progress, which may not come."""
        if not self._shared.stop.is_set() or self._shared.busy:
            self._patience_ends = None
            return False
        if self._patience_ends is None:
            self._patience_ends = time.monotonic() + LAST_WORDS_S
        return not self._waiting() or time.monotonic() > self._patience_ends

    def _gone(self, queries: list[Query]) -> TubeError | None:
        """Return the error of a query that ended and should not have, be it in a batch of ours or not."""
        ends = self._pipeline.trigger.kind in (TriggerKind.AVAILABLE_NOW, TriggerKind.ONCE)
        for query in queries:
            if query.is_active or query.name in self._shared.turned_away:
                continue
            wrong = query.error()
            if wrong is None and not ends and not self._shared.stop.is_set():
                wrong = PipelineError(
                    f"pipeline {self._pipeline.name}: its query {query.name} was stopped from outside",
                    hint="run again to continue; to end a run, use  pytubemq pipeline stop",
                )
            if wrong is not None:
                return wrong
        return None

    def _tell_started(self, queries: list[Query]) -> None:
        promised = {one.name: one.writer.guarantee.value for query in queries for one in query.outputs}
        java = reads_java(self._pipeline)
        at_s = time.time()
        names = [query.name for query in queries]
        self._lock.note(java=java, ready=at_s, sinks=list(promised), promised=promised, queries=names)
        self._on_event(
            events.Started(
                pipeline=self._pipeline.name,
                run_id=self._lock.run_id,
                pipeline_id=self._pipeline_id,
                state=self._state.location,
                sinks=tuple(promised),
                queries=tuple(names),
                at_s=at_s,
                began_s=self._lock.started_s,
                java=java,
                promised=promised,
            )
        )

    def _waiting(self) -> bool:
        """True if batches are done whose progress Spark has not reported yet."""
        return bool(self._shared.results)

    def _take_progress(self, wait_s: float) -> None:
        assert self._listener is not None
        try:
            progress = self._listener.progress.get(timeout=wait_s)
        except queue.Empty:
            return
        name = self._names.get(str(progress.runId))
        if name is not None:  # else it is of another pipeline in this session
            self._report(name, progress)

    def _report(self, name: str, progress: Any) -> None:
        result = self._shared.results.pop((name, progress.batchId), None)
        if result is None and name in self._logs and progress.batchId > self._reported.get(name, -1):
            result = log_result(name, self._logs[name], progress)
            if result is not None:
                self._reported[name] = progress.batchId
        if result is None:
            return
        event = batch_done(result, progress)
        self._add(event)
        self._state.add_line(PROGRESS, events.event_as_json(event))
        self._on_event(event)

    def _last_words(self, queries: list[Query]) -> None:
        deadline = time.monotonic() + LAST_WORDS_S
        while self._waiting() and self._shared.error is None and time.monotonic() < deadline:
            self._take_progress(LOOK_S)
        for query in queries:
            for progress in query.recent_progress():
                self._report(query.name, progress)

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
        at_s, seconds = self._ended()
        self._lock.release(status, at_s=at_s)
        self._on_event(events.Finished(status, self._totals, seconds, at_s))
        return RunResult(status, self._totals, seconds, self._pipeline_id, self._state.location)

    def _cut_short(self, wrong: TubeError) -> RunResult:
        """End the run after a failure during a requested stop, as when the same signal ended Spark, too: the next run
        does again what this one did not finish, and reports what is wrong if it still is.
        """
        at_s, seconds = self._ended()
        message = f"interrupted: {wrong.message}"
        _LOG.warning("pipeline %s, asked to stop, was %s", self._pipeline.name, message)
        hint = "the next run continues with the first batch that is not in every sink"
        try:
            self._lock.release(RunStatus.STOPPED, at_s=at_s, message=message, hint=hint)
        except Exception as second:
            _LOG.warning("pipeline %s: run.json could not be written: %s", self._pipeline.name, second)
        self._on_event(events.Finished(RunStatus.STOPPED, self._totals, seconds, at_s, message, hint))
        return RunResult(RunStatus.STOPPED, self._totals, seconds, self._pipeline_id, self._state.location)

    def _ended(self) -> tuple[float, float]:
        """Return when the run ended and how long it took, for all reports alike."""
        at_s = time.time()
        return at_s, max(0.0, at_s - self._lock.started_s)

    def _failed(self, error: TubeError) -> None:
        at_s, seconds = self._ended()
        try:
            self._lock.release(RunStatus.FAILED, at_s=at_s, error=error.message, hint=error.hint)
        except Exception as second:  # the first error is the one to report
            _LOG.warning("pipeline %s: run.json could not be written: %s", self._pipeline.name, second)
        self._on_event(
            events.Failed(error.message, error.hint, error.code, self._totals, seconds, at_s),
        )


def _end_session(session: SparkSession) -> None:
    try:
        session.stop()
    except Exception as error:  # Spark is gone already; the result of the run is reported by then
        _LOG.warning("Spark's session did not stop cleanly: %s", format_error(error))


def _on_sigterm(ask_to_stop: Callable[[], None]) -> Callable[[], None]:
    """Let SIGTERM end the run after the batch; returns what puts things back."""
    if threading.current_thread() is not threading.main_thread():
        return lambda: None
    before = signal.signal(signal.SIGTERM, lambda *_: ask_to_stop())

    def restore() -> None:
        signal.signal(signal.SIGTERM, before)

    return restore
