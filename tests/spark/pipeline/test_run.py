"""Pipelines run on a real Spark session, from a real cluster into real sinks."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import pytubemq.sync
from pytubemq.errors import ConfigError, NotFoundError, TubeError
from pytubemq.pipelines import PipelineFileError
from pytubemq.pipelines.events import BatchDone, Failed, Finished, RunStatus, Started
from pytubemq.pipelines.file.model import (
    Audit,
    DeadLetter,
    Decode,
    Guarantee,
    Limit,
    OnError,
    Pipeline,
    Sink,
    Source,
    Step,
    Table,
    Trigger,
    TriggerKind,
    Watermark,
)
from pytubemq.pipelines.frames.environment import NAMES, environment_of
from pytubemq.pipelines.frames.source import open_source
from pytubemq.pipelines.run.engine import run_pipeline
from pytubemq.pipelines.spark_faults import StepError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from pytubemq.pipelines.events import Event
    from tests.spark.conftest import Topic

pytestmark = pytest.mark.spark


def numbers(topic: Topic, tmp_path: Path) -> Pipeline:
    """The topic's bodies as numbers, into Parquet."""
    return Pipeline(
        name="numbers",
        source=Source(master=topic.master, topics=(topic.name,), start="earliest"),
        steps=(Step("typed", sql="SELECT CAST(CAST(body AS STRING) AS INT) AS n, msgType AS kind FROM input"),),
        sinks=(Sink("lake", "parquet", path=str(tmp_path / "lake")),),
        state=str(tmp_path / "state"),
    )


