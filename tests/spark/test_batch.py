"""`spark.read.format("tubemq")`, found by itself: rows, ranges, columns."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from pytubemq.net.iothread import IoThread
from pytubemq.spark.source.schema import spark_schema
from pytubemq.testing.mock_broker import MockBroker
from tests.spark.conftest import PARTITIONS, Topic

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def bodies(frame: DataFrame) -> list[str]:
    rows = frame.select(F.col("body").cast("string").alias("body")).collect()
    return sorted((row.body for row in rows), key=int)


def test_all_rows_with_all_columns(spark: SparkSession, topic: Topic) -> None:
    topic.send(1000)
    before = datetime.now()
    frame = spark.read.format("tubemq").options(**topic.options).load()
    assert frame.schema == spark_schema()
    rows = sorted(frame.collect(), key=lambda row: int(row.body))
    assert [row.body.decode() for row in rows] == topic.bodies
    assert {row.topic for row in rows} == {topic.name}
    assert {row.brokerId for row in rows} == {1}
    assert [row.attributes for row in rows] == [{"n": str(n)} for n in range(1000)]
    assert [row.msgType for row in rows] == ["even", "odd"] * 500
    assert {row.msgTime.strftime("%Y%m%d%H%M") for row in rows} == {"201301011000"}
    assert all(abs((row.timestamp - before).total_seconds()) < 3600 * 24 for row in rows)
    by_partition: dict[int, list[int]] = {}
    for row in rows:
        by_partition.setdefault(row.partition, []).append(row.offset)
    assert set(by_partition) == set(range(PARTITIONS))
    for offsets in by_partition.values():
        assert sorted(offsets) == [28 * n for n in range(len(offsets))]


def test_small_partitions_share_a_task_unless_more_tasks_are_asked_for(spark: SparkSession, topic: Topic) -> None:
    topic.send(100)
    frame = spark.read.format("tubemq").options(**topic.options).load()
    assert frame.rdd.getNumPartitions() == 1
    assert frame.select("partition").distinct().count() == PARTITIONS
    each = spark.read.format("tubemq").options(**topic.options, minPartitions=str(PARTITIONS)).load()
    assert each.rdd.getNumPartitions() == PARTITIONS
    assert each.select("partition", F.spark_partition_id()).distinct().count() == PARTITIONS


def test_an_empty_topic_has_no_rows(spark: SparkSession, topic: Topic) -> None:
    assert spark.read.format("tubemq").options(**topic.options).load().count() == 0


def test_several_topics(spark: SparkSession, new_topic: Callable[[], Topic]) -> None:
    one, two = new_topic(), new_topic()
    one.send(10)
    two.send(20)
    frame = spark.read.format("tubemq").option("master", one.master).option("topic", f"{one.name},{two.name}").load()
    counts = {row.topic: row["count"] for row in frame.groupBy("topic").count().collect()}
    assert counts == {one.name: 10, two.name: 20}


def test_exact_positions_by_partition(spark: SparkSession, topic: Topic) -> None:
    topic.send(400)
    key = f"1:{topic.name}:"
    start = {f"{key}0": 28 * 10, f"{key}1": "latest"}
    end = {f"{key}0": 28 * 15, f"{key}2": 28 * 3, f"{key}3": "earliest"}
    frame = (
        spark.read.format("tubemq")
        .options(**topic.options, startingOffsets=json.dumps(start), endingOffsets=json.dumps(end))
        .load()
    )
    found = {(row.partition, row.offset // 28) for row in frame.select("partition", "offset").collect()}
    assert found == {(0, n) for n in range(10, 15)} | {(2, n) for n in range(3)}


def test_only_the_columns_asked_for_also_in_sql(spark: SparkSession, topic: Topic) -> None:
    topic.send(30)
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW messages USING tubemq OPTIONS "
        f"(master '{topic.master}', topic '{topic.name}', columns 'body, msgtype')"
    )
    frame = spark.sql("SELECT * FROM messages WHERE msgType = 'odd'")
    assert frame.columns == ["body", "msgType"]
    assert bodies(frame) == [str(n) for n in range(1, 30, 2)]


def test_message_time_in_another_zone(spark: SparkSession, topic: Topic) -> None:
    topic.send(1)
    frame = spark.read.format("tubemq").options(**topic.options, timeZone="Asia/Shanghai").load()
    (row,) = frame.select(F.date_format("msgTime", "HH:mm")).collect()
    assert row[0] == "02:00"


def test_bodies_beyond_one_fetch(spark: SparkSession, topic: Topic) -> None:
    import pytubemq.sync

    size, count = 400_000, 40
    with pytubemq.sync.connect(topic.master) as tube, tube.producer(topic.name) as producer:
        for n in range(count):
            producer.send(bytes([n]) * size, partition=0)
    frame = spark.read.format("tubemq").options(**topic.options).load()
    rows = frame.select("offset", F.length("body").alias("size"), F.substring("body", 1, 1).alias("first")).collect()
    assert [(row.offset // 28, row.size, row.first[0]) for row in sorted(rows, key=lambda row: row.offset)] == [
        (n, size, n) for n in range(count)
    ]


def test_a_malformed_message_is_a_row_without_attributes(spark: SparkSession) -> None:
    """Producers of Java Brokers can claim attributes that are not there; our Broker refuses them, so a mock has one."""
    payload = b"\x00\x00\x10\x00no such block"
    io = IoThread()
    mock = MockBroker(topics={"demo": 1})
    io.run(mock.start())
    try:
        mock.store("demo", b"before", payload, b"after")
        mock.partitions["demo", 0].messages[1].flag = 1
        frame = spark.read.format("tubemq").option("master", mock.masters).option("topic", "demo").load()
        rows = sorted(frame.collect(), key=lambda row: row.offset)
    finally:
        io.run(mock.stop())
        io.close()
    assert [(row.body, row.attributes) for row in rows] == [(b"before", {}), (payload, None), (b"after", {})]
    assert [(row.msgType, row.msgTime) for row in rows] == [(None, None)] * 3
