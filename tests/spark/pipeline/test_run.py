"""Pipelines run on a real Spark session, from a real cluster into real sinks."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytubemq.spark.pipeline.run.engine import run
from pytubemq.spark.pipeline.run.events import BatchDone, Failed, Finished, RunStatus, Started
from pytubemq.spark.pipeline.spec.model import Limit, Pipeline, Sink, SinkFormat, Source, Step

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from pytubemq.spark.pipeline.run.events import Event
    from tests.spark.conftest import Topic

pytestmark = pytest.mark.spark


def numbers(topic: Topic, tmp_path: Path) -> Pipeline:
    """The topic's bodies as numbers, into Parquet."""
    return Pipeline(
        name="numbers",
        source=Source(master=topic.master, topics=(topic.name,), start="earliest"),
        steps=(Step("typed", sql="SELECT CAST(CAST(body AS STRING) AS INT) AS n, msgType AS kind FROM input"),),
        sinks=(Sink("lake", SinkFormat.PARQUET, path=str(tmp_path / "lake")),),
        state=str(tmp_path / "state"),
    )


def test_a_pipeline_reads_all_that_is_there_in_batches_into_parquet_and_goes_on_where_it_ended(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    topic.send(90)
    told: list[Event] = []
    pipeline = numbers(topic, tmp_path)
    pipeline = replace(pipeline, source=replace(pipeline.source, limit=Limit(rows=40)))
    result = run(pipeline, spark=spark, once=True, on_event=told.append)
    assert result.status is RunStatus.FINISHED
    assert result.totals.rows_in == 90
    assert result.totals.rows_out == {"lake": 90}
    assert isinstance(told[0], Started)
    assert isinstance(told[-1], Finished)
    done = [event for event in told if isinstance(event, BatchDone)]
    assert [event.batch_id for event in done] == list(range(len(done)))
    assert done[-1].lag_rows == 0
    topic.send(10)
    again = run(pipeline, spark=spark, once=True)
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
    with pytest.raises(Exception, match=r"step typed does not compile: .*nothing"):
        run(pipeline, spark=spark, once=True, on_event=told.append)
    assert not (tmp_path / "lake").exists()
    assert [type(event) for event in told] == [Failed]
