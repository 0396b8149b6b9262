"""What the engine does with its queries: their start, their ends, their progress; queries and session played here."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import pytubemq.sync
from pytubemq.errors import ConfigError, NotFoundError, TransportError, TubeError
from pytubemq.pipelines.events import Failed, Finished, RunStatus, Started, Starting
from pytubemq.pipelines.file.model import (
    Audit,
    DeadLetter,
    Guarantee,
    Pipeline,
    Sink,
    Source,
    SparkSettings,
    Trigger,
    TriggerKind,
)
from pytubemq.pipelines.file.writing.normal_form import as_dict, differences
from pytubemq.pipelines.report.record import read_record
from pytubemq.pipelines.run import engine, queries
from pytubemq.pipelines.run.batch import BatchResult, Output, Shared, StateBody, StopRequestedError
from pytubemq.pipelines.run.lock import RunLock
from pytubemq.pipelines.run.progress import LOG_ROWS, ProgressListener
from pytubemq.pipelines.run.session import _start_jvm, present_session, unheeded
from pytubemq.pipelines.spark_faults import PipelineError
from pytubemq.pipelines.state import progress
from pytubemq.pipelines.state.directory import StateDirectory
from pytubemq.pipelines.state.files import RUN, SPEC, LocalFiles
from pytubemq.pipelines.state.ledger import Entry, Ledger
from pytubemq.spark.source.read import source_connection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.pipelines.events import Event

LAKE = Sink("lake", "parquet", path="/lake", layout="log")
CONSOLE = Sink("out", "console")
PIPELINE = Pipeline("p", Source(format="rate"), sinks=(CONSOLE,), trigger=Trigger(TriggerKind.INTERVAL, "1 second"))


@dataclass
class Played:
    """A query as the engine sees it."""

    name: str
    looks: int = 1_000
    """How often it says that it is at work, once it is started."""
    wrong: TubeError | None = None
    refused: TubeError | None = None
    log: Sink | None = None
    outputs: tuple[Output, ...] = ()
    started: list[str] = field(default_factory=list)
    """Shared by all queries of a test: their names in the order of their starts."""
    recent: list[Any] = field(default_factory=list)

    @property
    def run_id(self) -> str:
        return f"run-of-{self.name}"

    @property
    def is_active(self) -> bool:
        self.looks -= 1
        return self.name in self.started and self.looks > 0

    def start(self, trigger: Trigger) -> None:
        if self.refused is not None:
            raise self.refused
        self.started.append(self.name)

    def error(self) -> TubeError | None:
        return self.wrong

    def pipeline_id(self) -> str:
        return "p-1"

    def recent_progress(self) -> list[Any]:
        return self.recent


class Playing:
    """A run over a state directory of its own."""

    def __init__(self, place: Path) -> None:
        self.state = StateDirectory(str(place))
        self.events: list[Event] = []
        self.started: list[str] = []
        lock = RunLock(self.state, "p")
        lock.take()
        self.lock = lock
        self.run = engine._Run(PIPELINE, self.state, lock, self.events.append, Shared())
        self.run._listener = ProgressListener()

    def watch(self, *queries: Played) -> RunStatus:
        for query in queries:
            query.started = self.started
        return self.run._watch(list(queries))  # type: ignore[arg-type]

    def progress(self, run_id: str, batch_id: int, **more: Any) -> Any:
        there = {"runId": run_id, "batchId": batch_id, "durationMs": {}, "sources": [], "numInputRows": 1}
        return SimpleNamespace(**there | more)


@pytest.fixture
def playing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Playing]:
    monkeypatch.setattr(engine, "LOOK_S", 0.001)
    monkeypatch.setattr(engine, "LAST_WORDS_S", 0.02)
    played = Playing(tmp_path / "state")
    yield played
    played.lock.release(RunStatus.STOPPED)


def test_a_query_that_dies_outside_of_a_batch_ends_the_run_though_another_lives(playing: Playing) -> None:
    main = Played("main")
    with pytest.raises(PipelineError, match="disk full"):
        playing.watch(main, Played("log-lake", looks=3, wrong=PipelineError("disk full"), log=LAKE))
    assert main.is_active


def test_a_query_that_somebody_stops_from_outside_ends_the_run_by_name(playing: Playing) -> None:
    with pytest.raises(PipelineError, match="its query step-x was stopped from outside"):
        playing.watch(Played("main"), Played("step-x", looks=3))


def test_a_failure_is_told_though_the_end_was_asked_for(playing: Playing) -> None:
    playing.run._shared.stop.set()
    with pytest.raises(PipelineError, match="disk full"):
        playing.watch(Played("main"), Played("log-lake", looks=1, wrong=PipelineError("disk full"), log=LAKE))


def test_a_query_whose_batch_was_not_begun_after_the_end_was_asked_for_has_not_failed(playing: Playing) -> None:
    playing.run._shared.stop.set()
    playing.run._shared.turned_away.add("main")
    assert playing.watch(Played("main", looks=1, wrong=PipelineError("turned away"))) is RunStatus.STOPPED


def test_it_is_told_what_each_sink_promises_as_its_target_was_found(playing: Playing) -> None:
    found = {"ours": Guarantee.EXACTLY_ONCE, "java": Guarantee.AT_LEAST_ONCE}
    writers: list[Any] = [SimpleNamespace(spec=replace(LAKE, name=name), guarantee=found[name]) for name in found]
    outputs = tuple(Output(writer, "input") for writer in writers)
    playing.run._shared.stop.set()
    playing.watch(Played("main", looks=2, outputs=outputs))
    [told] = [event for event in playing.events if isinstance(event, Started)]
    assert told.promised == {"ours": "exactly_once", "java": "at_least_once"}
    assert told.sinks == ("ours", "java")
    assert (playing.state.read(RUN) or {})["promised"] == told.promised


def test_the_end_is_not_waited_for_when_spark_never_tells_of_a_batch(playing: Playing) -> None:
    playing.run._shared.stop.set()
    playing.run._shared.results["main", 7] = BatchResult("main", 7)
    main = Played("main", looks=1_000_000)
    assert playing.watch(main) is RunStatus.STOPPED
    assert main.looks > 0


def test_queries_that_spark_may_refuse_are_started_first_and_its_own_sink_last(playing: Playing) -> None:
    playing.run._shared.stop.set()
    playing.watch(Played("main"), Played("log-lake", log=LAKE), Played("step-x"))
    assert playing.started == ["step-x", "main", "log-lake"]
    assert playing.run._shared.begun.is_set()


def test_when_one_query_is_refused_no_batch_of_another_begins(playing: Playing) -> None:
    with pytest.raises(ConfigError, match="needs a watermark"):
        playing.watch(Played("main"), Played("step-x", refused=ConfigError("needs a watermark")))
    assert playing.started == []
    assert playing.run._shared.begun.is_set()
    assert playing.run._shared.stop.is_set()


def test_a_batch_waits_until_all_queries_are_started(playing: Playing) -> None:
    shared = playing.run._shared
    body = StateBody("step-x", PIPELINE, (), shared=shared, ledger=Ledger(playing.state), pipeline_id=lambda: "p-1")
    ended: list[BaseException] = []

    def batch() -> None:
        try:
            body(None, 0)  # type: ignore[arg-type]
        except StopRequestedError as error:
            ended.append(error)

    thread = threading.Thread(target=batch)
    thread.start()
    assert not shared.busy
    shared.stop.set()
    assert thread.is_alive()
    shared.begun.set()
    thread.join(10)
    assert len(ended) == 1
    assert shared.turned_away == {"step-x"}


def test_no_batch_begins_when_the_state_is_another_run_s_by_now(playing: Playing) -> None:
    def lost() -> None:
        raise PipelineError("taken over")

    shared = Shared(check_held=lost)
    shared.begun.set()
    body = StateBody("step-x", PIPELINE, (), shared=shared, ledger=Ledger(playing.state), pipeline_id=lambda: "p-1")
    with pytest.raises(PipelineError, match="taken over"):
        body(None, 0)  # type: ignore[arg-type]
    assert shared.error is not None


def test_a_run_ends_when_it_hears_that_another_has_taken_over(playing: Playing) -> None:
    playing.run._shared.fail(PipelineError("taken over"))
    with pytest.raises(PipelineError, match="taken over"):
        playing.watch(Played("main"))


def test_a_run_hears_of_it_from_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Shared] = []

    def go(run: Any, spark: object) -> None:
        told.append(run._shared)
        run._lock._on_lost(PipelineError("taken over"))
        run._lock.release(RunStatus.STOPPED)

    monkeypatch.setattr(engine._Run, "go", go)
    monkeypatch.setenv("HOME_OF_STATE", str(tmp_path))
    engine.run_pipeline(Pipeline("p", Source(), sinks=(Sink("out", "console"),), state="${env:HOME_OF_STATE}/taken"))
    assert (tmp_path / "taken" / "run.json").exists()
    assert told[0].error is not None
    told[0].check_held()  # the lock's, and it is held


def test_rows_of_a_step_with_state_are_made_once_however_often_they_are_used(playing: Playing) -> None:
    class Rows:
        held = 0

        def persist(self) -> Rows:
            self.held += 1
            return self

        def unpersist(self) -> None:
            self.held -= 1

    rows: Any = Rows()
    pipeline = Pipeline("p", Source(), audit=Audit("at"))
    output: Any = SimpleNamespace(step="x", name="lake")
    shared = playing.run._shared
    body = StateBody("s", pipeline, (output,), shared=shared, ledger=Ledger(playing.state), pipeline_id=lambda: "p-1")
    with body._frames(rows, Entry("p-1", "s", 0), BatchResult("s", 0)) as frames:
        assert frames["x"] is rows
        assert rows.held == 1
    assert rows.held == 0


def test_progress_of_another_pipeline_in_the_same_session_is_not_taken_for_ours(playing: Playing) -> None:
    run = playing.run
    run._names = {"ours": "main"}
    run._shared.results["main", 3] = BatchResult("main", 3)
    assert run._listener is not None
    run._listener.progress.put(playing.progress("another", 3))
    run._take_progress(0)
    assert playing.events == []
    run._listener.progress.put(playing.progress("ours", 3))
    run._take_progress(0)
    assert [event.batch_id for event in playing.events] == [3]  # type: ignore[union-attr]


def test_batches_of_spark_s_own_sink_are_told_once_and_not_remembered_one_by_one(playing: Playing) -> None:
    run = playing.run
    run._logs = {"log-lake": "lake"}
    counted = {LOG_ROWS: {"rows": 5}}
    for batch_id in (0, 1, 1, 2):
        run._report("log-lake", playing.progress("x", batch_id, observedMetrics=counted))
        run._report("log-lake", playing.progress("x", batch_id + 1, observedMetrics={}, numInputRows=0))
    assert [event.batch_id for event in playing.events] == [0, 1, 2]  # type: ignore[union-attr]
    assert len(run._reported) == 1


def test_a_failed_run_leaves_its_hint_and_is_told_though_the_state_cannot_be_written(
    playing: Playing, monkeypatch: pytest.MonkeyPatch
) -> None:
    playing.run._failed(ConfigError("no such topic", hint="make it"))
    said = playing.state.read(RUN) or {}
    assert (said["status"], said["error"], said["hint"]) == ("failed", "no such topic", "make it")

    def full(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(playing.state, "write", full)
    playing.run._failed(ConfigError("the first error"))
    monkeypatch.undo()
    assert [event.message for event in playing.events if isinstance(event, Failed)] == [
        "no such topic",
        "the first error",
    ]


def test_a_pipeline_that_is_refused_leaves_no_word_of_its_source(
    playing: Playing, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise ConfigError("no such table")

    monkeypatch.setattr(queries, "make_tables", refuse)
    session: Any = None
    with pytest.raises(ConfigError, match="no such table"):
        queries.plan_queries(session, PIPELINE, playing.state, Shared())
    assert not playing.state.exists(progress.NAME)


def test_a_session_that_somebody_else_made_goes_on_after_the_run(
    playing: Playing, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[bool] = []
    session = SimpleNamespace(stop=lambda: stopped.append(True))
    monkeypatch.setattr(engine, "present_session", lambda: session)
    monkeypatch.setattr(engine, "check_session", lambda there: None)
    monkeypatch.setattr(engine, "unheeded", lambda pipeline, there: [])
    monkeypatch.setattr(playing.run, "_carry_out", lambda there: RunStatus.FINISHED)
    assert playing.run.go(None).status is RunStatus.FINISHED
    assert stopped == []
    assert [type(event) for event in playing.events] == [Finished]
    monkeypatch.setattr(engine, "present_session", lambda: None)
    monkeypatch.setattr(engine, "open_session", lambda pipeline: session)
    playing.run.go(None)
    assert stopped == [True]
    assert [type(event) for event in playing.events[1:]] == [Starting, Finished]


def test_what_fails_after_the_end_was_asked_for_cuts_the_run_short_and_is_no_failure(
    playing: Playing, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone() -> None:
        raise ConnectionRefusedError("no Spark")

    def carry_out(session: object) -> RunStatus:
        playing.run._shared.ask_to_stop()
        raise PipelineError("sink lake: Connection refused")

    monkeypatch.setattr(engine, "present_session", lambda: None)
    monkeypatch.setattr(engine, "open_session", lambda pipeline: SimpleNamespace(stop=gone))
    monkeypatch.setattr(playing.run, "_carry_out", carry_out)
    assert playing.run.go(None).status is RunStatus.STOPPED
    ended = playing.events[-1]
    assert isinstance(ended, Finished)
    assert ended.message == "interrupted: sink lake: Connection refused"
    told = read_record(LocalFiles(Path(playing.state.location)))
    assert (told.status, told.message, told.hint) == (RunStatus.STOPPED, ended.message, ended.hint)


def test_a_run_that_could_not_begin_all_its_queries_has_failed_though_it_stops_the_others(
    playing: Playing, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = [Played("main", refused=ConfigError("no such plan"), started=[])]
    monkeypatch.setattr(engine, "present_session", lambda: SimpleNamespace())
    monkeypatch.setattr(engine, "check_session", lambda there: None)
    monkeypatch.setattr(engine, "unheeded", lambda pipeline, there: [])
    monkeypatch.setattr(playing.run, "_carry_out", lambda there: playing.watch(*queries))
    with pytest.raises(ConfigError, match="no such plan"):
        playing.run.go(None)
    assert playing.run._shared.stop.is_set()
    assert isinstance(playing.events[-1], Failed)


def test_a_signal_to_the_process_group_of_a_run_does_not_reach_its_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark import SparkContext, java_gateway

    def launch(conf: Any, popen_kwargs: dict[str, Any]) -> Any:
        launched.append((dict(conf.getAll()), popen_kwargs))
        return SimpleNamespace(jvm=None)

    launched: list[tuple[dict[str, str], dict[str, Any]]] = []
    monkeypatch.setattr(java_gateway, "launch_gateway", launch)
    monkeypatch.setattr(SparkContext, "_jvm", None)
    monkeypatch.setattr(SparkContext, "_gateway", None)
    _start_jvm({"spark.jars": "a.jar"})
    _start_jvm({"spark.jars": "b.jar"})  # there is one by then
    assert launched == [({"spark.jars": "a.jar"}, {"process_group": 0})]


def test_a_session_of_another_thread_is_there_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    made = object()
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", lambda builder: made)
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    assert present_session() is None
    monkeypatch.setattr(SparkContext, "_active_spark_context", object())
    assert present_session() is made


def test_what_a_session_that_is_there_does_otherwise_than_the_pipeline_says_is_named() -> None:
    conf = {"spark.master": "local[2]", "spark.jars": "/a.jar"}
    session: Any = SimpleNamespace(
        conf=SimpleNamespace(get=lambda key, default: {"spark.x": "1"}.get(key, default)),
        sparkContext=SimpleNamespace(
            getConf=lambda: SimpleNamespace(get=lambda key, default=None: conf.get(key, default))
        ),
    )
    spark = SparkSettings("local[9]", {"spark.x": "1", "spark.y": "secret"}, ("a:b:1",), ("/a.jar", "/b.jar"))
    assert unheeded(Pipeline("p", Source(), spark=spark), session) == [
        "spark.conf.spark.y",
        "spark.master = local[9]",
        "spark.packages: a:b:1",
        "spark.jars: /b.jar",
    ]
    assert unheeded(PIPELINE, session) == []


def test_what_needs_no_spark_is_refused_before_it_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Tube:
        def __enter__(self) -> Any:
            return self

        def __exit__(self, *exc: object) -> None: ...

        def close(self) -> None: ...

        def partitions_of(self, topics: list[str]) -> dict[str, object]:
            return {}

        def topics(self) -> list[str]:
            return []

    def connect(masters: Any, **more: Any) -> Tube:
        if str(masters) == "a:1":
            raise TransportError("nobody answers")
        return Tube()

    monkeypatch.setattr(pytubemq.sync, "connect", connect)
    monkeypatch.setattr(source_connection, "FIRST_CONTACT_S", 0.0)
    monkeypatch.setattr(engine, "open_session", lambda pipeline: pytest.fail("Spark was started"))
    monkeypatch.setattr(engine, "present_session", lambda: pytest.fail("Spark was asked"))
    sinks = (Sink("out", "console"),)
    told: list[Event] = []
    wrong = Pipeline("p", Source(topics=("ordres",), master="b:1"), sinks=sinks, state=str(tmp_path))
    with pytest.raises(NotFoundError, match=r"source\.topic: topic 'ordres' does not exist"):
        engine.run_pipeline(wrong, on_event=told.append)
    assert [type(event) for event in told] == [Failed]
    with pytest.raises(TransportError):
        engine.run_pipeline(replace(wrong, source=replace(wrong.source, master="a:1")))
    with pytest.raises(ConfigError, match="sinks: needs at least one sink"):
        engine.run_pipeline(replace(wrong, sinks=()))
    state = StateDirectory(str(tmp_path))
    progress.remember_source(state, wrong)
    (tmp_path / "checkpoint/offsets").mkdir(parents=True)
    (tmp_path / "checkpoint/offsets/0").touch()
    with pytest.raises(ConfigError, match="has the progress of pipeline p reading tubemq ordres"):
        engine.run_pipeline(replace(wrong, source=replace(wrong.source, topics=("orders",))))


def test_what_the_run_adds_to_a_file_is_not_taken_for_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def go(run: Any, spark: object) -> None:
        monkeypatch.setattr(engine, "plan_queries", lambda *given, **more: pytest.raises)
        with pytest.raises(AttributeError):
            run._carry_out(SimpleNamespace())  # the session is asked after the file is written down
        run._lock.release(RunStatus.STOPPED)

    monkeypatch.setattr(engine._Run, "go", go)
    sink = Sink("lake", "parquet", path="/lake")
    letters = DeadLetter(path="/dead")
    asked = Pipeline("p", Source(master="h:1", topics=("t",)), sinks=(sink,), dead_letter=letters, state=str(tmp_path))
    engine.run_pipeline(asked, once=True)
    assert differences(StateDirectory(str(tmp_path)).read(SPEC) or {}, as_dict(asked)) == []
