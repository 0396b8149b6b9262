"""A pipeline that would read what it writes is refused, also where only a run knows the names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytubemq.errors import ConfigError
from pytubemq.pipelines.file.model import Pipeline, Sink, Source
from pytubemq.pipelines.preflight.loops import check_loop

PATTERN = Source(master="h:8715", topic_pattern="orders.*")


def to(topic: str | None, master: str | None = None, **options: str) -> Sink:
    return Sink("out", "tubemq", topic=topic, master=master, options=options)


@pytest.mark.parametrize(
    ("source", "sink", "why"),
    [
        (Source(master="h", topics=("a", "b")), to("b", "H:8715"), "topic b is the topic that is read"),
        (Source(master="h", topics=("${env:READ}",)), to("orders_x"), "topic orders_x is the topic that is read"),
        (
            Source(master="h", options={"Topic": "a, b"}),
            Sink("out", "tubemq", options={"topic": "b"}),
            "topic b is the topic that is read",
        ),
        (PATTERN, to("orders_copy"), "topic orders_copy matches source.topic_pattern"),
        (PATTERN, to("${env:READ}"), "topic orders_x matches source.topic_pattern"),
        (PATTERN, to("orders_copy", "${env:MASTERS}"), "topic orders_copy matches source.topic_pattern"),
        (Source(options={"topicpattern": ".*", "MASTER": "h"}), to("t", "h"), "topic t matches source.topic_pattern"),
    ],
)
def test_a_sink_into_a_topic_that_is_read_does_not_begin(
    source: Source, sink: Sink, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("READ", "orders_x")
    monkeypatch.setenv("MASTERS", "k:8715,H:8715")
    with pytest.raises(ConfigError, match=f"sink out: {why}: what is written there would come again and again"):
        check_loop(Pipeline("p", source), sink)


def test_another_topic_another_cluster_and_another_source_are_none() -> None:
    for source, sink in (
        (PATTERN, to("paid_orders")),
        (PATTERN, to("orders_copy", "k:8715")),
        (PATTERN, Sink("out", "kafka", topic="orders_copy")),
        (Source(format="parquet", path="/in"), to("orders_copy", "h:8715")),
    ):
        check_loop(Pipeline("p", source), sink)


def test_rows_that_go_to_the_topic_which_they_came_from_need_another_one() -> None:
    pipeline = Pipeline("p", PATTERN)
    with pytest.raises(ConfigError, match="which is the one that they came from"):
        check_loop(pipeline, to(None), came_from=True)
    check_loop(pipeline, to(None))
    check_loop(pipeline, to(None, "mirror:8715"), came_from=True)
    check_loop(replace(pipeline, source=replace(PATTERN, topic_pattern="x")), to("orders"), came_from=True)