def test_a_pipeline_reads_all_that_is_there_in_batches_into_parquet_and_goes_on_where_it_ended(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    topic.send(90)
    told: list[Event] = []
    pipeline = numbers(topic, tmp_path)
    pipeline = replace(pipeline, source=replace(pipeline.source, limit=Limit(rows=40)))
    result = run_pipeline(pipeline, spark=spark, once=True, on_event=told.append)
    assert result.status is RunStatus.FINISHED
    assert result.totals.rows_in == 90
    assert result.totals.rows_out == {"lake": 90}
    assert isinstance(told[0], Started)
    assert isinstance(told[-1], Finished)
    done = [event for event in told if isinstance(event, BatchDone)]
    assert [event.batch_id for event in done] == list(range(len(done)))
    assert done[-1].lag_rows == 0
    topic.send(10)
    again = run_pipeline(pipeline, spark=spark, once=True)
    assert again.totals.rows_in == 10
    assert again.pipeline_id == result.pipeline_id
    rows = spark.read.parquet(str(tmp_path / "lake")).select("n").collect()
    assert sorted(row.n for row in rows) == list(range(100))
    ledger = json.loads((tmp_path / "state/ledger" / f"{len(done)}.json").read_text())
    assert ledger["complete"]
    assert ledger["totals"]["rows_out"] == {"lake": 100}


def test_sql_that_does_not_compile_is_told_with_its_step_and_nothing_is_written(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    told: list[Event] = []
    pipeline = replace(numbers(topic, tmp_path), steps=(Step("typed", sql="SELECT nothing FROM input"),))
    with pytest.raises(StepError, match=r"step typed does not compile: .*nothing") as found:
        run_pipeline(pipeline, spark=spark, once=True, on_event=told.append)
    assert "SQLSTATE" not in found.value.message
    assert "Project" not in found.value.message
    assert "body" in (found.value.hint or "")
    assert not (tmp_path / "lake").exists()
    assert [type(event) for event in told] == [Failed]
    lake = replace(pipeline.sinks[0], partition_by=("topik",))
    with pytest.raises(PipelineFileError, match="no row has the column topik") as unknown:
        run_pipeline(replace(pipeline, steps=(), sinks=(lake,)), spark=spark, once=True)
    assert "did you mean topic?" in unknown.value.message
    assert not (tmp_path / "lake").exists()
    elsewhere = replace(pipeline, source=replace(pipeline.source, topics=(f"{topic.name}x",)))
    with pytest.raises(NotFoundError, match=f"source.topic: topic '{topic.name}x'"):
        run_pipeline(elsewhere, spark=spark, once=True)


@pytest.mark.parametrize(
    ("query", "into", "refusal"),
    [
        ("SELECT body, rand() AS x FROM input", "", r"sinks\.out: its rows depend on random numbers or the clock"),
        ("SELECT body, now() AS at FROM input", "", r"sinks\.out: its rows depend on random numbers or the clock"),
        (
            "SELECT body, topic FROM input WHERE offset > 0",
            None,
            r"sinks\.out: its rows go to the topic in",
        ),
    ],
)
def test_what_a_topic_cannot_take_is_refused_before_any_sink_has_a_batch(
    query: str,
    into: str | None,
    refusal: str,
    spark: SparkSession,
    topic: Topic,
    new_topic: Callable[[], Topic],
    tmp_path: Path,
) -> None:
    pipeline = numbers(topic, tmp_path)
    out = Sink("out", "tubemq", topic=new_topic().name if into is not None else None)
    steps = (Step("typed", sql=query), Step("more", sql="SELECT * FROM input"))
    with pytest.raises(ConfigError, match=refusal):
        run_pipeline(replace(pipeline, steps=steps, sinks=(*pipeline.sinks, out)), spark=spark, once=True)
    assert not (tmp_path / "lake").exists()
    assert not (tmp_path / "state" / "source.json").exists()


def test_a_first_batch_that_could_not_be_made_leaves_no_columns_behind(
    spark: SparkSession, topic: Topic, new_topic: Callable[[], Topic], tmp_path: Path
) -> None:
    topic.send(3)
    pipeline = numbers(topic, tmp_path)
    wrong = Step("typed", sql="SELECT CAST(concat('x', CAST(body AS STRING)) AS INT) AS number FROM input")
    with pytest.raises(TubeError, match="sink lake could not write batch 0"):
        run_pipeline(replace(pipeline, steps=(wrong,)), spark=spark, once=True)
    out = Sink("out", "tubemq", topic=new_topic().name, guarantee=Guarantee.EXACTLY_ONCE)
    result = run_pipeline(replace(pipeline, sinks=(*pipeline.sinks, out)), spark=spark, once=True)
    assert result.totals.rows_out == {"lake": 3, "out": 3}


def orders(topic: Topic, tmp_path: Path, **changes: Any) -> Pipeline:
    """Orders as JSON, decoded."""
    pipeline = Pipeline(
        name="orders",
        source=Source(master=topic.master, topics=(topic.name,), start="earliest"),
        decode=Decode("json", schema="id INT, item STRING, at TIMESTAMP"),
        sinks=(Sink("lake", "parquet", path=str(tmp_path / "lake")),),
        state=str(tmp_path / "state"),
    )
    return replace(pipeline, **changes)


def send(topic: Topic, *bodies: str) -> None:
    with pytubemq.sync.connect(topic.master) as tube, tube.producer(topic.name) as producer:
        for future in [producer.submit(body.encode(), msg_time="202611220130") for body in bodies]:
            future.result()


def order(number: int, item: str = "tea", at: str = "2026-11-22 01:30:00") -> str:
    return json.dumps({"id": number, "item": item, "at": at})


def test_rejected_records_go_to_the_dead_letters_and_the_ledger_s_counts_agree(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    send(topic, *(order(number) for number in range(8)), "{broken", '{"id": "no number"}')
    pipeline = orders(topic, tmp_path, audit=Audit())
    done: list[BatchDone] = []
    result = run_pipeline(
        pipeline, spark=spark, once=True, on_event=lambda one: done.append(one) if isinstance(one, BatchDone) else None
    )
    assert result.totals.rows_in == 10
    assert result.totals.rejected == 2
    assert result.totals.rows_out == {"dead_letter": 2, "lake": 8}
    lake = spark.read.parquet(str(tmp_path / "lake"))
    assert lake.columns == ["id", "item", "at", "batch"]
    dead = spark.read.parquet(str(tmp_path / "state" / "dead_letter")).collect()
    assert {bytes(row.raw) for row in dead} == {b"{broken", b'{"id": "no number"}'}
    assert {row.topic for row in dead} == {topic.name}
    ledger = json.loads((tmp_path / "state/ledger" / f"{done[-1].batch_id}.json").read_text())
    assert ledger["totals"] == {"batches": len(done), "rows_in": 10, "rejected": 2, "rows_out": result.totals.rows_out}
    audit = [json.loads(path.read_text())["audit"] for path in (tmp_path / "state/ledger").glob("*.json")]
    lines = [line for lines in audit for line in lines]
    assert {(line["stream"], line["minute"]) for line in lines} == {(topic.name, "2026-11-22T01:30Z")}
    assert sum(line["read"] - line["rejected"] for line in lines) == lake.count()


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"dead_letter": DeadLetter(max_ratio=0.1)}, r"2 of 4 records cannot be decoded \(50.0%\)"),
        (
            {"dead_letter": DeadLetter(max_rows=1)},
            r"2 records were rejected so far, more than dead_letter.max_rows = 1",
        ),
        (
            {"decode": Decode("json", schema="id INT", on_error=OnError.FAIL)},
            r"2 records that cannot be decoded; for example \d+:\w+:\d at ",
        ),
    ],
)
def test_too_many_rejected_records_end_the_run_before_anything_of_the_batch_is_written(
    spark: SparkSession, topic: Topic, tmp_path: Path, changes: dict[str, Any], refusal: str
) -> None:
    send(topic, '{"id": 1}', '{"id": 2}', "broken", "broken too")
    pipeline = orders(topic, tmp_path, trigger=Trigger(TriggerKind.ONCE), **changes)
    if pipeline.decode is not None and pipeline.decode.on_error is OnError.FAIL:
        log = Sink("log", "parquet", path=str(tmp_path / "log"), layout="log")
        with pytest.raises(TubeError, match=r"2 records that|a record cannot be decoded \(decode.json"):
            run_pipeline(replace(pipeline, sinks=(log,), state=str(tmp_path / "log-state")), spark=spark)
        assert not list((tmp_path / "log-state").glob("checkpoint-log-log/commits/0"))
        assert not (tmp_path / "log" / "_spark_metadata" / "0").exists()
    with pytest.raises(TubeError, match=refusal):
        run_pipeline(pipeline, spark=spark, once=True)
    assert not (tmp_path / "lake").exists()
    assert not (tmp_path / "state" / "dead_letter").exists()
    lenient = replace(pipeline, decode=Decode("json", schema="id INT", on_error=OnError.DROP), dead_letter=None)
    run_pipeline(lenient, spark=spark, once=True)
    assert spark.read.parquet(str(tmp_path / "lake")).count() == 2


