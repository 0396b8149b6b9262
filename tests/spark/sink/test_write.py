"""`df.write.format("tubemq")` and `df.writeStream.format("tubemq")` on a real cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

import pytubemq.sync
from pytubemq.spark.sink import in_fixed_order
from tests.spark.conftest import PARTITIONS, Topic

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from pytubemq.model.message import Message

pytestmark = pytest.mark.spark


def messages_of(topic: Topic) -> list[Message]:
    found: list[Message] = []
    with pytubemq.sync.connect(topic.master) as tube:
        for partition in tube.partitions(topic.name):
            with tube.reader(partition, start="earliest", end="latest") as reader:
                found += [message for batch in reader.batches() for message in batch.messages]
    return found


def write(frame: DataFrame, to: Topic, **options: Any) -> None:
    frame.write.format("tubemq").options(**{**to.options, **options}).mode("append").save()


def test_every_column_arrives_as_consumers_read_it(spark: SparkSession, topic: Topic) -> None:
    frame = spark.range(3_000, numPartitions=3).select(
        F.concat(F.lit("body "), F.col("id")).alias("body"),
        F.when(F.col("id") % 3 == 0, F.lit("fizz")).alias("msgType"),
        F.timestamp_seconds(F.lit(1_357_034_400) + F.col("id") % 2 * 60).alias("msgTime"),
        F.when(F.col("id") % 2 == 0, F.create_map(F.lit("n"), F.col("id").cast("string"))).alias("attributes"),
        (F.col("id") % PARTITIONS).cast("int").alias("partition"),
    )
    write(frame, topic)
    found = {int(message.body.split()[1]): message for message in messages_of(topic)}
    assert sorted(found) == list(range(3_000))
    for n, message in found.items():
        assert message.msg_type == ("fizz" if n % 3 == 0 else None)
        assert message.msg_time == ("201301011001" if n % 2 else "201301011000")
        assert message.attributes == ({} if n % 2 else {"n": str(n)})
        assert message.partition.partition_id == n % PARTITIONS


def test_rows_of_a_key_keep_together_and_in_order(spark: SparkSession, topic: Topic) -> None:
    frame = spark.range(2_000, numPartitions=1).select(
        F.col("id").cast("string").alias("body"),
        F.concat(F.lit("k"), F.col("id") % 7).alias("key"),
        F.when(F.col("id") % 2 == 0, "even").otherwise("odd").alias("msgType"),
    )
    write(frame, topic)
    rows = [(message.partition, int(message.body)) for message in messages_of(topic)]
    for key in range(7):
        mine = [(where, n) for where, n in rows if n % 7 == key]
        assert len({where for where, _ in mine}) == 1
        assert [n for _, n in mine] == list(range(key, 2_000, 7))


def test_each_row_goes_to_its_own_topic(spark: SparkSession, new_topic: Callable[[], Topic]) -> None:
    one, two = new_topic(), new_topic()
    frame = spark.range(1_000).select(
        F.col("id").cast("string").cast("binary").alias("body"),
        F.when(F.col("id") < 300, one.name).otherwise(two.name).alias("topic"),
    )
    frame.write.format("tubemq").option("master", one.master).mode("append").save()
    assert sorted(int(message.body) for message in messages_of(one)) == list(range(300))
    assert sorted(int(message.body) for message in messages_of(two)) == list(range(300, 1_000))


def test_a_stream_goes_from_topic_to_topic(
    spark: SparkSession, new_topic: Callable[[], Topic], checkpoint: str
) -> None:
    one, two = new_topic(), new_topic()
    one.send(5_000)
    for _ in range(2):
        query = (
            spark.readStream.format("tubemq")
            .options(**one.options, startingOffsets="earliest", maxRowsPerTrigger="1500")
            .load()
            .select("body", "msgType", "attributes")
            .writeStream.format("tubemq")
            .options(**two.options, checkpointLocation=checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        one.send(1_000)
    found = messages_of(two)
    assert sorted(int(message.body) for message in found) == list(range(6_000))
    assert all(message.attributes == {"n": message.body.decode()} for message in found)


def test_what_a_write_cannot_do_is_refused_before_anything_is_sent(spark: SparkSession, topic: Topic) -> None:
    frame = spark.range(10).select(F.col("id").cast("string").alias("body"))
    for changed, options, says in (
        (frame, {"topic": "no_such_topic"}, "no_such_topic"),
        (frame.withColumn("offset", F.lit(1)), {}, "the Broker sets it"),
        (frame, {"idempotent": "true"}, "needs a column idempotencyKey, or planIsMapOnly=true"),
        (frame, {"deliveryTimeot": "1s"}, "did you mean deliveryTimeout"),
        (frame.select(F.when(F.col("body") != "7", F.col("body")).alias("body")), {}, "column body is null"),
    ):
        with pytest.raises(Exception, match=says):
            write(changed.coalesce(1), topic, **options)
    with pytest.raises(Exception, match="cannot be overwritten"):
        frame.write.format("tubemq").options(**topic.options).mode("overwrite").save()
    spark.conf.set("spark.sql.execution.arrow.compression.codec", "lz4")
    try:
        with pytest.raises(Exception, match="lz4 is refused"):
            write(frame.coalesce(1), topic)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.compression.codec")
    assert messages_of(topic) == []


def test_a_message_that_is_too_long_is_named_by_its_row(spark: SparkSession, topic: Topic) -> None:
    frame = spark.range(3, numPartitions=1).select(
        F.when(F.col("id") == 2, F.repeat(F.lit("x"), 2 << 20)).otherwise("short").alias("body")
    )
    with pytest.raises(Exception, match="row 2 of Spark partition 0: the message has 2,097,152 bytes"):
        write(frame, topic)


def test_a_batch_that_is_written_again_under_its_number_adds_nothing(spark: SparkSession, topic: Topic) -> None:
    frame = spark.range(30_000, numPartitions=2).select(F.col("id").cast("string").alias("body"))
    by_number = {"idempotent": "true", "planIsMapOnly": "true", "queryId": f"copy-{topic.name}"}
    for batch in ("1", "1", "2"):
        write(frame, topic, **by_number, batchId=batch)
    found = messages_of(topic)
    assert sorted(int(message.body) for message in found) == sorted([*range(30_000), *range(30_000)])
    assert {message.attributes["bid"] for message in found} == {"1", "2"}
    numbers = {(message.attributes["bid"], message.attributes["pid"], message.attributes["seq"]) for message in found}
    assert len(numbers) == 60_000
    other = frame.select(F.concat("body", F.lit("!")).alias("body"))
    with pytest.raises(Exception, match="was sent before under the same number with other content"):
        write(other, topic, **by_number, batchId="2")
    with pytest.raises(Exception, match="epoch"):
        write(frame.limit(10), topic, **by_number, batchId="1", deliveryTimeout="1s")
    assert len(messages_of(topic)) == 60_000


def test_rows_in_a_fixed_order_can_be_numbered_behind_a_shuffle(spark: SparkSession, topic: Topic) -> None:
    by_number = {"idempotent": "true", "planIsMapOnly": "true", "queryId": f"counts-{topic.name}", "batchId": "1"}
    ids = spark.range(20_000)
    for shuffled in (ids.repartition(2), ids.repartition(5, "id").orderBy(F.desc("id"))):
        counted = shuffled.groupBy((F.col("id") % 500).alias("n")).count()
        rows = counted.select(
            F.col("n").cast("string").alias("body"),
            F.create_map(F.lit("count"), F.col("count").cast("string")).alias("attributes"),
        )
        write(in_fixed_order(rows, partitions=2, keys=["body"]), topic, **by_number)
    assert sorted(int(message.body) for message in messages_of(topic)) == list(range(500))


def test_bodies_as_inlong_messages_are_read_as_typed_columns(spark: SparkSession, topic: Topic) -> None:
    frame = spark.range(100).select(
        F.concat_ws(",", "id", F.lit("a")).alias("body"),
        F.timestamp_seconds(F.lit(1_357_034_400) + F.col("id")).alias("msgTime"),
    )
    options = {"encode": "inlong-msg", "encode.groupId": "g", "encode.streamId": "s"}
    write(frame, topic, **options, idempotent="true", planIsMapOnly="true")
    assert {(message.msg_type, message.msg_time) for message in messages_of(topic)} >= {("s", "201301011000")}
    decoded = (
        spark.read.format("tubemq")
        .options(**topic.options)
        .options(**{"decode": "inlong-msg", "decode.inner": "csv", "decode.schema": "id BIGINT, name STRING"})
        .load()
    )
    rows = {(row.id, row.name) for row in decoded.collect()}
    assert rows == {(n, "a") for n in range(100)}
