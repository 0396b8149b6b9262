"""What the engine decides without Spark: settings, errors' texts, lag, places to stop at, options of the source."""

from __future__ import annotations

import re
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytubemq.errors import ConfigError
from pytubemq.pipelines import failpoints
from pytubemq.pipelines.file.model import (
    Decode,
    Limit,
    OnError,
    Pipeline,
    Sink,
    Source,
    SparkSettings,
    Step,
    Trigger,
    TriggerKind,
)
from pytubemq.pipelines.file.secrets import resolve
from pytubemq.pipelines.file.sink_table import SINKS
from pytubemq.pipelines.frames.audit import minute_text
from pytubemq.pipelines.frames.source import reads_otherwise_beside, source_options
from pytubemq.pipelines.frames.steps import input_of
from pytubemq.pipelines.run.batch import rejected_text
from pytubemq.pipelines.run.progress import lag
from pytubemq.pipelines.run.session import COLLECTOR, settings
from pytubemq.pipelines.sinks.sink_factory import make_sink
from pytubemq.pipelines.spark_faults import format_error


@pytest.mark.parametrize(
    ("key", "value"),
    [("spark.speculation", "true"), ("spark.sql.execution.arrow.compression.codec", "lz4")],
)
def test_settings_that_hang_or_double_are_refused_by_name(key: str, value: str) -> None:
    pipeline = Pipeline("p", Source(), spark=SparkSettings(conf={key: value}))
    with pytest.raises(ConfigError, match=key):
        settings(pipeline, [])


def test_under_spark_submit_its_own_master_stays() -> None:
    pipeline = Pipeline("p", Source())
    assert "spark.master" not in settings(pipeline, [], submitted=True)
    assert settings(pipeline, [])["spark.master"] == "local[2,4]"


def test_a_collector_is_chosen_for_this_machine_where_nobody_chose_one(monkeypatch: pytest.MonkeyPatch) -> None:
    key, chosen = COLLECTOR
    for name in ("JAVA_TOOL_OPTIONS", "SPARK_SUBMIT_OPTS"):
        monkeypatch.delenv(name, raising=False)
    pipeline = Pipeline("p", Source())
    other = {"spark.driver.extraJavaOptions": "-Xmn1g -XX:+UseZGC"}
    assert settings(pipeline, [])[key] == chosen
    assert key not in settings(pipeline, [], submitted=True)
    assert key not in settings(replace(pipeline, spark=SparkSettings(conf=other)), [])
    assert settings(replace(pipeline, spark=SparkSettings(conf={key: "-ea"})), [])[key] == "-ea"
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:+UseG1GC")
    assert key not in settings(pipeline, [])


def test_a_session_gets_delta_s_extension_where_a_sink_writes_delta() -> None:
    assert "io.delta" in settings(Pipeline("p", Source()), ["delta"])["spark.sql.extensions"]
    assert "spark.sql.extensions" not in settings(Pipeline("p", Source()), ["parquet"])


def test_a_secret_in_a_query_is_not_in_what_is_said_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytubemq.pipelines.file.secrets._given_out", {})
    monkeypatch.setenv("SALT", "pepper-and-salt")
    query = resolve("SELECT sha2(concat(x, '${env:SALT}') FROM input")
    text = format_error(
        Exception(f"[PARSE_SYNTAX_ERROR] Syntax error at or near 'FROM'.\n\n== SQL ==\n{query}\n------^^^")
    )
    assert "'***'" in text
    assert "pepper" not in text


def test_a_rejected_record_is_named_by_the_partition_as_everywhere_else() -> None:
    record = SimpleNamespace(brokerId=1, topic="demo", partition=0, offset=28, reason="decode.json", detail="no JSON")
    assert rejected_text(record) == "for example 1:demo:0 at offset 28: decode.json (no JSON)"


def test_a_sink_names_its_step_in_any_case() -> None:
    pipeline = Pipeline("p", Source(), steps=(Step("paid", sql="SELECT 1"), Step("last", sql="SELECT 1")))
    names = [input_of(pipeline, wanted) for wanted in (None, "PAID", "Input", "payd")]
    assert names == ["last", "paid", "input", "payd"]
    assert input_of(Pipeline("p", Source()), None) == "input"


