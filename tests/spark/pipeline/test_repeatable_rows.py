"""Which rows are the same when a batch is done again: told from Spark's plan, at random and or the clock alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import ConfigError
from pytubemq.pipelines.file.model import Sink
from pytubemq.pipelines.sinks.rows import is_deterministic
from pytubemq.pipelines.sinks.sink_factory import make_sink
from pytubemq.pipelines.sinks.sink_writer import SinkContext

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

OTHERS = (
    "SELECT n, rand() AS x FROM some_rows",
    "SELECT n, current_timestamp() AS x FROM some_rows",
    "SELECT n, current_date AS x FROM some_rows",
    "SELECT n FROM some_rows WHERE n < hour(now()) + 100",
    "SELECT n, localtimestamp() AS x FROM some_rows",
    "SELECT n, unix_timestamp() AS x FROM some_rows",
    "WITH w AS (SELECT current_timestamp() AS x) SELECT * FROM some_rows JOIN w ON true",
    "SELECT n FROM some_rows WHERE n IN (SELECT year(current_timestamp()))",
    "SELECT year(x) FROM (SELECT n, current_timestamp() AS x FROM some_rows)",
)
SAME = (
    "SELECT n, current_user() AS x, current_database() AS y FROM some_rows",
    "SELECT n, TIMESTAMP '2026-01-01' AS `current_timestamp` FROM some_rows",
    "SELECT n, 'now()' AS x FROM some_rows ORDER BY n",
)


def test_the_clock_and_chance_make_other_rows(spark: SparkSession) -> None:
    spark.range(3).toDF("n").createOrReplaceTempView("some_rows")
    assert {sql: is_deterministic(spark.sql(sql)) for sql in OTHERS} == dict.fromkeys(OTHERS, False)
    assert {sql: is_deterministic(spark.sql(sql)) for sql in SAME} == dict.fromkeys(SAME, True)


def test_a_topic_takes_no_rows_of_the_clock_by_number(spark: SparkSession) -> None:
    writer = make_sink(Sink("out", "tubemq", master="127.0.0.1:1", topic="t"))
    rows = spark.range(3).selectExpr("id", "current_timestamp() AS x")
    with pytest.raises(ConfigError, match="or the clock"):
        writer.write(rows, 0, SinkContext(spark, "p-1"))


def test_on_a_stream_the_clock_is_that_of_the_batch(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    rows = spark.readStream.schema("n INT").parquet(str(tmp_path / "in"))
    assert is_deterministic(rows.selectExpr("n", "current_timestamp() AS x"))
    assert not is_deterministic(rows.selectExpr("n", "rand() AS x"))


def test_inside_of_a_batch_it_is_that_of_the_try(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).toDF("n").write.parquet(str(tmp_path / "in"))
    seen: list[bool] = []
    stream = spark.readStream.schema("n BIGINT").parquet(str(tmp_path / "in"))
    query = (
        stream.writeStream.foreachBatch(
            lambda rows, _: seen.extend(
                [is_deterministic(rows), is_deterministic(rows.selectExpr("n", "current_timestamp() AS x"))]
            )
        )
        .trigger(availableNow=True)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    query.awaitTermination(60)
    assert seen == [True, False]
