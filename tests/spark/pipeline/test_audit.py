"""Audit counts of real rows: bounded at the driver, and equal at the source and at the sink."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import pytubemq.sync
from pytubemq.pipelines.file.model import Audit, Decode, Pipeline, Sink, Source, Step
from pytubemq.pipelines.frames import audit
from pytubemq.pipelines.report.record import read_record
from pytubemq.pipelines.run.engine import run_pipeline
from pytubemq.pipelines.state.files import state_files

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.spark.conftest import Topic

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def test_times_that_are_garbage_are_counted_in_sum(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "MAX_LINES", 3)
    monkeypatch.setattr(audit, "MAX_GROUPS", 6)
    rows = spark.range(100).selectExpr("timestamp_seconds(IF(id < 50, 0, id * 60)) AS at")
    found = audit.count(rows, decoded=False, stream="s", time="at")
    assert (found.rows, len(found.lines), sum(line["read"] for line in found.lines)) == (100, 4, 100)
    assert found.lines[0] == {"stream": "s", "minute": "1970-01-01T00:00Z", "read": 50, "rejected": 0}
    out = audit.count_out(rows.selectExpr("*", "'t' AS topic"), "at")
    assert out is not None
    assert (out[0], len(out)) == ({"stream": "t", "minute": "1970-01-01T00:00Z", "rows": 50}, 4)
    assert sum(line["rows"] for line in out) == 100
    few = audit.count_out(rows.limit(50), "at")
    assert few == [{"minute": "1970-01-01T00:00Z", "rows": 50}]


@pytest.mark.parametrize(
    ("columns", "made"),
    [
        (("1795309200000", "'other'", "map('a', 1)"), {"timestamp", "topic", "msgTime"}),
        (("'no time'", "CAST(NULL AS INT)", "'none'"), {"timestamp", "topic", "msgTime"}),
        (("array(1)", "array(1)", "array(1)"), set()),  # of another source
    ],
)
def test_what_only_has_the_name_of_one_of_the_message_s_columns_is_not_counted_by(
    spark: SparkSession, columns: tuple[str, str, str], made: set[str]
) -> None:
    error = "struct('decode.json' AS reason, 's' AS topic, TIMESTAMP '2026-11-22 01:02:03Z' AS timestamp)"
    named = (f"{value} AS {name}" for value, name in zip(columns, ("timestamp", "topic", "msgTime"), strict=True))
    rows = spark.range(3).selectExpr("id", *named, f"IF(id = 0, {error}, NULL) AS _error")
    found = audit.count(rows, decoded=True, stream="s", time=None, made=made)
    assert found.newest_s == 1_795_309_323.0
    assert found.lines == [
        {"stream": "s", "minute": None, "read": 2, "rejected": 0},
        {"stream": "s", "minute": "2026-11-22T01:02Z", "read": 1, "rejected": 1},
    ]
    assert audit.count_out(rows, "msgTime", made=made) in (None, [{"minute": None, "rows": 3}])


def test_what_is_counted_at_a_sink_is_what_was_written_and_meets_what_was_read(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    with pytubemq.sync.connect(topic.master) as tube, tube.producer(topic.name) as producer:
        hiding = {"timestamp": 1_795_309_200_000, "topic": None}  # they have the names of the message's own
        bodies = [{"id": number, "at": f"2026-11-22 01:0{number % 3}:00", **hiding} for number in range(90)]
        for future in [producer.submit(json.dumps(body).encode()) for body in bodies]:
            future.result()
    pipeline = Pipeline(
        "orders",
        Source(master=topic.master, topics=(topic.name,), start="earliest"),
        decode=Decode("json", schema="id INT, at TIMESTAMP, timestamp BIGINT, topic INT"),
        steps=(Step("drawn", sql="SELECT * FROM input WHERE rand() < 0.5"),),
        sinks=(Sink("lake", "parquet", path=str(tmp_path / "lake")),),
        audit=Audit("at"),
        state=str(tmp_path / "state"),
    )
    run_pipeline(pipeline, spark=spark, once=True)
    lake = spark.read.parquet(str(tmp_path / "lake")).selectExpr("date_format(at, 'mm') AS minute")
    written = {row.minute: row["count"] for row in lake.groupBy("minute").count().collect()}
    assert 0 < sum(written.values()) < 90
    rows = read_record(state_files(str(tmp_path / "state"))).audit
    assert [(row["stream"], row["read"]) for row in rows] == [(topic.name, 30)] * 3
    assert {row["minute"][-3:-1]: row["written"]["lake"] for row in rows} == written