def test_an_error_of_ours_inside_of_sparks_is_what_is_said() -> None:
    text = "[PYTHON] Traceback\n  File x\npytubemq.errors.NotFoundError: topic x does not exist\n\tat org.apache"
    assert format_error(Exception(text)) == "topic x does not exist"


def test_of_a_python_error_inside_of_sparks_the_end_of_the_traceback_is_said() -> None:
    text = (
        "org.apache.spark.SparkException: [PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when running Python "
        "streaming data source: Traceback (most recent call last):\n"
        '  File "/x/a.py", line 1, in main\n    func(reader)\n    ^^^^^^^^^^^^\n'
        "KeyError: 'first'\n\nDuring handling of the above exception, another exception occurred:\n\n"
        'Traceback (most recent call last):\n  File "/x/b.py", line 2, in partitions\n    raise ValueError(x)\n'
        "ValueError: no such thing\nnor another\n\n\tat org.apache.spark.Runner.run(Runner.scala:1)\n"
        "=== Streaming Query ===\nIdentifier: x"
    )
    assert format_error(Exception(text)) == "ValueError: no such thing nor another"
    loss = "pytubemq.errors.OffsetMovedError: data loss in partition 1:in:0: rows 0 to 28 are wanted"
    lost = text.replace("ValueError: no such thing\nnor another", f"{loss}\nset failOnDataLoss=false")
    assert format_error(Exception(lost)) == "data loss in partition 1:in:0: rows 0 to 28 are wanted"
    assert format_error(Exception("x\nTraceback (most recent call last):\n  File")) == "x"


def test_of_sparks_errors_the_stack_is_left_out() -> None:
    assert format_error(Exception("[A] no such column\n== SQL ==\nselect\n\nJVM stacktrace:\nx")) == (
        "[A] no such column == SQL == select"
    )


def test_of_java_s_errors_how_it_was_called_is_left_out() -> None:
    called = "An error occurred while calling o6.sql.\n: org.x.Table$NoIOException: [NO_PATH] No /x\n\tat org.x"
    assert format_error(Exception(called)) == "[NO_PATH] No /x"


def test_lag_counts_messages_not_bytes_of_the_index_and_is_none_where_it_is_not_told() -> None:
    source = SimpleNamespace(endOffset='{"1:t:0": 28}', latestOffset='{"1:t:0": 84, "1:t:1": 28}')
    assert lag([source]) == 3
    assert lag([SimpleNamespace(endOffset=None, latestOffset=None)]) is None
    assert lag([SimpleNamespace(endOffset='{"f": 1}', latestOffset='{"f": "x"}')]) is None


def test_without_the_variable_no_point_holds_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTUBEMQ_PAUSE_AT", raising=False)
    failpoints.reach("batch-begun", 0)


def test_a_run_is_held_at_the_point_and_batch_that_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTUBEMQ_PAUSE_AT", "ledger-written:7,sink-written:lake:2")
    monkeypatch.setenv("PYTUBEMQ_PAUSE_DIR", str(tmp_path))
    failpoints.reach("sink-written:lake", 1)
    failpoints.reach("sink-staged:lake", 2)
    assert not list(tmp_path.iterdir())
    for point, batch in (("sink-written:lake", 2), ("ledger-written", 7)):
        run = threading.Thread(target=failpoints.reach, args=(point, batch), daemon=True)
        run.start()
        paused = tmp_path / f"{point}:{batch}"
        while not paused.exists():
            run.join(0.01)
        assert run.is_alive()
        paused.unlink()
        run.join()


def test_the_points_that_are_listed_are_those_that_the_code_reaches() -> None:
    called = re.compile(r"\breach\(f?\"([a-z-]+)")
    room = Path(failpoints.__file__).parents[1]
    reached = {point for path in room.rglob("*.py") for point in called.findall(path.read_text("utf-8"))}
    assert reached == set(failpoints.POINTS)
    assert all(f"`{point}" in (failpoints.__doc__ or "") for point in failpoints.POINTS)