def test_windows_with_a_watermark_run_as_a_stream_beside_the_row_by_row_sinks(
    spark: SparkSession, topic: Topic, new_topic: Callable[[], Topic], tmp_path: Path
) -> None:
    out = new_topic()
    pipeline = orders(
        topic,
        tmp_path,
        steps=(
            Step(
                "by_minute",
                sql="SELECT window(at, '1 minute').start AS minute, item, COUNT(*) AS orders FROM input "
                "GROUP BY window(at, '1 minute'), item",
                watermark=Watermark("at", "0 seconds"),
            ),
        ),
        sinks=(
            Sink("lake", "parquet", path=str(tmp_path / "lake"), input="input"),
            Sink("minutes", "parquet", path=str(tmp_path / "minutes")),
            Sink("told", "tubemq", topic=out.name, guarantee=Guarantee.EXACTLY_ONCE),
        ),
    )
    send(topic, *(order(number, at=f"2026-11-22 01:0{number % 3}:10") for number in range(9)), "broken")
    environment = environment_of(spark, "tubemq")
    for name in NAMES:  # as in a JVM that has run no stream yet
        environment.remove(name)
    open_source(spark, pipeline)
    complete = set(environment.keySet())
    assert complete.issuperset(NAMES)
    told: list[Event] = []
    run_pipeline(pipeline, spark=spark, once=True, on_event=told.append)
    assert set(environment.keySet()) == complete, "Spark's streams put more into the map that they share"
    assert isinstance(told[0], Started)
    assert told[0].queries == ("main", "step-by_minute")
    assert told[0].java is False
    assert told[0].promised == dict.fromkeys(("dead_letter", "lake", "minutes", "told"), "exactly_once")
    send(topic, order(9, at="2026-11-22 02:00:00"))
    run_pipeline(pipeline, spark=spark, once=True)
    assert spark.read.parquet(str(tmp_path / "lake")).count() == 10
    rows = spark.read.parquet(str(tmp_path / "minutes")).collect()
    assert sorted((row.minute.minute, row.item, row.orders) for row in rows) == [
        (0, "tea", 3),
        (1, "tea", 3),
        (2, "tea", 3),
    ]
    of_step, commits = tmp_path / "state/ledger/step-by_minute", tmp_path / "state/checkpoint-step-by_minute/commits"
    last = max(int(path.stem) for path in of_step.iterdir() if json.loads(path.read_bytes())["sinks"]["told"]["rows"])
    for path in list(of_step.iterdir()):  # as a kill before the ledger and Spark's commit leaves them
        if int(path.stem) >= last:
            path.unlink()
            (commits / path.stem).unlink()
            (commits / f".{path.stem}.crc").unlink()
    again: list[Event] = []
    run_pipeline(pipeline, spark=spark, once=True, on_event=again.append)
    assert any(isinstance(event, BatchDone) and event.rows_out.get("told") for event in again)
    assert spark.read.parquet(str(tmp_path / "minutes")).count() == 3
    bodies = [
        json.loads(bytes(row.body)) for row in spark.read.format("tubemq").options(**out.options).load().collect()
    ]
    assert sorted((body["minute"][14:16], body["orders"]) for body in bodies) == [("00", 3), ("01", 3), ("02", 3)]
    moved = (replace(pipeline.sinks[0], input="by_minute"), *pipeline.sinks[1:])
    with pytest.raises(
        ConfigError, match=r"sinks\.lake: the query main has written to it and now step-by_minute would"
    ):
        run_pipeline(replace(pipeline, sinks=moved), spark=spark, once=True)
    over_a_part = replace(pipeline, state=str(tmp_path / "part"))
    with pytest.raises(ConfigError, match=r"steps\.by_minute: keeps state, which a backfill cannot"):
        run_pipeline(over_a_part, spark=spark, once=True, apart="a backfill")
    assert not (tmp_path / "part" / "source.json").exists()


