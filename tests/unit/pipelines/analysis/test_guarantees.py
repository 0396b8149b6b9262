"""The table of guarantees: every sink has its row, and the weaker of source and sink counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytubemq.pipelines.analysis.guarantees import SOURCES, SourceKind, promise_of, source_kind
from pytubemq.pipelines.file.model import Guarantee, Pipeline, Sink, Source
from pytubemq.pipelines.file.sink_kind import Intake
from pytubemq.pipelines.file.sink_table import SINKS, sink_kind


@pytest.mark.parametrize("stateful", [False, True])
@pytest.mark.parametrize("sink_format", list(SINKS))
def test_every_sink_has_its_row(sink_format: str, stateful: bool) -> None:
    variants = [
        Sink("s", sink_format),
        Sink("s", sink_format, options={"idempotent": "false"}),
        Sink("s", sink_format, keys=("id",)),
        Sink("s", sink_format, idempotency_key="id"),
        Sink("s", sink_format, layout="log"),
    ]
    for sink in variants:
        kind = sink_kind(sink_format)
        assert kind.case(sink, Intake(row_by_row=not stateful)) in kind.promises
        assert promise_of(sink, stateful=stateful).why


def test_a_java_broker_makes_it_at_least_once_unless_only_what_is_on_disk_is_read() -> None:
    sink = Sink("lake", "parquet", path="/x")
    assert promise_of(sink, source=SourceKind.OURS).guarantee is Guarantee.EXACTLY_ONCE
    assert promise_of(sink, source=SourceKind.JAVA).guarantee is Guarantee.AT_LEAST_ONCE
    assert promise_of(sink, source=SourceKind.JAVA_FLUSHED).guarantee is Guarantee.EXACTLY_ONCE
    assert set(SOURCES) == set(SourceKind)


def test_rows_by_number_come_at_least_once_to_brokers_that_store_repeats_whatever_else_holds() -> None:
    topic = Sink("t", "tubemq", topic="t")
    for source in SourceKind:
        assert promise_of(topic, source=source, drops_repeats=False).guarantee is Guarantee.AT_LEAST_ONCE
    assert "dedup=true" in promise_of(topic, drops_repeats=False).why
    for other in (replace(topic, idempotency_key="id"), Sink("lake", "parquet", path="/x")):
        assert promise_of(other, drops_repeats=False) == promise_of(other)


def test_no_source_makes_more_of_a_sink_than_it_can() -> None:
    kafka = Sink("k", "kafka")
    assert {promise_of(kafka, source=kind).guarantee for kind in SourceKind} == {Guarantee.AT_LEAST_ONCE}


def test_the_kind_of_source_follows_from_format_brokers_and_option() -> None:
    topic = Pipeline("p", Source(topics=("t",)))
    flushed = Pipeline("p", Source(topics=("t",), options={"JAVAREADS": "flushed"}))
    files = Pipeline("p", Source(format="parquet", path="/x"))
    assert source_kind(topic, java=False) is SourceKind.OURS
    assert source_kind(topic, java=True) is SourceKind.JAVA
    assert source_kind(flushed, java=True) is SourceKind.JAVA_FLUSHED
    assert source_kind(files, java=False) is SourceKind.SPARK


def test_rows_of_spark_s_own_sources_are_put_in_order_before_they_are_numbered() -> None:
    topic = Sink("t", "tubemq", topic="t")
    assert "numbered by batch" in promise_of(topic).why
    assert "sorted" in promise_of(topic, source=SourceKind.SPARK).why
    assert "sorted" in promise_of(topic, stateful=True).why
    assert "Python functions" in promise_of(topic).needs
