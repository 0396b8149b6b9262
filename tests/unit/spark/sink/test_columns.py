"""What the sink does with each column of a DataFrame."""

from __future__ import annotations

import pytest
from pyspark.sql import types as T

from pytubemq.errors import ConfigError
from pytubemq.spark.sink.columns import SinkColumns, sink_columns
from pytubemq.spark.sink.options import SinkOptions, parse_options


def options(**more: str) -> SinkOptions:
    return parse_options({"master": "here", "checkpointLocation": "/c", **more}, streaming=True)


def schema(text: str) -> T.StructType:
    kinds: dict[str, T.DataType] = {}
    kinds |= {"s": T.StringType(), "b": T.BinaryType(), "i": T.IntegerType(), "l": T.LongType(), "t": T.TimestampType()}
    kinds |= {"m": T.MapType(T.StringType(), T.StringType()), "d": T.DoubleType(), "n": T.TimestampNTZType()}
    return T.StructType([T.StructField(name, kinds[kind]) for name, kind in (each.split(":") for each in text.split())])


def test_every_column_has_its_place() -> None:
    found = sink_columns(schema("TOPIC:s body:b msgtype:s msgTime:n attributes:m key:s partition:i"), options())
    assert found == SinkColumns(body=1, topic=0, msg_type=2, msg_time=3, attributes=4, key=5, partition=6)


def test_an_option_overrides_its_column() -> None:
    found = sink_columns(schema("topic:s body:s msgType:s"), options(topic="demo", msgType="t"))
    assert found == SinkColumns(body=1)


def test_the_idempotency_key_is_found_by_its_name() -> None:
    keyed = {"topic": "demo", "idempotent": "true"}
    assert sink_columns(schema("body:s idempotencyKey:l"), options(**keyed)).idempotency_key == 1
    assert sink_columns(schema("id:s body:s"), options(**keyed, idempotencyKey="ID")).idempotency_key == 0
    found = sink_columns(schema("key:s body:s"), options(**keyed, idempotencyKey="key"))
    assert (found.key, found.idempotency_key) == (0, 0)


def test_by_number_no_key_is_needed() -> None:
    found = sink_columns(schema("body:s"), options(topic="demo", idempotent="true", planIsMapOnly="true"))
    assert found == SinkColumns(body=0)


@pytest.mark.parametrize(
    ("columns", "more", "says"),
    [
        ("value:s", {"topic": "demo"}, "does not take a column value"),
        ("", {"topic": "demo"}, "no column body"),
        ("body:s", {}, "no topic is named"),
        ("body:s msgTyp:s", {"topic": "demo"}, "did you mean msgType"),
        ("body:s offset:l", {"topic": "demo"}, "the Broker sets it"),
        ("body:i", {"topic": "demo"}, "the column body is int\ncast it to binary or string"),
        ("body:s attributes:s", {"topic": "demo"}, "cast it to map<string,string>"),
        ("body:s Body:s", {"topic": "demo"}, "the column body twice"),
        ("body:s", {"topic": "demo", "idempotent": "true"}, "needs a column idempotencyKey, or planIsMapOnly"),
        ("body:s", {"topic": "demo", "idempotent": "true", "idempotencyKey": "id"}, "no column id"),
        ("body:s id:d", {"topic": "demo", "idempotent": "true", "idempotencyKey": "id"}, "the column id is double"),
        ("body:s", {"topic": "demo", "idempotent": "true", "idempotencyKey": "body"}, "copy it"),
    ],
)
def test_what_cannot_be_sent_is_refused_by_name(columns: str, more: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        sink_columns(schema(columns), options(**more))
    assert says in str(caught.value)
