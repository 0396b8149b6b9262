"""What the table promises of a sink alone is what the sink itself says, and no more can be asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytubemq.pipelines.analysis.guarantees import not_exactly_once, promise_of
from pytubemq.pipelines.file import sink_table
from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.file.model import Guarantee, Pipeline, Sink, Source
from pytubemq.pipelines.file.source_positions import unplaced
from pytubemq.pipelines.rules.registry import faults_of
from pytubemq.pipelines.rules.rule import Context
from pytubemq.pipelines.sinks.sink_factory import make_sink

SINKS = [
    Sink("s", "parquet", path="/x"),
    Sink("s", "parquet", path="/x", layout="log"),
    Sink("s", "delta", path="/x"),
    Sink("s", "delta", path="/x", keys=("id",)),
    Sink("s", "iceberg", table="c.d.t"),
    Sink("s", "jdbc", url="jdbc:postgresql://h/d", table="t"),
    Sink("s", "jdbc", url="jdbc:postgresql://h/d", table="t", keys=("id",)),
    Sink("s", "kafka", topic="t", options={"kafka.bootstrap.servers": "h:9092"}),
    Sink("s", "tubemq", topic="t", master="h:8715"),
    Sink("s", "tubemq", topic="t", master="h:8715", idempotency_key="id"),
    Sink("s", "tubemq", topic="t", master="h:8715", options={"idempotent": "false"}),
    Sink("s", "console"),
]


@pytest.mark.parametrize("sink", SINKS, ids=lambda sink: f"{sink.format}-{len(sink.keys)}")
def test_the_table_promises_what_the_sink_says(sink: Sink) -> None:
    for stateful in (False, True):
        assert promise_of(sink, stateful=stateful).guarantee is make_sink(sink).guarantee


@pytest.mark.parametrize("sink", SINKS, ids=lambda sink: f"{sink.format}-{len(sink.keys)}")
def test_what_is_not_promised_cannot_be_asked_for(sink: Sink) -> None:
    asking = replace(sink, guarantee=Guarantee.EXACTLY_ONCE)
    context = Context(pipeline := Pipeline("p", Source(topics=("t",)), sinks=(asking,)), unplaced(pipeline))
    refused = [fault.message for fault in faults_of(context) if fault.code is FaultCode.GUARANTEE_IMPOSSIBLE]
    if promise_of(sink).guarantee is Guarantee.EXACTLY_ONCE:
        assert refused == []
    else:
        assert refused == [not_exactly_once(promise_of(sink).why)]


def test_every_format_is_looked_at() -> None:
    assert {sink.format for sink in SINKS} == set(sink_table.SINKS)