def test_what_a_partition_without_such_a_time_does_goes_with_the_time_that_is_named() -> None:
    said = {"startingTimestamp": "-10m", "startingTimestampStrategy": "earliest"}
    source = Source(master="m:8715", topics=("a",), options=said)
    assert source_options(Pipeline("p", source, state="/s")).items() >= said.items()
    moved = Source(
        master="m:8715", topics=("a",), start={"a": "earliest"}, options={"startingTimestampStrategy": "error"}
    )
    assert "startingTimestampStrategy" not in source_options(Pipeline("p", moved, state="/s"))


def test_a_source_becomes_options_of_the_data_source() -> None:
    source = Source(
        master="m:8715",
        topics=("a", "b"),
        start="-10m",
        end={"a": "latest"},
        limit=Limit(rows=5, size_bytes=6, min_rows=1, max_delay_s=2.5, fetch_s=1),
        commit_group="g",
        on_data_loss="report",
    )
    assert source_options(Pipeline("p", source, state="/s")) == {
        "master": "m:8715",
        "topic": "a,b",
        "startingTimestamp": "-10m",
        "startingTimestampStrategy": "latest",
        "endingOffsets": '{"a": "latest"}',
        "maxRowsPerTrigger": "5",
        "maxBytesPerTrigger": "6",
        "minRowsPerTrigger": "1",
        "maxTriggerDelay": "2.5s",
        "maxFetchTimePerTask": "1s",
        "commitGroup": "g",
        "failOnDataLoss": "report",
        "lossDirectory": "/s/losses",
    }


def test_only_the_first_of_several_queries_publishes_progress() -> None:
    for source in (Source(commit_group="g"), Source(options={"COMMITGROUP": "g"})):
        pipeline = Pipeline("p", source)
        assert "g" in source_options(pipeline).values()
        assert source_options(pipeline, beside=True) == {}
        assert reads_otherwise_beside(pipeline)
    assert not reads_otherwise_beside(Pipeline("p", Source()))


@pytest.mark.parametrize(("on_error", "errors"), [(OnError.FAIL, "fail"), (OnError.DROP, "column")])
def test_a_query_beside_the_one_that_counts_ends_itself_at_a_bad_record_where_one_ends_the_run(
    on_error: OnError, errors: str
) -> None:
    source = Source(topics=("t",), columns=("offset",))
    pipeline = Pipeline("p", source, Decode("json", schema="id INT", on_error=on_error))
    assert source_options(pipeline)["decode.errors"] == "column"
    beside = source_options(pipeline, beside=True)
    assert beside["decode.errors"] == errors
    assert (beside["decode.columns"] == "offset") is (errors == "fail")  # else the steps would see what is for counts
    assert reads_otherwise_beside(pipeline) is (errors == "fail")


def test_a_run_of_one_batch_has_no_limits() -> None:
    pipeline = Pipeline("p", Source(limit=Limit(rows=5)), trigger=Trigger(TriggerKind.ONCE))
    assert source_options(pipeline) == {}


def test_messages_columns_that_a_decoded_column_hides_are_not_asked_for_the_audit() -> None:
    decode = Decode("json", schema="n INT, timestamp TIMESTAMP")
    options = source_options(Pipeline("p", Source(topics=("a",), columns=("offset",)), decode))
    assert options["decode.columns"] == "offset,topic,msgTime"
    assert options["decode.errors"] == "column"


@pytest.mark.parametrize(("minute", "text"), [(0, "1970-01-01T00:00Z"), (None, None), (1 << 60, None)])
def test_a_minute_is_told_as_text_where_a_date_can_say_it(minute: int | None, text: str | None) -> None:
    assert minute_text(minute) == text


@pytest.mark.parametrize("format", [name for name in SINKS if name != "tubemq"])  # rows may name its topic
def test_a_sink_without_what_it_needs_says_what(format: str) -> None:
    options = {"rows": "many"} if format == "console" else {}
    sink = Sink("s", format, options=options)
    with pytest.raises(ConfigError, match="sink s: "):
        make_sink(sink)
