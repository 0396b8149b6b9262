"""The commands that look after a pipeline, as far as they need neither Spark nor a cluster."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pytubemq.cli.options import GlobalOptions
from pytubemq.cli.pipeline.progress_display import (
    Bars,
    Json,
    Lines,
    Nothing,
    Shown,
    chosen,
    clock,
    display,
    figures,
    line,
)
from pytubemq.cli.pipeline.spark_log import MOST_BYTES, log_place, spark_log
from pytubemq.decode.dead_letter_columns import DEAD_LETTER_ARROW
from pytubemq.errors import ConfigError, UnreachableError
from pytubemq.pipelines.analysis.missing import MissingStartError, MissingTopicError
from pytubemq.pipelines.check.dry_run import Check
from pytubemq.pipelines.events import (
    BatchDone,
    Failed,
    Finished,
    RunResult,
    RunStatus,
    Started,
    Starting,
    Totals,
)
from pytubemq.pipelines.report.record import RunRecord
from pytubemq.pipelines.rules.rule import Context, Need
from tests.support.waiting import until_seen
from tests.unit.cli.conftest import Ran

if TYPE_CHECKING:
    from pytubemq.pipelines.events import Event

Tube = Callable[..., Ran]


def batch(number: int, **more: Any) -> BatchDone:
    fields: dict[str, Any] = {
        "batch_id": number, "rows_in": 1_000, "rows_out": {"lake": 990}, "rejected": 10, "lag_rows": 2_000,
        "lag_s": 7.0, "seconds": 0.5, "parts": {}, "offsets": {"1:t:0": 28}, "reasons": {"decode.json": 10},
        "at_s": 1_770_000_000.0 + number,
    }  # fmt: skip
    return BatchDone(**fields | more)


STARTING = Starting("orders", 1_769_999_999.0)
STARTED = Started("orders", "f00d", "cafe", "/state", ("lake",), ("main",), 1_770_000_000.0)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A pipeline whose last run has failed, with three dead letters."""
    path = tmp_path / "orders.yaml"
    path.write_text(
        "name: orders\nsource: {topic: t, master: '127.0.0.1:1', start: earliest}\n"
        "decode: {format: json, schema: 'id BIGINT'}\n"
        f"sinks: [{{name: lake, format: parquet, path: {tmp_path / 'lake'}}}]\n"
        f"dead_letter: {{path: {tmp_path / 'dead'}}}\nstate: st\n"
    )
    state = tmp_path / "st"
    state.mkdir()
    facts = {
        "pipeline": "orders", "run_id": "f00d", "pid": 1, "host": "elsewhere", "started": 1_770_000_000.0,
        "ended": 1_770_000_009.0, "heartbeat": 1_770_000_009.0, "status": "failed", "error": "the disk is full",
    }  # fmt: skip
    (state / "run.json").write_text(json.dumps(facts))
    from pytubemq.pipelines.events import event_as_json

    (state / "progress.jsonl").write_text("\n".join(json.dumps(event_as_json(batch(number))) for number in range(3)))
    (state / "checkpoint").mkdir()
    dead = tmp_path / "dead" / "batch=q-000000"
    dead.mkdir(parents=True)
    letters = [
        {"reason": "decode.json", "detail": "d", "stage": "message", "topic": "t", "offset": n} for n in range(3)
    ]
    pq.write_table(pa.Table.from_pylist(letters, schema=DEAD_LETTER_ARROW), dead / "part-0.parquet")
    return path


def test_status_tells_how_the_last_run_ended_and_its_exit_code_says_it(tube: Tube, file: Path) -> None:
    ran = tube("pipeline", "status", str(file), "-o", "json")
    found = json.loads(ran.out)
    assert (ran.code, found["status"], found["message"], found["rows_in"]) == (10, "failed", "the disk is full", 3_000)
    assert tube("pipeline", "status", str(file.parent / "st"), "-o", "name").out == "orders\n"
    shown = tube("pipeline", "status", str(file)).out
    assert "the disk is full" in shown
    assert "lake" in shown


