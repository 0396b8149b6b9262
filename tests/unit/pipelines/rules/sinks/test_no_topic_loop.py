"""A pipeline that would read what it writes is refused, also where only a run knows the names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytubemq.pipelines.file.model import Pipeline, Sink, Source
from pytubemq.pipelines.file.source_positions import unplaced
from pytubemq.pipelines.rules.rule import Compiled, Context, Need
from pytubemq.pipelines.rules.sinks import no_topic_loop

PATTERN = Source(master="h:8715", topic_pattern="orders.*")


def faults(pipeline: Pipeline, sink: Sink, compiled: Any = None) -> list[str]:
    given = replace(pipeline, sinks=(sink,))
    sees = Need.FILE | Need.VALUES | (Need.SESSION if compiled else Need.NOTHING)
    return [fault.message for fault in no_topic_loop.check(Context(given, unplaced(given), sees, compiled=compiled))]


def to(topic: str | None, master: str | None = None, **options: str) -> Sink:
    return Sink("out", "tubemq", topic=topic, master=master, options=options)


@pytest.mark.parametrize(
    ("source", "sink", "why"),
    [
        (Source(master="h", topics=("a", "b")), to("b", "H:8715"), "is the topic that is read"),
        (Source(master="h", topics=("${env:READ}",)), to("orders_x"), "is the topic that is read"),
        (
            Source(master="h", options={"Topic": "a, b"}),
            Sink("out", "tubemq", options={"topic": "b"}),
            "is the topic that is read",
        ),
        (PATTERN, to("orders_copy"), "matches source.topic_pattern"),
        (PATTERN, to("${env:READ}"), "orders_x matches source.topic_pattern"),
        (PATTERN, to("orders_copy", "${env:MASTERS}"), "matches source.topic_pattern"),
        (Source(options={"topicpattern": ".*", "MASTER": "h"}), to("t", "h"), "matches source.topic_pattern"),
    ],
)
def test_a_sink_into_a_topic_that_is_read_does_not_begin(
    source: Source, sink: Sink, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("READ", "orders_x")
    monkeypatch.setenv("MASTERS", "k:8715,H:8715")
    told = faults(Pipeline("p", source), sink)
    assert told == [f"{why}: its rows would be read and written again without end"]


def test_another_topic_another_cluster_and_another_source_are_none() -> None:
    for source, sink in (
        (PATTERN, to("paid_orders")),
        (PATTERN, to("orders_copy", "k:8715")),
        (PATTERN, Sink("out", "kafka", topic="orders_copy")),
        (Source(format="parquet", path="/in"), to("orders_copy", "h:8715")),
    ):
        assert faults(Pipeline("p", source), sink) == []


def test_rows_that_go_to_the_topic_which_they_came_from_need_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(no_topic_loop, "keeps_topic", lambda rows, source: rows is source)
    source: Any = object()
    kept, made = (Compiled(source, source=source, streams={"input": rows}) for rows in (source, object()))  # type: ignore[dict-item]
    pipeline = Pipeline("p", PATTERN)
    [said] = faults(pipeline, to(None), kept)
    assert "the one that they were read from" in said
    assert faults(pipeline, to(None), made) == []
    assert faults(pipeline, to(None)) == []
    assert faults(pipeline, to(None, "mirror:8715"), kept) == []
    assert faults(replace(pipeline, source=replace(PATTERN, topic_pattern="x")), to("orders"), kept) == []
