"""`spark.readStream.format("tubemq")`: limits, AvailableNow, restarts from a checkpoint, replays."""

from __future__ import annotations

import json
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from pytubemq.server.cluster import ThreadedCluster
from tests.spark.conftest import Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]


def stream(spark: SparkSession, topic: Topic, **options: str) -> DataFrame:
    return spark.readStream.format("tubemq").options(**topic.options, **options).load()


def into_table(frame: DataFrame, path: Path, checkpoint: str) -> StreamingQuery:
    """Read what is available now into a Parquet table; returns the ended query."""
    query = (
        frame.select(F.col("body").cast("string").alias("body"), "partition", "offset")
        .writeStream.format("parquet")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start(str(path))
    )
    query.awaitTermination()
    return query


def bodies(spark: SparkSession, path: Path) -> list[str]:
    return sorted((row.body for row in spark.read.parquet(str(path)).collect()), key=int)


def batch_rows(query: StreamingQuery) -> list[int]:
    return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]


def test_available_now_reads_all_and_ends(spark: SparkSession, topic: Topic, tmp_path: Path, checkpoint: str) -> None:
    topic.send(1000)
    query = into_table(stream(spark, topic, startingOffsets="earliest"), tmp_path / "table", checkpoint)
    assert bodies(spark, tmp_path / "table") == topic.bodies
    assert batch_rows(query) == [1000]


def test_max_rows_per_trigger_bounds_every_batch(
    spark: SparkSession, topic: Topic, tmp_path: Path, checkpoint: str
) -> None:
    topic.send(1000)
    frame = stream(spark, topic, startingOffsets="earliest", maxRowsPerTrigger="300")
    query = into_table(frame, tmp_path / "table", checkpoint)
    assert batch_rows(query) == [300, 300, 300, 100]
    assert bodies(spark, tmp_path / "table") == topic.bodies


def test_latest_is_the_default_and_is_looked_up_once(
    spark: SparkSession, topic: Topic, tmp_path: Path, checkpoint: str
) -> None:
    topic.send(50)
    into_table(stream(spark, topic), tmp_path / "table", checkpoint)
    topic.send(25)
    into_table(stream(spark, topic), tmp_path / "table", checkpoint)
    assert bodies(spark, tmp_path / "table") == topic.bodies[50:]


def test_restarts_from_a_checkpoint_repeat_and_skip_no_row(
    spark: SparkSession, topic: Topic, tmp_path: Path, checkpoint: str
) -> None:
    for count in (500, 1, 0, 700):
        topic.send(count)
        frame = stream(spark, topic, startingOffsets="earliest", maxRowsPerTrigger="333")
        into_table(frame, tmp_path / "table", checkpoint)
        assert bodies(spark, tmp_path / "table") == topic.bodies


def test_an_unfinished_batch_is_replayed_with_the_same_rows_though_partitions_were_added(
    spark: SparkSession, cluster: ThreadedCluster, topic: Topic, checkpoint: str
) -> None:
    topic.send(900)
    runs: list[tuple[int, list[str]]] = []

    def keep(frame: DataFrame, batch: int) -> None:
        runs.append((batch, sorted(row.body.decode() for row in frame.select("body").collect())))

    def run() -> None:
        options = {"master": topic.master, "topicPattern": f"{topic.name}(_more)?", "startingOffsets": "earliest"}
        frame = spark.readStream.format("tubemq").options(**options, maxRowsPerTrigger="400").load()
        writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()

    run()
    first = list(runs)
    assert [len(rows) for _, rows in first] == [400, 400, 100]
    # as after a crash between the last batch's output and its commit
    commits = Path(checkpoint, "commits")
    (commits / "2").unlink()
    (commits / ".2.crc").unlink(missing_ok=True)
    topic.send(300)
    more = Topic(f"{topic.name}_more", topic.master)
    cluster.create_topic(more.name, partitions=2)
    more.send(50)
    runs.clear()
    run()
    assert runs[0] == first[2]
    assert Counter(body for _, rows in [*first, *runs[1:]] for body in rows) == Counter([*topic.bodies, *more.bodies])


def test_what_arrives_while_it_runs_is_left_for_the_next_run(
    spark: SparkSession, topic: Topic, tmp_path: Path, checkpoint: str
) -> None:
    topic.send(300)

    def send_more(frame: DataFrame, batch: int) -> None:
        frame.count()
        topic.send(100)

    frame = stream(spark, topic, startingOffsets="earliest", maxRowsPerTrigger="100")
    query = frame.writeStream.foreachBatch(send_more).option("checkpointLocation", checkpoint)
    running = query.trigger(availableNow=True).start()
    running.awaitTermination()
    assert batch_rows(running) == [100, 100, 100]


def test_a_running_query_follows_the_topic_and_tells_its_lag(
    spark: SparkSession, topic: Topic, checkpoint: str
) -> None:
    topic.send(10)
    frame = stream(spark, topic, startingOffsets="earliest")
    writer = frame.writeStream.format("memory").queryName(topic.name).option("checkpointLocation", checkpoint)
    query = writer.trigger(processingTime="100 milliseconds").start()
    try:
        query.processAllAvailable()
        topic.send(15)
        query.processAllAvailable()
        assert spark.table(topic.name).count() == 25
        source = next(p for p in reversed(query.recentProgress) if p.numInputRows).sources[0]
        keys = list(json.loads(source.endOffset))
        assert keys == sorted(keys)
        assert json.loads(source.latestOffset) == json.loads(source.endOffset)
    finally:
        query.stop()


def test_a_broker_that_is_killed_and_comes_back_costs_no_row(
    spark: SparkSession, tmp_path: Path, checkpoint: str
) -> None:
    with ThreadedCluster(data_dir=tmp_path / "cluster", broker_in_child=True) as cluster:
        cluster.create_topic("away", partitions=2)
        topic = Topic("away", cluster.master)
        topic.send(1000)
        read: dict[int, list[str]] = {}
        restarts: list[threading.Thread] = []

        def kill_then_keep(frame: DataFrame, batch: int) -> None:
            # killed before this batch is read, and between this batch and the plan of the next one
            cluster.kill_broker()
            restarts.append(threading.Thread(target=cluster.restart_broker))
            restarts[-1].start()
            read[batch] = [row.body.decode() for row in frame.select("body").collect()]
            restarts[-1].join()
            if batch == 1:
                cluster.kill_broker()
                restarts.append(threading.Thread(target=cluster.restart_broker))
                restarts[-1].start()

        frame = stream(spark, topic, startingOffsets="earliest", maxRowsPerTrigger="400")
        writer = frame.writeStream.foreachBatch(kill_then_keep).option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()
        for restart in restarts:
            restart.join()
        assert [len(read[batch]) for batch in sorted(read)] == [400, 400, 200]
        assert Counter(body for rows in read.values() for body in rows) == Counter(topic.bodies)