def test_a_pipeline_that_has_never_run_is_not_found(tube: Tube, file: Path) -> None:
    other = file.with_name("other.yaml")
    other.write_text(file.read_text().replace("state: st", "state: none"))
    for command in ("status", "stop", "report"):
        ran = tube("pipeline", command, str(other))
        assert ran.code == 3
        assert "has not run yet" in ran.err
        assert f"pipeline run {other}" in ran.err  # to be typed as it stands
    assert not (file.parent / "none").exists()


def test_before_anything_was_rejected_all_commands_of_dead_letters_say_so_and_it_is_no_fault(
    tube: Tube, file: Path
) -> None:
    file.write_text(file.read_text().replace("/dead}", "/none}"))
    for command in ("list", "show", "redrive --yes", "redrive --dry-run", "drop --yes", "drop --dry-run"):
        name, *rest = command.split()
        ran = tube("pipeline", "dlq", name, str(file), *rest, "-o", "json")
        assert (ran.code, "no record has been rejected so far" in ran.err) == (0, True), command
        found = json.loads(ran.out)
        assert not found if name in ("list", "show") else found["pipeline"] == "orders"


@pytest.mark.slow
def test_an_address_of_the_file_that_nobody_answers_at_is_told_with_its_line(tube: Tube, file: Path) -> None:
    ran = tube("pipeline", "plan", str(file))
    assert ran.code == UnreachableError.exit_code
    assert "Connection refused" in ran.err
    assert "Connect call failed" not in ran.err
    assert f"the address is at {file}:2:28, source.master" in ran.err


def test_masters_as_an_option_are_sent_to_the_file(tube: Tube, file: Path) -> None:
    for command in (("plan",), ("dlq", "list")):
        ran = tube("pipeline", *command, str(file), "--master", "127.0.0.1:1")
        assert ran.code == 2
        assert "source.master" in ran.err


def test_a_file_with_a_fault_is_refused_with_its_place(tube: Tube, file: Path) -> None:
    file.write_text(file.read_text().replace("schema:", "shema:"))
    ran = tube("pipeline", "run", str(file), "--once")
    assert ran.code == 78
    assert f"{file}:3:" in ran.err


def test_only_what_runs_is_stopped(tube: Tube, file: Path) -> None:
    ran = tube("pipeline", "stop", str(file), "--wait", "1")
    assert ran.code == 4
    assert "failed" in ran.err


def test_the_report_is_written_where_it_is_asked_for(tube: Tube, file: Path) -> None:
    page = file.parent / "new" / "page.html"
    ran = tube("pipeline", "report", str(file), "--out", str(page), "-o", "json")
    assert json.loads(ran.out) == {"report": str(page), "bytes": page.stat().st_size}
    assert "exactly once" in page.read_text()
    assert "this is the guarantee with pytubemq Brokers" in page.read_text()
    assert tube("pipeline", "report", str(file), "--out", str(file / "below")).code == 78


def test_the_report_promises_what_holds_at_the_brokers_that_the_run_read_from(tube: Tube, file: Path) -> None:
    page, run = file.parent / "page.html", file.parent / "st" / "run.json"
    facts = json.loads(run.read_text())
    for java, said in ((True, "at least once"), (False, "exactly once")):
        run.write_text(json.dumps({**facts, "java": java}))
        assert tube("pipeline", "report", str(file), "--out", str(page)).code == 0
        assert f"<td>{said}</td>" in page.read_text()
        assert "did not record its Brokers" not in page.read_text()


def test_progress_is_forgotten_only_when_it_is_said(tube: Tube, file: Path) -> None:
    assert tube("pipeline", "reset", str(file)).code == 2
    looked = tube("pipeline", "reset", str(file), "--dry-run", "-o", "json")
    assert json.loads(looked.out)["offsets"] == {"1:t:0": 28}
    told = tube("pipeline", "reset", str(file), "--dry-run")
    assert "3 batches" in told.out
    assert "the next run begins at source.start, instead of at:\n  1:t:0  28\n" in told.out
    assert "nothing was forgotten" in told.err
    assert (file.parent / "st" / "checkpoint").is_dir()
    ran = tube("pipeline", "reset", str(file), "--yes")
    assert ran.code == 0
    assert (file.parent / "st" / "forgotten" / "checkpoint").is_dir()
    assert "has no progress" in tube("pipeline", "reset", str(file), "--dry-run").out


