"""Spark at a Master or Broker that answers with what no correct one says: one clear error, or the rows all the same.

What a task does with every kind of bad answer, `tests/scenario/hostile` shows without Spark. Here are some that end a
query at once, to see what Spark makes of them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from pytubemq.errors import Code
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.net.iothread import IoThread
from pytubemq.testing.hostile.packs import bad_stored
from pytubemq.testing.hostile.values import Scene, Values
from pytubemq.testing.mock_broker import MockBroker
from pytubemq.wire.protocol.messages.extension import PartitionOffsetsResponse, ReadRangeResponseB2C
from pytubemq.wire.rpc.methods import Method

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

ROWS = 100
SCENE = Scene(partitions=1)
FORGED = "no\n26/01/31 00:00:00 ERROR a forged line \x1b[2J"
SHOWN = r"no\n26/01/31 00:00:00 ERROR a forged line \x1b[2J"
ENDLESS = OFFSET_UNIT << 56
"""An end of a partition that nobody has."""


@pytest.fixture
def mock() -> Iterator[MockBroker]:
    thread = IoThread(name="hostile")

    async def start() -> MockBroker:
        made = MockBroker(topics={SCENE.topic: SCENE.partitions})
        await made.start()
        made.store(SCENE.topic, *(b"%d" % number for number in range(ROWS)))
        return made

    made = thread.run(start())
    yield made
    thread.run(made.stop())
    thread.close()


def refuse(mock: MockBroker, *methods: Method) -> None:
    """Refuse all requests of these methods, with a text that would forge a line of a log."""
    for method in methods:
        mock.respond_fn(method, partial(_refused, mock, method))


def _refused(mock: MockBroker, method: Method, call: Any, request: Any) -> Any:
    return mock._handlers.refusal(method, Code.BAD_REQUEST, FORGED)


def bad_batch() -> ReadRangeResponseB2C:
    """A response with a record batch that has a valid checksum and invalid contents."""
    return ReadRangeResponseB2C(
        success=True,
        err_code=Code.SUCCESS,
        next_offset=OFFSET_UNIT,
        min_offset=0,
        max_offset=ROWS * OFFSET_UNIT,
        packs=(bad_stored(Values(Random(1), SCENE)),),
    )


def text_of(action: Callable[[], object]) -> str:
    """The text of the error with which an action ends."""
    with pytest.raises(PySparkException) as caught:
        action()
    return str(caught.value)


def test_a_hostile_broker_ends_a_query_with_one_clear_error(
    spark: SparkSession, mock: MockBroker, tmp_path: Path
) -> None:
    options = {"master": mock.masters, "topic": SCENE.topic}
    read = spark.read.format("tubemq").options(**options)
    refuse(mock, Method.READ_RANGE_C2B)
    text = text_of(read.load().count)
    assert SHOWN in text
    assert FORGED not in text
    assert "\x1b" not in text

    mock.respond_fn(Method.READ_RANGE_C2B, lambda call, request: bad_batch())
    assert f"1:{SCENE.topic}:0" in text_of(read.load().count)

    query = (
        spark.readStream.format("tubemq")
        .options(**options, startingOffsets="earliest")
        .load()
        .writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "rows"))
    )
    assert f"1:{SCENE.topic}:0" in text_of(lambda: query.awaitTermination(240))
    assert {path.name for path in tmp_path.iterdir()} <= {"checkpoint", "rows"}

    mock.respond_fn(Method.READ_RANGE_C2B, None)
    assert read.load().count() == ROWS, "nothing of it stays behind"


def test_claims_to_the_driver_end_at_once(spark: SparkSession, mock: MockBroker) -> None:
    options = {"master": mock.masters, "topic": SCENE.topic}

    def endless(call: Any, request: Any) -> Any:
        answer: PartitionOffsetsResponse = mock.work(call, request)
        return replace(answer, partitions=tuple(replace(one, max_offset=ENDLESS) for one in answer.partitions))

    mock.respond_fn(Method.PARTITION_OFFSETS, endless)
    few_rows = spark.read.format("tubemq").options(**options, maxRecordsPerTask="1000")
    assert "tasks; at most 100,000 can be" in text_of(few_rows.load().count)
    mock.respond_fn(Method.PARTITION_OFFSETS, None)
    refuse(mock, Method.PRODUCER_REGISTER_P2M)
    assert SHOWN in text_of(spark.read.format("tubemq").options(**options).load().count)


def test_a_hostile_broker_ends_a_write_with_the_rows_that_it_did_not_take(
    spark: SparkSession, mock: MockBroker
) -> None:
    refuse(mock, Method.SEND_PACKS_P2B, Method.SEND_MESSAGE_P2B)
    rows = spark.range(ROWS, numPartitions=1).selectExpr("CAST(id AS STRING) AS body")
    writer = rows.write.format("tubemq").options(master=mock.masters, topic=SCENE.topic).mode("append")
    text = text_of(writer.save)
    assert f"not delivered to topic '{SCENE.topic}': {SHOWN}" in text
    assert "\x1b" not in text
