"""Decoding in Spark: by options of the source, of a DataFrame, in SQL."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

import pytubemq.sync
from pytubemq.decode import make_decoder
from pytubemq.decode.inlong.encode import encode_inlong
from pytubemq.spark.functions import decode_dataframe, register

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tests.spark.conftest import Topic

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

SCHEMA = "id INT NOT NULL, name STRING, at TIMESTAMP, price DECIMAL(9,2)"
MESSAGES = 50
RECORDS = 20
"""Of each message; one of them is bad."""
FINE = {n for n in range(MESSAGES * RECORDS) if n % RECORDS != 7}


def record(n: int) -> bytes:
    return b"%d,name %d,2024-01-31 12:00:00,%d.25" % (n, n, n) if n in FINE else b"bad,%d" % n


@pytest.fixture
def filled(topic: Topic) -> Topic:
    """A topic with InLongMsg, and one message that is none."""
    with pytubemq.sync.connect(topic.master) as tube, tube.producer(topic.name) as producer:
        for first in range(0, MESSAGES * RECORDS, RECORDS):
            attributes = {"dt": "1706702400000", "streamId": "s"}
            records = [record(n) for n in range(first, first + RECORDS)]
            producer.send(encode_inlong([(attributes, records)], created_ms=1), attrs={"first": str(first)})
        producer.send(b"no InLongMsg")
    return topic


def check(frame: DataFrame) -> None:
    """Every record is a row or told in `_error`, with what was kept of its message."""
    rows = frame.collect()
    fine = [row for row in rows if row._error is None]
    assert Counter(row.id for row in fine) == Counter(FINE)
    assert all(row.name == f"name {row.id}" and str(row.price) == f"{row.id}.25" for row in fine)
    assert {row.at.isoformat() for row in fine} == {"2024-01-31T12:00:00"}
    errors = [row._error for row in rows if row._error is not None]
    of_records = [error for error in errors if error.stage == "record"]
    assert {(error.raw, error.record) for error in of_records} == {
        (b"bad,%d" % n, 7) for n in range(7, MESSAGES * RECORDS, RECORDS)
    }
    assert Counter(error.reason for error in errors) == {"decode.csv": MESSAGES, "decode.inlong-msg": 1}
    assert all(error.offset == row.offset for row in rows if (error := row._error) is not None)


def options(topic: Topic, **more: str) -> dict[str, str]:
    decode = {"decode": "inlong-msg", "decode.inner": "csv", "decode.schema": SCHEMA, "decode.columns": "offset"}
    return {**topic.options, **decode, **more}


def test_the_source_makes_typed_columns(spark: SparkSession, filled: Topic) -> None:
    frame = spark.read.format("tubemq").options(**options(filled)).load()
    assert frame.columns == ["id", "name", "at", "price", "inlongmsg_time", "inlongmsg_attributes", "offset", "_error"]
    check(frame)
    times = frame.where("_error IS NULL").select("inlongmsg_time", F.col("inlongmsg_attributes")["streamId"]).distinct()
    assert [(row[0].isoformat(), row[1]) for row in times.collect()] == [("2024-01-31T12:00:00", "s")]


def test_a_stream_makes_typed_columns(spark: SparkSession, filled: Topic, checkpoint: str, tmp_path: Path) -> None:
    reader = spark.readStream.format("tubemq").options(**options(filled, startingOffsets="earliest"))
    table = str(tmp_path / "table")
    writer = reader.load().writeStream.format("parquet").option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start(table).awaitTermination()
    check(spark.read.parquet(table))


def test_what_is_rejected_can_be_dropped_or_end_the_query(spark: SparkSession, filled: Topic) -> None:
    frame = spark.read.format("tubemq").options(**options(filled, **{"decode.errors": "drop"})).load()
    assert "_error" not in frame.columns
    assert frame.count() == len(FINE)
    frame = spark.read.format("tubemq").options(**options(filled, **{"decode.errors": "fail"})).load()
    with pytest.raises(PySparkException, match="cannot be decoded"):
        frame.count()
    wrong = spark.read.format("tubemq").options(**options(filled, **{"decode.fieldDelimeter": "|"}))
    with pytest.raises(PySparkException, match="did you mean fieldDelimiter"):
        wrong.load()


def test_a_dataframe_and_sql_functions_make_the_same(spark: SparkSession, filled: Topic) -> None:
    messages = spark.read.format("tubemq").options(**filled.options).load()
    decoder = make_decoder("inlong-msg", schema=SCHEMA, inner="csv")
    check(decode_dataframe(messages, decoder, keep=["offset"]))
    messages.createOrReplaceTempView("messages")
    register(spark, "decode_orders", decoder, keep=["offset"])
    check(spark.sql("SELECT * FROM decode_orders(TABLE(messages))"))
    register(spark)
    of_rows = spark.sql(
        f"SELECT *, _error.offset AS offset FROM tubemq_decode(TABLE(SELECT * FROM messages), 'inlong-msg',"
        f" '{SCHEMA}', 'csv', map('timeColumn', ''))"
    )
    assert "inlongmsg_time" not in of_rows.columns
    check(of_rows)
