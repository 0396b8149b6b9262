"""Looking after a pipeline, on a real cluster: dead letters, a range again, taps, lag, the end of a run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import pytubemq.sync
from pytubemq.pipelines.file.model import DeadLetter, Decode, Limit, Pipeline, Sink, Source, Step
from pytubemq.pipelines.operate.backfill import backfill_of, backfill_ranges
from pytubemq.pipelines.operate.dead_letter_store import dead_letters_of
from pytubemq.pipelines.operate.dead_letters import Choice
from pytubemq.pipelines.operate.redrive import stage_redrive, unfinished_redrive
from pytubemq.pipelines.operate.reset import forget_progress, read_progress
from pytubemq.pipelines.operate.status import RunState, read_status
from pytubemq.pipelines.operate.tap import _by_spark, tap
from pytubemq.pipelines.report.page import page
from pytubemq.pipelines.report.record import RunRecord, read_record
from pytubemq.pipelines.run.engine import run_pipeline
from pytubemq.pipelines.state.files import state_files
from pytubemq.spark.listener import LagListener, observe_times
from tests.support.waiting import until_seen

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.spark.conftest import Topic

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

GOOD, BAD = 400, 100


def fill(topic: Topic) -> None:
    """Messages of two kinds: `id` a number, and, in a hundred of them, a word."""
    with pytubemq.sync.connect(topic.master) as tube, tube.producer(topic.name) as producer:
        bodies = [{"id": n if n % 5 else f"word-{n}"} for n in range(GOOD + BAD)]
        futures = [producer.submit(json.dumps(body).encode(), attrs={"n": "1"}) for body in bodies]
        for future in futures:
            future.result()


def pipeline_of(topic: Topic, place: Path) -> Pipeline:
    return Pipeline(
        name="orders",
        source=Source(master=topic.master, topics=(topic.name,), start="earliest", limit=Limit(rows=300)),
        decode=Decode(format="json", schema="id BIGINT"),
        steps=(Step("seen", sql="SELECT *, true AS seen FROM input"),),
        sinks=(Sink("lake", "parquet", path=str(place / "lake")),),
        dead_letter=DeadLetter(path=str(place / "dead")),
        state=str(place / "state"),
    )


def rows_in(spark: SparkSession, place: Path) -> int:
    return int(spark.read.parquet(str(place / "lake")).count())


def test_a_hundred_dead_letters_are_listed_and_redriven_into_the_table(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    fill(topic)
    pipeline = pipeline_of(topic, tmp_path)
    record = RunRecord()
    run_pipeline(pipeline, spark=spark, once=True, on_event=record.take)
    assert (record.rows_in, record.rejected, rows_in(spark, tmp_path)) == (500, BAD, GOOD)
    assert record.examples["decode.json"]
    again = read_record(state_files(str(tmp_path / "state")))  # what `report` shows later is what the run told itself
    for fact in ("examples", "sinks", "queries", "began_s", "ready_s", "ended_s", "seconds"):
        assert getattr(again, fact) == getattr(record, fact), fact
    letters = dead_letters_of(pipeline)
    [listed] = letters.by_reason()
    assert (listed["records"], listed["topics"]) == (BAD, [topic.name])

    # as it is: all are rejected again, and none is lost
    redrive = stage_redrive(pipeline, letters.take(Choice()))
    run_pipeline(redrive.pipeline(pipeline, "message"), spark=spark, once=True)
    assert redrive.finish(letters) == BAD
    assert [row["records"] for row in letters.by_reason()] == [BAD]
    assert rows_in(spark, tmp_path) == GOOD

    # with a schema that takes them; killed between the sinks and the end, it is finished and nothing comes twice
    mended = replace(
        pipeline,
        decode=Decode(format="json", schema="id STRING"),
        sinks=(replace(pipeline.sinks[0], path=str(tmp_path / "words")),),
    )
    stage_redrive(mended, letters.take(Choice(reason="decode")))
    for _ in range(2):
        left = unfinished_redrive(mended)
        assert left is not None
        run_pipeline(left.pipeline(mended, "message"), spark=spark, once=True)
    left = unfinished_redrive(mended)
    assert left is not None
    assert left.finish(letters) == BAD
    assert unfinished_redrive(mended) is None
    words = spark.read.parquet(str(tmp_path / "words"))
    assert (words.count(), words.distinct().where("id LIKE 'word-%'").count()) == (BAD, BAD)
    assert letters.by_reason() == []


def test_dead_letters_are_kept_in_a_topic_and_in_a_database_whatever_they_hold(
    spark: SparkSession, topic: Topic, new_topic: Callable[[], Topic], tmp_path: Path
) -> None:
    odd = b"sig=ab==,k="  # what a producer that is less strict than ours sends
    long = b"x" * 900_000  # as JSON longer than a message may be
    with pytubemq.sync.connect(topic.master) as tube, tube.producer(topic.name) as producer:
        producer.submit_encoded(
            producer.encode_payloads([len(odd).to_bytes(4, "big") + odd + b"oops"], flag=1), partition=0
        ).result()
        for body in (long, b'{"id": 1}'):
            producer.submit(body).result()
    in_topic = replace(pipeline_of(topic, tmp_path), dead_letter=DeadLetter("tubemq", topic=new_topic().name))
    result = run_pipeline(in_topic, spark=spark, once=True)
    assert result.totals.rows_out == {"dead_letter": 2, "lake": 1}
    letters = dead_letters_of(in_topic)
    assert [row["records"] for row in letters.by_reason()] == [2]
    found = letters.take(Choice()).rows.to_pylist()
    assert {row["raw"]: row["attributes"] for row in found} == {long: [], b"oops": [("sig", "ab=="), ("k", "")]}

    lines = replace(
        in_topic,
        decode=Decode(format="csv", schema="id STRING"),
        sinks=(replace(in_topic.sinks[0], path=str(tmp_path / "lines")),),
    )
    redrive = stage_redrive(lines, letters.take(Choice()))
    run_pipeline(redrive.pipeline(lines, "message"), spark=spark, once=True)
    assert redrive.finish(letters) == 2
    assert letters.by_reason() == []
    assert {row.id for row in spark.read.parquet(str(tmp_path / "lines")).collect()} == {"oops", long.decode()}

    url = f"jdbc:derby:{tmp_path / 'derby'};create=true"
    in_database = replace(
        pipeline_of(topic, tmp_path / "again"), dead_letter=DeadLetter("jdbc", url=url, table="letters")
    )
    for _ in range(2):  # the second run meets the table that the first one made
        run_pipeline(in_database, spark=spark, once=True)
        with pytubemq.sync.connect(topic.master) as tube, tube.producer(topic.name) as producer:
            producer.submit(b"oops again", attrs={"n": "1"}).result()
    table = spark.read.jdbc(url, "letters", properties={"driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver"})
    kept = {bytes(row.raw): row.attributes and json.loads(row.attributes) for row in table.collect()}
    assert kept == {b"oops": {"sig": "ab==", "k": ""}, long: {}, b"oops again": {"n": "1"}}
    assert rows_in(spark, tmp_path / "again") == 1


def test_a_range_goes_through_again_and_once_only(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    fill(topic)
    pipeline = pipeline_of(topic, tmp_path)
    run_pipeline(pipeline, spark=spark, once=True)
    again = backfill_of(pipeline, "earliest", "latest")
    assert sum(row["messages"] for row in backfill_ranges(again)) == GOOD + BAD
    assert run_pipeline(again.pipeline, spark=spark, once=True).totals.rows_in == GOOD + BAD
    assert rows_in(spark, tmp_path) == 2 * GOOD
    assert run_pipeline(again.pipeline, spark=spark, once=True).totals.rows_in == 0
    assert run_pipeline(pipeline, spark=spark, once=True).totals.rows_in == 0
    assert rows_in(spark, tmp_path) == 2 * GOOD

    files = state_files(str(tmp_path / "state"))
    assert read_progress(files).offsets
    aside = forget_progress(files)
    assert (aside / "checkpoint").is_dir()
    assert run_pipeline(pipeline, spark=spark, once=True).totals.rows_in == GOOD + BAD
    assert rows_in(spark, tmp_path) == 3 * GOOD


def test_rows_are_looked_at_on_every_stage_and_the_run_is_told_afterwards(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    fill(topic)
    pipeline = pipeline_of(topic, tmp_path)
    [message] = tap(pipeline, "source", messages=1, spark=spark)
    assert message["attributes"] == {"n": "1"}
    assert json.loads(message["body"])["id"] is not None
    for stage in ("source", "input", "rejected"):  # the same as where Spark reads and decodes
        read = replace(pipeline, decode=None) if stage == "source" else pipeline
        by_spark = _by_spark(spark, read, stage, GOOD + BAD)
        here = tap(pipeline, stage, messages=GOOD + BAD)
        assert len(here) == {"source": GOOD + BAD, "input": GOOD, "rejected": BAD}[stage]
        assert sorted(map(json.dumps, here)) == sorted(map(json.dumps, by_spark))
    for stage in ("seen", "lake"):
        rows = tap(pipeline, stage, messages=10, newest=True, spark=spark)
        assert rows
        assert all(row["seen"] is True for row in rows)
    assert not (tmp_path / "lake").exists()

    run_pipeline(pipeline, spark=spark, once=True)
    found = read_status(state_files(str(tmp_path / "state")))
    assert found.run_state is RunState.FINISHED
    assert (found.as_dict()["rows_in"], found.as_dict()["lag_rows"]) == (GOOD + BAD, 0)
    text = page(read_record(state_files(str(tmp_path / "state"))))
    assert "<svg" in text
    assert "decode.json" in text


def test_the_lag_of_a_query_is_told_by_what_it_leaves_and_what_it_reads(
    spark: SparkSession, new_topic: Callable[[], Topic], checkpoint: str
) -> None:
    topic = new_topic()
    topic.send(1_000)
    listener = LagListener()
    spark.streams.addListener(listener)
    lags: list[Any] = []
    listener._on_lag = lags.append
    rows = spark.readStream.format("tubemq").options(
        **topic.options, startingOffsets="earliest", maxRowsPerTrigger="400"
    )
    query = (
        observe_times(rows.load())
        .writeStream.format("noop")
        .queryName("lagging")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(120)
        until_seen(lambda: sum(lag.input_rows for lag in lags) >= 1_000)
    finally:
        spark.streams.removeListener(listener)
    told = [(lag.query, lag.rows) for lag in lags if lag.input_rows]
    assert told == [("lagging", 600), ("lagging", 200), ("lagging", 0)]
    assert all(lag.seconds is not None and 0 < lag.seconds < 3_600 for lag in lags if lag.rows)
    assert {entry.partition.topic for entry in lags[0].partitions} == {topic.name}


def test_a_run_in_a_process_of_its_own_ends_after_its_batch_when_asked(topic: Topic, tmp_path: Path) -> None:
    fill(topic)
    file = tmp_path / "orders.yaml"
    file.write_text(
        f"name: orders\nsource: {{topic: {topic.name}, master: '{topic.master}', start: earliest}}\n"
        "decode: {format: json, schema: 'id BIGINT'}\n"
        f"sinks: [{{name: lake, format: parquet, path: {tmp_path / 'lake'}}}]\nstate: state\n"
    )
    command = [sys.executable, "-m", "pytubemq", "pipeline"]
    process = subprocess.Popen(
        [*command, "run", str(file), "--progress", "json", "--report", str(tmp_path / "page.html")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"SPARK_LOCAL_DIRS": str(tmp_path)},
        process_group=0,
    )
    try:
        assert process.stderr is not None
        assert json.loads(process.stderr.readline())["event"] == "Starting"
        for line in process.stderr:
            if json.loads(line).get("event") == "BatchDone":
                break
        shown = subprocess.run(
            [*command, "status", str(file), "-o", "json"], capture_output=True, text=True, check=True
        )
        assert json.loads(shown.stdout)["status"] == "running"
        os.killpg(process.pid, signal.SIGTERM)  # as `timeout` does; Spark is needed until the end
        process.send_signal(signal.SIGINT)  # once: it ends after the batch
        output, talk = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    lines = output.splitlines()
    assert any(line.startswith("lake") and "exactly once" in line for line in lines)
    assert any("stopped after" in line for line in lines)
    assert "interrupted" not in talk
    assert "Report" not in output
    assert "<svg" in (tmp_path / "page.html").read_text("utf-8")
    again = tmp_path / "again.html"
    subprocess.run([*command, "report", str(file), "--out", str(again)], capture_output=True, check=True)
    assert again.read_text("utf-8") == (tmp_path / "page.html").read_text("utf-8")
    assert (tmp_path / "state" / "spark.log").stat().st_size > 0
    stopped = subprocess.run([*command, "stop", str(file)], capture_output=True, text=True, check=False)
    assert stopped.returncode == 4
