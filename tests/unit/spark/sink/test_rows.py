"""Arrow batches as rows: values that cannot be sent are named by row and column."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from pytubemq.errors import MessageError
from pytubemq.model.ids import Partition
from pytubemq.spark.sink.columns import SinkColumns
from pytubemq.spark.sink.identity import key_digest
from pytubemq.spark.sink.options import parse_options
from pytubemq.spark.sink.rows import RowReader, Rows


def read(columns: dict[str, Any], first: int = 0, zone: str = "UTC") -> Rows:
    names = {"msgType": "msg_type", "msgTime": "msg_time", "idempotencyKey": "idempotency_key"}
    places = {names.get(name, name): at for at, name in enumerate(columns)}
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    options = parse_options({"master": "here", "topic": "t", "timeZone": zone}, streaming=True)
    return RowReader(SinkColumns(**places), options, "Spark partition 3").read(batch, first)


def text(*values: str | None) -> Any:
    return pa.array(values, pa.string())


def test_bodies_are_bytes_whatever_the_column() -> None:
    for kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()):
        assert read({"body": pa.array(["a", "é"]).cast(kind)}).bodies == [b"a", "é".encode()]


def test_times_are_minutes_of_the_clock_that_is_asked_for() -> None:
    at = datetime(2024, 1, 1, 23, 59, 59, tzinfo=UTC)
    body = text("a", "b")
    with_zone = pa.array([at, None], pa.timestamp("us", "America/New_York"))
    assert read({"body": body, "msgTime": with_zone}, zone="Asia/Shanghai").times == ["202401020759", None]
    assert read({"body": body, "msgTime": with_zone}).times == ["202401012359", None]
    without = pa.array([at.replace(tzinfo=None), None], pa.timestamp("us"))
    assert read({"body": body, "msgTime": without}, zone="Asia/Shanghai").times == ["202401012359", None]
    assert read({"body": body, "msgTime": text("202401012359", " ")}).times == ["202401012359", None]


def test_partitions_by_id_or_by_name() -> None:
    body = text("a", "b")
    assert read({"body": body, "partition": pa.array([3, None], pa.int32())}).partitions == [3, None]
    assert read({"body": body, "partition": text("2:t:1", "4")}).partitions == [Partition(2, "t", 1), 4]


def test_keys_of_any_kind_have_one_hash() -> None:
    ids = {
        tuple(read({"body": text("a"), "idempotencyKey": pa.array([value], kind)}).ids or ())
        for value, kind in (("12", pa.string()), (b"12", pa.binary()), (12, pa.int64()), (12, pa.int8()))
    }
    assert ids == {(key_digest(b"12"),)}


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"body": text("a", None)}, "row 11 of Spark partition 3: column body is null"),
        ({"body": text("a", "")}, "row 11 of Spark partition 3: column body is empty"),
        ({"body": text("a", "b"), "topic": text("t", None)}, "row 11 of Spark partition 3: column topic is null"),
        ({"body": text("a", "b"), "topic": text("t", "no/topic")}, "row 11 of Spark partition 3: column topic is 'no/"),
        (
            {"body": text("a", "b"), "msgType": text(None, "a=b")},
            "row 11 of Spark partition 3: column msgType is 'a=b'",
        ),
        (
            {"body": text("a", "b"), "msgTime": text(None, "today")},
            "row 11 of Spark partition 3: column msgTime is 'today",
        ),
        ({"body": text("a", "b"), "partition": text("1", "x")}, "row 11 of Spark partition 3: column partition is 'x'"),
        (
            {"body": text("a", "b"), "idempotencyKey": text("k", None)},
            "row 11 of Spark partition 3: column idempotencyKey is null",
        ),
        (
            {"body": text("a", "b"), "msgTime": pa.array([None, -60_000_000_000_000_000], pa.timestamp("us"))},
            "row 11 of Spark partition 3: column msgTime is not within the years",
        ),
    ],
)
def test_what_cannot_be_sent_is_named_by_row_and_column(columns: dict[str, Any], says: str) -> None:
    with pytest.raises(MessageError) as caught:
        read(columns, first=10)
    assert str(caught.value).startswith(says)
