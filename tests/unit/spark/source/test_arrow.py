"""Fetches into Arrow: every column, nulls where nothing is known, and exactly Spark's schema."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from pytubemq.model.ids import Partition
from pytubemq.model.message import Message
from pytubemq.spark.source.arrow import BatchBuilder, minute_us
from pytubemq.spark.source.schema import COLUMNS, spark_schema

PARTITION = Partition(3, "demo", 2)
UTC_ZONE = ZoneInfo("UTC")


MESSAGES = [
    Message(PARTITION, b"one", {"k": "v", "seq": "7"}, 28, 1_700_000_000_123, 1, "UA", "201301011000"),
    Message(PARTITION, b"\x00\xff"),
]


def test_every_column_of_every_row() -> None:
    batch = BatchBuilder(PARTITION, COLUMNS, UTC_ZONE).build(MESSAGES)
    assert batch.schema == to_arrow_schema(spark_schema(), timezone="UTC")
    first, second = batch.to_pylist()
    assert first == {
        "topic": "demo",
        "brokerId": 3,
        "partition": 2,
        "offset": 28,
        "timestamp": datetime(2023, 11, 14, 22, 13, 20, 123000, UTC),
        "msgTime": datetime(2013, 1, 1, 10, 0, tzinfo=UTC),
        "msgType": "UA",
        "attributes": [("k", "v"), ("seq", "7")],
        "body": b"one",
    }
    assert second["body"] == b"\x00\xff"
    assert second["attributes"] == []
    assert [second[name] for name in ("offset", "timestamp", "msgTime", "msgType")] == [None] * 4


@pytest.mark.parametrize("malformed", [{0}, {1}, {2}, {0, 1, 2}, {1, 2}])
def test_a_malformed_message_has_null_for_attributes(malformed: set[int]) -> None:
    rows = [Message(PARTITION, b"%d" % n, {} if n in malformed else {"n": str(n)}) for n in range(3)]
    batch = BatchBuilder(PARTITION, COLUMNS, UTC_ZONE).build(rows, malformed=malformed)
    batch.validate(full=True)
    expected = [None if n in malformed else [("n", str(n))] for n in range(3)]
    assert [row["attributes"] for row in batch.to_pylist()] == expected
    assert [row["body"] for row in batch.to_pylist()] == [b"0", b"1", b"2"]


def test_chosen_columns_in_the_order_chosen() -> None:
    columns = ("body", "offset")
    batch = BatchBuilder(PARTITION, columns, UTC_ZONE).build(MESSAGES)
    assert batch.schema == to_arrow_schema(spark_schema(columns), timezone="UTC")
    assert batch.to_pylist() == [{"body": b"one", "offset": 28}, {"body": b"\x00\xff", "offset": None}]


def test_message_time_is_a_clock_in_the_zone_given() -> None:
    shanghai = minute_us("201301011800", ZoneInfo("Asia/Shanghai"))
    assert shanghai == minute_us("201301011000", UTC_ZONE)
    assert shanghai == int(datetime(2013, 1, 1, 10, 0, tzinfo=UTC).timestamp()) * 1_000_000


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "20130101",
        "201313011000",
        "2013010110xx",
        "\uff12\uff10\uff11\uff13\uff10\uff11\uff10\uff11\uff11\uff10\uff10\uff10",
    ],
)
def test_what_is_not_a_minute_is_null(text: str | None) -> None:
    assert minute_us(text, UTC_ZONE) is None


@pytest.mark.parametrize(("text", "zone"), [("000101010000", "Asia/Shanghai"), ("999912312359", "America/New_York")])
def test_a_minute_that_no_timestamp_can_hold_is_null(text: str, zone: str) -> None:
    assert minute_us(text, ZoneInfo(zone)) is None
    assert minute_us(text, UTC_ZONE) is not None
