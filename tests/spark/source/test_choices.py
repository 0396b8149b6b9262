"""What to read, from where to where, and how much at a time: chosen by options, at a real cluster."""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

import pytubemq.sync
from tests.spark.conftest import PARTITIONS, Topic
from tests.support.waiting import until_seen

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from pytubemq.model.ids import Partition
    from pytubemq.server.cluster import ThreadedCluster

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def bodies(frame: DataFrame) -> list[int]:
    return sorted(int(row.body) for row in frame.select("body").collect())


def next_millisecond() -> int:
    """A time that is later than all that has been sent, and not later than what comes."""
    time_ms = int(time.time() * 1000) + 1
    while time.time() * 1000 < time_ms:
        pass
    return time_ms


def positions(topic: Topic, group: str) -> dict[Partition, tuple[int | None, int]]:
    with pytubemq.sync.connect(topic.master) as tube:
        looks = tube.look(tube.partitions(topic.name), group=group)
    return {partition: (look.position, look.max_offset) for partition, look in looks.items()}


def holders(topic: Topic, group: str) -> set[str]:
    with pytubemq.sync.connect(topic.master) as tube:
        looks = tube.look(tube.partitions(topic.name), group=group)
    return {look.held_by for look in looks.values() if look.held_by}


def run(frame: DataFrame, checkpoint: str, **trigger: Any) -> tuple[list[int], StreamingQuery]:
    """What is read until the query ends, and the query."""
    found: list[int] = []
    writer = frame.writeStream.foreachBatch(lambda batch, _: found.extend(bodies(batch)))
    query = writer.option("checkpointLocation", checkpoint).trigger(**(trigger or {"availableNow": True})).start()
    query.awaitTermination()
    return sorted(found), query


def test_a_batch_by_time_and_type_in_more_tasks_than_partitions(spark: SparkSession, topic: Topic) -> None:
    topic.send(200)
    start_ms = next_millisecond()
    topic.send(400)
    end_ms = next_millisecond()
    topic.send(100)
    read = spark.read.format("tubemq").options(**topic.options, columns="body,messageId,partition")
    chosen = read.options(startingTimestamp=str(start_ms), endingTimestamp=json.dumps({topic.name: end_ms}))
    assert bodies(chosen.load()) == list(range(200, 600))
    odd = chosen.options(filters="odd", maxRecordsPerTask="25").load()
    assert odd.rdd.getNumPartitions() >= 400 // 25
    assert bodies(odd) == list(range(201, 600, 2))
    assert odd.select("partition", "messageId").distinct().count() == 200
    tasks = spark.read.format("tubemq").options(**topic.options, minPartitions="10").load().rdd.getNumPartitions()
    assert 10 <= tasks < 10 + PARTITIONS, "how many more than asked for depends on how the rows are spread"


def test_a_batch_from_and_up_to_where_a_group_is(spark: SparkSession, topic: Topic) -> None:
    topic.send(400)
    with pytubemq.sync.connect(topic.master) as tube:
        tube.reset_group("done", topic.name, 28 * 10)
    read = spark.read.format("tubemq").options(**topic.options)
    before = bodies(read.option("endingOffsets", "group:done").load())
    after = bodies(read.option("endingOffsets", "latest").option("startingOffsets", "group:done").load())
    assert len(before) == PARTITIONS * 10
    assert sorted(before + after) == list(range(400))
    with pytest.raises(PySparkException, match="group nobody has confirmed nothing"):
        read.option("startingOffsets", "group:nobody").load().count()


