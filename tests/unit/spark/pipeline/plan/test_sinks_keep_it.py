"""What the table promises of a sink alone is never more than what the sink itself says."""

from __future__ import annotations

import pytest

from pytubemq.spark.pipeline.plan.guarantees import promise_of
from pytubemq.spark.pipeline.sinks.make import make_sink
from pytubemq.spark.pipeline.spec.model import Guarantee, Sink, SinkFormat

SINKS = [
    Sink("s", SinkFormat.PARQUET, path="/x"),
    Sink("s", SinkFormat.DELTA, path="/x"),
    Sink("s", SinkFormat.DELTA, path="/x", keys=("id",)),
    Sink("s", SinkFormat.ICEBERG, table="c.d.t"),
    Sink("s", SinkFormat.JDBC, url="jdbc:postgresql://h/d", table="t"),
    Sink("s", SinkFormat.JDBC, url="jdbc:postgresql://h/d", table="t", keys=("id",)),
    Sink("s", SinkFormat.KAFKA, topic="t", options={"kafka.bootstrap.servers": "h:9092"}),
    Sink("s", SinkFormat.TUBEMQ, topic="t", master="h:8715"),
    Sink("s", SinkFormat.TUBEMQ, topic="t", master="h:8715", idempotency_key="id"),
    Sink("s", SinkFormat.TUBEMQ, topic="t", master="h:8715", options={"idempotent": "false"}),
    Sink("s", SinkFormat.CONSOLE),
]


@pytest.mark.parametrize("sink", SINKS, ids=lambda sink: f"{sink.format}-{len(sink.keys)}")
def test_no_more_is_promised_than_the_sink_says(sink: Sink) -> None:
    if promise_of(sink).guarantee is Guarantee.EXACTLY_ONCE:
        assert make_sink(sink).guarantee is Guarantee.EXACTLY_ONCE
    else:
        assert make_sink(sink).spec is sink


def test_every_format_is_looked_at() -> None:
    assert {sink.format for sink in SINKS} == set(SinkFormat)
