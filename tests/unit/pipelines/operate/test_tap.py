"""Rows at a stage that this process reads and decodes itself; the cluster played here."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from pytubemq.pipelines.file.model import Audit, Decode, Pipeline, Sink, Source, Step
from pytubemq.pipelines.operate.tap import tap, tap_needs_spark
from pytubemq.pipelines.report.json_rows import plain_rows
from pytubemq.spark.source.batch import TubeMqReader
from pytubemq.spark.source.read_schema import decoded_columns, raw_columns
from pytubemq.spark.source.schema import spark_schema
from pytubemq.spark.spark_types import arrow_schema_of

if TYPE_CHECKING:
    from collections.abc import Iterator

BODIES = (b'{"id": 1}', b"oops", b'{"id": 3}', b'{"id": 4}', b"\xff")
PIPELINE = Pipeline(
    "orders",
    Source(master="127.0.0.1:1", topics=("t",), columns=("offset",)),
    decode=Decode("json", schema="id INT"),
    sinks=(Sink("lake", "parquet"), Sink("all", "console", input="INPUT")),
)


@pytest.fixture(autouse=True)
def read(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Two tasks with the same messages each; those that are read are put down."""
    tasks: list[object] = []

    def task(reader: TubeMqReader, partition: Any) -> Iterator[pa.RecordBatch]:
        tasks.append(partition)
        options = reader._options
        values = {
            "topic": "t", "brokerId": 1, "partition": partition, "timestamp": None, "msgTime": None, "msgType": None,
            "attributes": [("k", "1")],
        }  # fmt: skip
        rows = [values | {"offset": 28 * at, "body": body} for at, body in enumerate(BODIES)]
        schema = arrow_schema_of(spark_schema(raw_columns(options)))
        raw = pa.RecordBatch.from_pylist([{name: row[name] for name in schema.names} for row in rows], schema=schema)
        yield from decoded_columns(options).decode(raw) if options.decode else [raw]

    monkeypatch.setattr(TubeMqReader, "partitions", lambda reader: [0, 1])
    monkeypatch.setattr(TubeMqReader, "read", task)
    return tasks


def test_messages_are_shown_as_they_are_and_no_more_are_read_than_asked_for(read: list[object]) -> None:
    rows = tap(PIPELINE, "source", messages=5)
    assert [(row["offset"]) for row in rows] == [0, 28, 56, 84, 112]
    assert read == [0]
    plain = replace(PIPELINE, source=replace(PIPELINE.source, columns=()))
    assert [row["partition"] for row in tap(plain, "source", messages=7)] == [0] * 5 + [1] * 2
    assert tap(plain, "source", messages=1) == [
        {
            "topic": "t", "brokerId": 1, "partition": 0, "offset": 0, "timestamp": None, "msgTime": None,
            "msgType": None, "attributes": {"k": "1"}, "body": '{"id": 1}',
        }
    ]  # fmt: skip


@pytest.mark.parametrize("pipeline", [PIPELINE, replace(PIPELINE, audit=Audit())])
def test_rows_are_decoded_and_those_that_are_rejected_stand_apart(pipeline: Pipeline) -> None:
    rows = [{"id": 1, "offset": 0}, {"id": 3, "offset": 56}, {"id": 4, "offset": 84}]
    for stage in ("input", "lake", "all"):
        assert sorted(tap(pipeline, stage, messages=5), key=lambda row: row["id"]) == rows
    rejected = tap(pipeline, "rejected", messages=5)
    assert [(row["reason"], row["offset"], row["raw"]) for row in rejected] == [
        ("decode.json", 28, "oops"),
        ("decode.json", 112, {"base64": "/w=="}),
    ]
    undecoded = replace(pipeline, decode=None)
    assert tap(undecoded, "rejected", messages=5) == []
    assert tap(undecoded, "input", messages=5) == tap(undecoded, "source", messages=5)


def test_steps_and_other_sources_take_spark() -> None:
    stepped = replace(PIPELINE, steps=(Step("paid", sql="SELECT * FROM input"),))
    stages = ("source", "input", "rejected", "paid", "lake", "all")
    assert [tap_needs_spark(stepped, stage) for stage in stages] == [False, False, False, True, True, False]
    assert not any(tap_needs_spark(PIPELINE, stage) for stage in ("source", "input", "rejected", "lake", "all"))
    assert tap_needs_spark(Pipeline("p", Source(format="rate")), "source")


def test_a_time_beyond_python_s_years_is_shown_as_text_and_its_neighbours_as_ever() -> None:
    far = pa.array([1 << 62, 7, None]).cast(pa.timestamp("us", "UTC"))
    inside = pa.StructArray.from_arrays([far, pa.array([1, 2, 3])], ["at", "n"])
    rows = plain_rows(pa.table({"at": far, "in": inside, "n": [1, 2, 3]}))
    beyond, time = f"<value out of range: {1 << 62}>", "1970-01-01T00:00:00.000007Z"
    assert rows == [
        {"at": beyond, "in": {"at": beyond, "n": 1}, "n": 1},
        {"at": time, "in": {"at": time, "n": 2}, "n": 2},
        {"at": None, "in": {"at": None, "n": 3}, "n": 3},
    ]
    by_name = pa.array([[("k", 1 << 62)]], pa.map_(pa.string(), pa.int64())).cast(pa.map_(pa.string(), far.type))
    [row] = plain_rows(pa.table({"m": by_name}))
    assert beyond in row["m"]
