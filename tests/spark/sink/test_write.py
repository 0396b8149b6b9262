"""`df.write.format("tubemq")` and `df.writeStream.format("tubemq")` on a real cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

import pytubemq.sync
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


def write(frame: DataFrame, topic: Topic, **options: Any) -> None:
    frame.write.format("tubemq").options(**{**topic.options, **options}).mode("append").save()


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
