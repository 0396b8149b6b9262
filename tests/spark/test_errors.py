"""What a user who is wrong reads: one error that names the thing and the remedy."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.conftest import Topic

pytestmark = pytest.mark.spark


def test_a_misspelt_option(spark: SparkSession, topic: Topic) -> None:
    reader = spark.read.format("tubemq").options(**topic.options, startingOffset="earliest")
    with pytest.raises(PySparkException, match="did you mean startingOffsets"):
        reader.load()


def test_a_missing_option(spark: SparkSession, topic: Topic) -> None:
    with pytest.raises(PySparkException, match="needs the option topic"):
        spark.readStream.format("tubemq").option("master", topic.master).load()


def test_a_stream_option_in_a_batch(spark: SparkSession, topic: Topic) -> None:
    frame = spark.read.format("tubemq").options(**topic.options, maxRowsPerTrigger="5").load()
    with pytest.raises(PySparkException, match="maxRowsPerTrigger is an option of readStream"):
        frame.count()


def test_a_schema_of_the_users(spark: SparkSession, topic: Topic) -> None:
    frame = spark.read.format("tubemq").options(**topic.options).schema("body string").load()
    with pytest.raises(PySparkException, match="has its own schema"):
        frame.count()


def test_a_topic_that_does_not_exist(spark: SparkSession, topic: Topic) -> None:
    frame = spark.read.format("tubemq").option("master", topic.master).option("topic", f"{topic.name}x").load()
    with pytest.raises(PySparkException, match=f"topic '{topic.name}x' does not exist") as found:
        frame.count()
    said = str(found.value)
    assert f"did you mean {topic.name}?" in said
    assert said.count("/pytubemq/") == 1, "the trace shows the way through this package"


def test_a_topic_that_does_not_exist_in_a_stream(spark: SparkSession, topic: Topic, checkpoint: str) -> None:
    frame = spark.readStream.format("tubemq").option("master", topic.master).option("topic", "nosuch").load()
    query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
    with pytest.raises(PySparkException, match="nosuch"):
        query.awaitTermination()


def test_a_master_that_is_not_there(spark: SparkSession, topic: Topic) -> None:
    address = "127.0.0.1:1"  # a port on which nothing of ours listens
    frame = spark.read.format("tubemq").option("master", address).option("topic", topic.name).load()
    with pytest.raises(PySparkException, match=address):
        frame.count()


def test_rows_that_are_not_there(spark: SparkSession, topic: Topic) -> None:
    topic.send(10)
    beyond = json.dumps({f"1:{topic.name}:0": 28 * 1000})
    reader = spark.read.format("tubemq").options(**topic.options, endingOffsets=beyond)
    with pytest.raises(PySparkException, match=f"data loss in partition 1:{topic.name}:0"):
        reader.load().count()
    assert reader.option("failOnDataLoss", "false").load().count() == 10
    begun = spark.read.format("tubemq").options(**topic.options, startingOffsets=beyond)
    with pytest.raises(PySparkException, match=rf"data loss in partition 1:{topic.name}:0: rows [0-9]+ to 28000"):
        begun.load().count()