def test_steps_join_tables_and_python_functions_and_each_sink_takes_its_own(
    spark: SparkSession, topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "prices.csv").write_text("tea,3\nrice,5\n")
    (tmp_path / "my_steps.py").write_text("def dear(rows):\n    return rows.where('price > 3')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    pipeline = orders(
        topic,
        tmp_path,
        tables=(Table("prices", "csv", path=str(tmp_path / "prices.csv"), schema="item STRING, price INT"),),
        steps=(
            Step("priced", sql="SELECT id, price FROM input LEFT JOIN prices USING (item)"),
            Step("dear", python="my_steps:dear"),
        ),
        sinks=(
            Sink("all", "parquet", path=str(tmp_path / "all"), input="priced"),
            Sink("dear", "parquet", path=str(tmp_path / "dear")),
        ),
    )
    send(topic, order(1), order(2, "rice"), order(3, "salt"))
    result = run_pipeline(pipeline, spark=spark, once=True)
    assert result.totals.rows_out == {"dead_letter": 0, "all": 3, "dear": 1}
    rows = spark.read.parquet(str(tmp_path / "all")).collect()
    assert sorted((row.id, row.price) for row in rows) == [(1, 3), (2, 5), (3, None)]


def test_a_sink_that_fails_leaves_the_others_done_and_the_next_run_redoes_it_alone(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    second = tmp_path / "second"
    pipeline = orders(
        topic,
        tmp_path,
        sinks=(
            Sink("lake", "parquet", path=str(tmp_path / "lake")),
            Sink("second", "parquet", path=str(second), options={"compression": "none"}),
        ),
        trigger=Trigger(TriggerKind.ONCE),
    )
    send(topic, *(order(number) for number in range(5)))
    broken = replace(pipeline.sinks[1], options={"compression": "no such codec"})
    with pytest.raises(TubeError, match=r"sink second could not write batch 0: .*no such codec"):
        run_pipeline(replace(pipeline, sinks=(pipeline.sinks[0], broken)), spark=spark)
    assert spark.read.parquet(str(tmp_path / "lake")).count() == 5
    done: list[Event] = []
    run_pipeline(pipeline, spark=spark, on_event=done.append)
    first = next(event for event in done if isinstance(event, BatchDone))
    assert first.replayed == ("dead_letter", "lake")
    assert first.rows_out == {"dead_letter": 0, "lake": 5, "second": 5}
    assert spark.read.parquet(str(tmp_path / "lake")).count() == 5
    assert spark.read.parquet(str(second)).count() == 5


def test_a_pipeline_without_an_end_stops_after_the_batch_when_the_file_asks(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    send(topic, order(1))
    source = Source(master=topic.master, topics=(topic.name,), start="earliest", commit_group="orders")
    lake, log = (Sink(name, "parquet", path=str(tmp_path / name)) for name in ("lake", "log"))
    pipeline = orders(topic, tmp_path, source=source, sinks=(lake, replace(log, layout="log")))
    done: set[str] = set()

    def ask(event: Event) -> None:
        if isinstance(event, BatchDone):
            done.add(event.query)
            if done == {"main", "log-log"}:  # one group, two queries: only one of them publishes its progress
                (tmp_path / "state" / "stop").touch()

    result = run_pipeline(pipeline, spark=spark, on_event=ask)
    assert result.status is RunStatus.STOPPED
    assert not (tmp_path / "state" / "stop").exists()
    for name in ("lake", "log"):
        assert spark.read.parquet(str(tmp_path / name)).count() == 1


def test_the_file_log_of_spark_takes_rows_exactly_once_and_its_rejects_are_counted_beside_it(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    pipeline = orders(topic, tmp_path, sinks=(Sink("lake", "parquet", path=str(tmp_path / "lake"), layout="log"),))
    send(topic, order(1), order(2), "broken")
    result = run_pipeline(pipeline, spark=spark, once=True)
    assert result.totals.rows_out == {"dead_letter": 1, "lake": 2}
    assert (result.totals.rows_in, result.totals.rejected) == (3, 1)
    send(topic, order(3))
    assert run_pipeline(pipeline, spark=spark, once=True).totals.rows_out == {"dead_letter": 0, "lake": 1}
    assert (tmp_path / "lake" / "_spark_metadata").is_dir()
    assert spark.read.parquet(str(tmp_path / "lake")).count() == 3