def test_a_stream_within_all_limits_tells_a_group_how_far_it_is(
    spark: SparkSession, topic: Topic, checkpoint: str
) -> None:
    topic.send(900)
    stream = spark.readStream.format("tubemq").options(
        **topic.options,
        startingOffsets="earliest",
        maxRowsPerTrigger="400",
        maxBytesPerTrigger="1GiB",
        minRowsPerTrigger="400",
        maxFetchTimePerTask="30s",
        slowPartitionAdjustment="true",
        commitGroup=f"lag_of_{topic.name}",
    )
    found, query = run(stream.load(), checkpoint)
    assert found == list(range(900))
    assert [p.numInputRows for p in query.recentProgress if p.numInputRows] == [400, 400, 100]
    assert all(position == end for position, end in positions(topic, f"lag_of_{topic.name}").values())
    until_seen(lambda: not holders(topic, f"lag_of_{topic.name}"), timeout_s=60, every_s=0.05)
    topic.send(50)
    found, _ = run(stream.load(), checkpoint, once=True)
    assert found == list(range(900, 950))
    # a second read of what is there, limited by bytes: some 20 rows of those in the topic
    looks = positions(topic, "nobody")
    with pytubemq.sync.connect(topic.master) as tube:
        kept = sum(look.size_bytes or 0 for look in tube.look(list(looks)).values())
    few = spark.readStream.format("tubemq").options(
        **topic.options, startingOffsets="earliest", maxBytesPerTrigger=str(kept // 3 + 100)
    )
    found, query = run(few.load(), f"{checkpoint}-2")
    assert found == list(range(950))
    assert len([p for p in query.recentProgress if p.numInputRows]) == 3


def test_a_stream_stops_at_its_end(spark: SparkSession, topic: Topic, checkpoint: str) -> None:
    topic.send(400)
    end = json.dumps({topic.name: 28 * 20})
    stream = spark.readStream.format("tubemq").options(
        **topic.options, startingOffsets="earliest", endingOffsets=end, maxRowsPerTrigger="50"
    )
    found, _ = run(stream.load(), checkpoint)
    assert len(found) == PARTITIONS * 20
    topic.send(100)
    assert run(stream.load(), checkpoint)[0] == []


def test_a_stream_by_pattern_follows_topics_that_are_created_while_it_runs(
    spark: SparkSession, cluster: ThreadedCluster, new_topic: Callable[[], Topic], checkpoint: str
) -> None:
    first = new_topic()
    first.send(100)
    frame = (
        spark.readStream.format("tubemq")
        .options(master=first.master, topicPattern=f"{first.name}(_late)?", startingOffsets="earliest")
        .load()
    )
    seen: dict[str, int] = {}
    there = threading.Event()

    def count(batch: DataFrame, _: int) -> None:
        for row in batch.groupBy("topic").count().collect():
            seen[row.topic] = seen.get(row.topic, 0) + row["count"]
        if sum(seen.values()) == 170:
            there.set()

    query = frame.writeStream.foreachBatch(count).option("checkpointLocation", checkpoint).start()
    try:
        query.processAllAvailable()
        assert seen == {first.name: 100}
        late = Topic(f"{first.name}_late", first.master)
        cluster.create_topic(late.name, partitions=2)
        late.send(70)
        assert there.wait(120), (seen, query.exception())
        assert seen == {first.name: 100, late.name: 70}
    finally:
        query.stop()


def test_rows_that_are_gone_are_written_down(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    topic.send(40)
    key = f"1:{topic.name}:0"
    losses = tmp_path / "losses"
    reader = spark.read.format("tubemq").options(
        **topic.options,
        endingOffsets=json.dumps({key: 28 * 1000}),
        failOnDataLoss="report",
        lossDirectory=str(losses),
    )
    frame = reader.load()
    assert bodies(frame) == list(range(40))
    assert bodies(frame) == list(range(40))
    (hole,) = spark.read.json(str(losses)).collect()
    assert (hole.topic, hole.partition, hole.fromOffset, hole.toOffset) == (topic.name, 0, 28 * 10, 28 * 1000)
    assert hole.rows == 990


def test_a_query_that_cannot_be_right_is_refused_with_the_remedy(
    spark: SparkSession, new_topic: Callable[[], Topic], checkpoint: str
) -> None:
    one, two = new_topic(), new_topic()
    one.send(10)
    two.send(10)
    run(spark.readStream.format("tubemq").options(**one.options, startingOffsets="earliest").load(), checkpoint)
    with pytest.raises(PySparkException, match=f"checkpoint is of topic {one.name}; this query reads {two.name}"):
        run(spark.readStream.format("tubemq").options(**two.options).load(), checkpoint)
    with pytubemq.sync.connect(one.master) as tube, tube.consumer("busy", one.name) as consumer:
        next(consumer.batches(idle_timeout_s=0.1), None)
        with pytest.raises(PySparkException, match="commitGroup busy is in use by a consumer or by another query"):
            run(
                spark.readStream.format("tubemq").options(**one.options, commitGroup="busy").load(),
                f"{checkpoint}-busy",
            )
    with pytest.raises(PySparkException, match="no message as new as the time to start at"):
        spark.read.format("tubemq").options(**one.options, startingTimestamp="2999-01-01").load().count()
    with pytest.raises(PySparkException, match="no topic matches the pattern"):
        spark.read.format("tubemq").options(master=one.master, topicPattern="nothing_like_it").load().count()
