"""Sinks of format tubemq for which nothing names Masters."""

from __future__ import annotations

from dataclasses import replace

from pytubemq.pipelines.file.model import DeadLetter, Pipeline, Sink, Source
from pytubemq.pipelines.file.source_positions import unplaced
from pytubemq.pipelines.rules.rule import Context, Need
from pytubemq.pipelines.rules.sinks import named_masters

PIPELINE = Pipeline(
    "p",
    Source(format="parquet", path="/in"),
    sinks=(Sink("out", "tubemq", topic="t"), Sink("shown", "console")),
    dead_letter=DeadLetter("tubemq", topic="rejected", master="127.0.0.1:8715"),
)


def faults(pipeline: Pipeline) -> list[str]:
    return [fault.text for fault in named_masters.check(Context(pipeline, unplaced(pipeline), Need.CLUSTER))]


def test_a_sink_without_masters_is_refused_unless_the_source_names_them() -> None:
    assert faults(PIPELINE) == ["sinks.out: of format tubemq needs the key master, add master: host:8715"]
    assert faults(replace(PIPELINE, source=Source(topics=("t",), master="127.0.0.1:8715"))) == []


def test_dead_letters_need_them_too() -> None:
    [found] = faults(replace(PIPELINE, sinks=(), dead_letter=DeadLetter("tubemq", topic="rejected")))
    assert found.startswith("dead_letter: of format tubemq needs the key master")
