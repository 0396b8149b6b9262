"""A sink into topics names one, or its rows do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pytubemq.pipelines.file.model import Pipeline, Sink, Source
from pytubemq.pipelines.file.source_positions import unplaced
from pytubemq.pipelines.rules.registry import faults_of
from pytubemq.pipelines.rules.rule import Compiled, Context, Need

KAFKA = {"kafka.bootstrap.servers": "h:9092"}


def found(sink: Sink, *columns: str) -> list[str]:
    session: Any = None
    schema: Any = SimpleNamespace(names=list(columns))
    pipeline = Pipeline("p", Source(master="h:8715", topics=("in",)), sinks=(sink,), state="/state")
    compiled = Compiled(session, {"input": schema})
    context = Context(pipeline, unplaced(pipeline), Need.FILE | Need.SESSION, compiled=compiled)
    return [f"{fault.code.value} {fault.text}" for fault in faults_of(context, already=Need.FILE)]


@pytest.mark.parametrize("sink", [Sink("out", "kafka", options=KAFKA), Sink("out", "tubemq")], ids=["kafka", "tubemq"])
def test_rows_without_a_topic_are_refused_where_the_sink_names_none(sink: Sink) -> None:
    assert found(sink, "id", "day") == [
        f"P024 sinks.out: of format {sink.format} needs the key topic, or rows with a column topic, "
        "add topic: NAME; the columns are id, day"
    ]
    assert found(sink, "id", "Topic") == []


def test_nothing_is_asked_of_rows_whose_sink_names_its_topic_or_has_none() -> None:
    assert found(Sink("out", "kafka", topic="t", options=KAFKA), "id") == []
    assert found(Sink("out", "console"), "id") == []