def test_dead_letters_are_listed_shown_and_dropped(tube: Tube, file: Path) -> None:
    [listed] = json.loads(tube("pipeline", "dlq", "list", str(file), "-o", "json").out)
    assert (listed["reason"], listed["records"]) == ("decode.json", 3)
    assert len(json.loads(tube("pipeline", "dlq", "show", str(file), "-n", "2", "-o", "json").out)) == 2
    assert tube("pipeline", "dlq", "drop", str(file)).code == 2
    assert tube("pipeline", "dlq", "redrive", str(file)).code == 2
    for name, done in (("redrive", "put through"), ("drop", "dropped")):
        would = tube("pipeline", "dlq", name, str(file), "--dry-run", "-o", "json")
        assert json.loads(would.out) == {"pipeline": "orders", "meant": 3}  # nothing is told as if it were done
        assert f"3 dead letters would be {done}" in would.err
    assert tube("pipeline", "dlq", "drop", str(file), "-n", "1", "--yes").out == "1 of 1 dead letters dropped\n"
    assert json.loads(tube("pipeline", "dlq", "drop", str(file), "--yes", "-o", "json").out)["dropped"] == 2
    assert json.loads(tube("pipeline", "dlq", "list", str(file), "-o", "json").out) == []


def test_dead_letters_beyond_what_is_taken_at_once_are_dropped_too_and_told_of(
    tube: Tube, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytubemq.pipelines.operate.dead_letters.MOST_TAKEN", 1)
    assert "the most that are shown" in tube("pipeline", "dlq", "show", str(file)).err
    assert "the next redrive" in tube("pipeline", "dlq", "redrive", str(file), "--dry-run").err
    assert "and more" in tube("pipeline", "dlq", "drop", str(file), "--dry-run").out
    assert json.loads(tube("pipeline", "dlq", "drop", str(file), "-n", "2", "--yes", "-o", "json").out)["dropped"] == 2
    assert json.loads(tube("pipeline", "dlq", "drop", str(file), "--yes", "-o", "json").out)["dropped"] == 1


def test_a_backfill_and_a_stage_are_checked_before_anything_starts(tube: Tube, file: Path) -> None:
    assert tube("pipeline", "backfill", str(file), "--from", "earliest").code == 2
    assert tube("pipeline", "backfill", str(file), "--from", "earliest", "--id", "../x", "--yes").code == 78
    ran = tube("pipeline", "tap", str(file), "lakes")
    assert ran.code == 78
    assert "did you mean lake?" in ran.err


def test_messages_are_looked_at_without_spark_and_a_step_says_that_it_is_started(
    tube: Tube, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(pipeline: Any, stage: str, **more: Any) -> list[Any]:
        return [{"stage": stage}]

    monkeypatch.setattr("pytubemq.pipelines.operate.tap.tap", look)
    ran = tube("pipeline", "tap", str(file), "source", "-o", "json")
    assert (json.loads(ran.out), "starting Spark" in ran.err) == ([{"stage": "source"}], False)
    file.write_text(file.read_text() + "steps: [{name: paid, sql: SELECT 1}]\n")
    ran = tube("pipeline", "tap", str(file), "paid", "-o", "name")
    assert "starting Spark" in ran.err


def test_a_backfill_has_one_name_while_it_runs_and_in_the_status_of_its_pipeline(
    tube: Tube, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(pipeline: Any, *, on_event: Callable[[Event], None], **more: Any) -> RunResult:
        (Path(pipeline.state) / "run.json").write_text('{"pipeline": "orders", "status": "finished"}')
        on_event(STARTED)
        on_event(Finished(RunStatus.FINISHED, Totals(), 1.0, STARTED.at_s + 1))
        return RunResult(RunStatus.FINISHED, Totals(), 1.0, "cafe", pipeline.state)

    monkeypatch.setattr("pytubemq.pipelines.operate.backfill.backfill_ranges", lambda wanted: [])
    monkeypatch.setattr("pytubemq.pipelines.run.engine.run_pipeline", run)
    again = ("pipeline", "backfill", str(file), "--from", "earliest", "--id", "june")
    assert "orders, backfill june: there is no message" in tube(*again, "--dry-run").err
    told = tube(*again, "--yes", "--progress", "log").err
    assert "orders, backfill june: 0 messages" in told
    assert "  orders, backfill june runs, sinks lake" in told
    [there] = json.loads(tube("pipeline", "status", str(file), "-o", "json").out)["backfills"]
    assert (there["backfill"], there["status"]) == ("june", "finished")
    assert "june" in tube("pipeline", "status", str(file)).out


@pytest.mark.process
def test_status_and_stop_load_neither_spark_nor_arrow(file: Path) -> None:
    code = (
        "import sys; from pytubemq.cli.main import run;"
        f"run(['pipeline', 'status', {str(file)!r}, '-o', 'json']); run(['pipeline', 'stop', {str(file)!r}, '-q']);"
        "print([name for name in ('pyspark', 'pyarrow') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def told(*events: Event) -> RunRecord:
    record = RunRecord()
    for event in events:
        record.take(event)
    return record


def test_auto_is_bars_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert chosen(Shown.AUTO, GlobalOptions()) is Shown.LOG
    assert chosen(Shown.AUTO, GlobalOptions(quiet=True)) is Shown.NONE
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert chosen(Shown.AUTO, GlobalOptions()) is Shown.BARS
    assert chosen(Shown.JSON, GlobalOptions()) is Shown.JSON
    assert isinstance(display(Shown.NONE, io.StringIO(), colour=False), Nothing)


def test_a_line_has_speed_lag_time_and_what_was_rejected() -> None:
    assert line(told(STARTED)) == "orders  no batch yet"
    assert figures(told(STARTED, batch(0))) == "2,000 rows/s  batch 0 in 0.5 s  2,000 behind (7 s)  10 rejected"


@pytest.mark.parametrize("kind", [Shown.LOG, Shown.BARS, Shown.JSON])
def test_every_display_takes_every_event_and_ends(kind: Shown) -> None:
    stream = io.StringIO()
    shown = display(kind, stream, colour=False)
    record = RunRecord()
    failed = Failed("it broke", None, None, Totals(), 1.0, 1_770_000_009.0)
    for event in (STARTING, STARTED, batch(0), batch(1, lag_rows=None, lag_s=None), failed):
        record.take(event)
        shown.show(event, record)
    shown.close()
    assert "orders" in stream.getvalue()
    if kind is Shown.JSON:
        events = [json.loads(each)["event"] for each in stream.getvalue().splitlines()]
        assert events == ["Starting", "Started", "BatchDone", "BatchDone", "Failed"]


def test_the_bar_goes_by_one_query() -> None:
    bars = Bars(io.StringIO(), colour=False)
    started = replace(STARTED, queries=("main", "step-day"))
    events: list[Event] = [
        started,
        batch(0),
        batch(0, query="step-day", lag_rows=9_000),
        batch(1, query="step-day", lag_rows=0),
    ]
    seen: list[Event] = []
    for event in events:
        seen.append(event)
        bars.show(event, told(*seen))
    [task] = bars._progress.tasks
    assert (task.completed, task.total) == (1_000, 3_000)
    bars.close()


def test_what_is_left_is_said_only_when_it_can_be_told() -> None:
    assert clock(None, 53.2, None) == "53 s"
    assert clock(0.0, 5.0, 0.0) == "0%  5 s"
    assert clock(40.0, 75.0, 3_725.0) == "40%  1:15 min, about 1:02:05 h left"
    stream = io.StringIO()
    bars = Bars(stream, colour=False)
    bars.show(STARTED, told(STARTED))
    bars.close()
    assert "orders" in stream.getvalue()
    assert "left" not in stream.getvalue()


def test_a_run_that_never_began_leaves_a_clean_screen() -> None:
    for kind in (Shown.LOG, Shown.BARS, Shown.JSON):
        stream = io.StringIO()
        display(kind, stream, colour=False).close()
        assert "Traceback" not in stream.getvalue()


def test_that_spark_starts_is_told_once_where_there_is_no_terminal() -> None:
    stream = io.StringIO()
    lines = Lines(stream, every_s=0.001)
    lines.show(STARTING, RunRecord(pipeline="orders"))
    lines.close()
    assert stream.getvalue().partition("  ")[2] == "orders  starting Spark\n"


def test_a_long_batch_is_told_of_while_it_lasts() -> None:
    import threading

    seen = threading.Event()

    class Stream(io.StringIO):
        def write(self, text: str) -> int:
            if "no batch yet" in text:
                seen.set()
            return super().write(text)

    lines = Lines(Stream(), every_s=0.01)
    lines.show(STARTED, told(STARTED))
    assert seen.wait(30)
    lines.close()
    Json(io.StringIO()).close()


def test_the_last_line_is_told_once_and_a_run_without_news_says_so() -> None:
    stream = io.StringIO()
    lines = Lines(stream, every_s=3_600)
    for event in (STARTED, batch(0)):
        lines.show(event, told(STARTED, batch(0)))
    lines.close()
    assert stream.getvalue().count("1,000 rows") == 1
    again = Lines(stream, every_s=3_600)
    again.show(batch(0), told(STARTED, batch(0)))
    again._say(line(told(STARTED, batch(0))))
    again.close()
    assert stream.getvalue().count("1,000 rows") == 2
    for status, said in ((RunStatus.FINISHED, True), (RunStatus.STOPPED, False)):
        stream = io.StringIO()
        quiet = Lines(stream, every_s=3_600)
        quiet.show(STARTED, told(STARTED, Finished(status, Totals(0, 0, {}, 0), 1.0, 1_770_000_001.0)))
        quiet.close()
        assert ("nothing new" in stream.getvalue()) == said


def test_what_spark_says_goes_to_its_log_and_what_we_say_does_not(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    place = log_place(str(tmp_path / "state"), "orders")
    with spark_log(place) as talk:
        os.write(2, b"from the JVM\n")
        print("from us", file=talk)
    os.write(2, b"afterwards\n")
    assert capfd.readouterr().err == "from us\nafterwards\n"
    assert place.read_text() == "from the JVM\n"
    os.truncate(place, MOST_BYTES + 1)
    with spark_log(place):
        pass
    assert place.with_name("spark.log.1").stat().st_size == MOST_BYTES + 1
    assert place.stat().st_size == 0


def test_a_log_that_grows_during_a_run_is_put_aside_and_written_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytubemq.cli.pipeline.spark_log.MOST_BYTES", 100)
    place = tmp_path / "spark.log"
    aside = tmp_path / "spark.log.1"
    with spark_log(place, look_s=0.01):
        os.write(2, b"a" * 101)
        until_seen(aside.exists)
        os.write(2, b"behind\n")
    assert aside.read_bytes() == b"a" * 101
    assert place.read_bytes() == b"behind\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["spark.log", "spark.log.1"]


def test_a_fault_that_a_dry_run_finds_names_the_file_and_the_line_of_an_address(
    tube: Tube, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = ConfigError("none was decoded", hint="see  pytubemq pipeline tap FILE rejected")
    away = UnreachableError("cannot connect to 127.0.0.1:1", hint="check the address")

    checks = [Check("read", "", wrong), Check("source", "", away)]
    monkeypatch.setattr("pytubemq.pipelines.check.dry_run.dry_run", lambda *given, **more: checks)
    ran = tube("pipeline", "dry-run", str(file))
    assert ran.code == 78
    assert f"pytubemq pipeline tap {file} rejected" in ran.out
    assert f"the address is at {file}:2:28, source.master" in ran.out


@pytest.mark.parametrize("command", [("plan",), ("run", "--once")])
def test_a_topic_that_is_not_there_is_told_with_its_line_unless_a_plan_is_offline(
    tube: Tube, file: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    def missing(pipeline: Any, **more: Any) -> None:
        raise MissingTopicError("source.topics[0]", "source.topic", "tx", known=["tx2"])

    def refuse(context: Context, **more: Any) -> None:
        if Need.CLUSTER in context.sees:
            missing(context.pipeline)

    monkeypatch.setattr("pytubemq.pipelines.plan.plan_run.refuse", refuse)
    monkeypatch.setattr("pytubemq.pipelines.run.engine.run_pipeline", missing)
    ran = tube("pipeline", *command, str(file))
    assert (ran.code, "did you mean tx2?" in ran.err) == (3, True)
    assert f"  {file}:2:17 source.topic: topic 'tx' does not exist" in ran.err
    assert tube("pipeline", "plan", str(file), "--offline").code == 0


def test_a_plan_tells_of_a_run_that_is_at_work(tube: Tube, file: Path) -> None:
    state = file.parent / "st"
    (state / "spec.json").write_text('{"name": "orders"}')
    assert "changed since the last run:" in tube("pipeline", "plan", str(file), "--offline").out
    run = json.loads((state / "run.json").read_text())
    (state / "run.json").write_text(json.dumps(run | {"status": "running", "heartbeat": time.time()}))
    assert "changed since the current run began:" in tube("pipeline", "plan", str(file), "--offline").out


def test_a_place_to_begin_at_that_is_not_there_is_told_with_its_line(
    tube: Tube, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(pipeline: Any, **more: Any) -> None:
        raise MissingStartError(ConfigError("there is no partition 1:t:9", hint="the partitions are 1:t:0"))

    monkeypatch.setattr("pytubemq.pipelines.plan.plan_run.refuse", missing)
    ran = tube("pipeline", "plan", str(file))
    assert (ran.code, "the partitions are 1:t:0" in ran.err) == (78, True)
    assert f"{file}:2:50 source.start: there is no partition 1:t:9" in ran.err


def test_a_step_that_a_run_could_not_make_is_told_where_it_stands(
    tube: Tube, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pytubemq.pipelines.spark_faults import StepError

    path = tmp_path / "orders.yaml"
    path.write_text(
        "name: orders\nsource: {topic: t, master: '127.0.0.1:1'}\n"
        "steps:\n  - {name: paid, sql: SELECT amont FROM input}\nsinks: [{name: out, format: console}]\n"
    )
    refused = StepError("step paid does not compile: no amont", step="paid", hint="it has amount")

    def run(*given: Any, **more: Any) -> None:
        if refused.__cause__ is None:
            os.write(2, b"Spark starts")  # so that its log is named
            refused.__cause__ = Exception("[UNRESOLVED_COLUMN]; line 1 pos 7")
        raise refused

    monkeypatch.setattr("pytubemq.pipelines.run.engine.run_pipeline", run)
    for log in (True, False):
        refused.__notes__ = []
        ran = tube("pipeline", "run", str(path))
        assert (ran.code, f"{path}:4:" in ran.err, "it has amount" in ran.err) == (78, True, True)
        assert ("Spark's whole output" in ran.err) == log


def test_a_column_that_a_run_did_not_find_is_told_where_its_sink_names_it(
    tube: Tube, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pytubemq.pipelines.file.source_positions import unplaced
    from pytubemq.pipelines.rules.registry import refuse
    from pytubemq.pipelines.rules.rule import Compiled

    path = tmp_path / "orders.yaml"
    path.write_text(
        "name: orders\nsource: {topic: t, master: '127.0.0.1:1'}\n"
        f"sinks:\n  - {{name: lake, format: parquet, path: {tmp_path}, layout: log, partition_by: [dya]}}\n"
    )

    def run(pipeline: Any, **more: Any) -> None:
        schema: Any = SimpleNamespace(names=["id", "day"])
        compiled = Compiled(None, {"input": schema})  # type: ignore[arg-type]
        refuse(Context(pipeline, unplaced(pipeline), Need.FILE | Need.SESSION, compiled=compiled), already=Need.FILE)

    monkeypatch.setattr("pytubemq.pipelines.run.engine.run_pipeline", run)
    ran = tube("pipeline", "run", str(path))
    assert ran.code == 78
    assert "sinks.lake.partition_by[0]: no row has the column dya, did you mean day? [P033]" in ran.err
    assert f"{path}:4:" in ran.err
    assert "pipeline lint" not in ran.err


@pytest.mark.parametrize("how", ["--dry-run", "--yes"])
def test_a_reason_that_no_dead_letter_has_is_told_with_those_that_there_are(tube: Tube, file: Path, how: str) -> None:
    ran = tube("pipeline", "dlq", "redrive", str(file), "--reason", "decode.jsn", how)
    assert (ran.code, "did you mean decode.json? there are: decode.json" in ran.err) == (3, True)


def test_a_redrive_tells_what_was_rejected_again(tube: Tube, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(pipeline: Any, *, on_event: Callable[[Event], None], **more: Any) -> RunResult:
        totals = Totals(1, 3, {"lake": 1, "dead_letter": 2}, 2)
        end_s = STARTED.at_s + 1
        made = batch(0, rows_in=3, rows_out=totals.rows_out, rejected=2)
        for event in (STARTED, made, Finished(RunStatus.FINISHED, totals, 1.0, end_s)):
            on_event(event)
        return RunResult(RunStatus.FINISHED, totals, 1.0, "cafe", pipeline.state)

    monkeypatch.setattr("pytubemq.pipelines.run.engine.run_pipeline", run)
    ran = tube("pipeline", "dlq", "redrive", str(file), "--yes", "-o", "json")
    assert json.loads(ran.out) == {"pipeline": "orders", "redriven": 3, "rows_out": {"lake": 1}, "rejected_again": 2}
    assert "3 dead letters put through: 1 row into lake; 2 rejected again" in ran.err


def test_a_redrive_that_is_stopped_takes_no_dead_letter_away_and_the_next_one_finishes_it(
    tube: Tube, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(pipeline: Any, *, on_event: Callable[[Event], None], **more: Any) -> RunResult:
        totals = Totals(0, 0, {}, 0)
        for event in (STARTED, Finished(status, totals, 1.0, STARTED.at_s + 1)):
            on_event(event)
        return RunResult(status, totals, 1.0, "cafe", pipeline.state)

    monkeypatch.setattr("pytubemq.pipelines.run.engine.run_pipeline", run)
    status = RunStatus.STOPPED
    stopped = tube("pipeline", "dlq", "redrive", str(file), "--yes")
    assert (stopped.code, "no dead letter is removed yet" in stopped.err) == (1, True)
    assert "3 dead letters" in tube("pipeline", "dlq", "list", str(file)).err
    status = RunStatus.FINISHED
    again = tube("pipeline", "dlq", "redrive", str(file), "--yes", "-o", "json")
    assert json.loads(again.out)["redriven"] == 3


def test_what_was_rejected_stands_below_what_was_read(tube: Tube, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(pipeline: Any, *, on_event: Callable[[Event], None], **more: Any) -> RunResult:
        for event in (STARTED, batch(0)):
            on_event(event)
        return RunResult(RunStatus.FINISHED, Totals(1, 1_000, {"lake": 990}, 10), 1.0, "cafe", pipeline.state)

    monkeypatch.setattr("pytubemq.pipelines.run.engine.run_pipeline", run)
    lines = tube("pipeline", "run", str(file)).out.splitlines()
    assert [text.split()[:2] for text in lines[1:4]] == [["read", "1,000"], ["rejected", "10"], ["lake", "990"]]


def test_a_dry_run_names_a_part_once() -> None:
    from pytubemq.cli.pipeline.commands.dry_run import as_text

    error = ConfigError("sink lake: partition_by: no row has the column dya", hint="there are id, day")
    told = as_text(Check("sink lake", "", error))
    assert told == ["FAIL  sink lake  partition_by: no row has the column dya", "      there are id, day"]
