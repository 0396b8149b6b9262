"""Exactly once is refused where it is not possible: with Java Brokers to read from, or to write to."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import pytubemq.sync
from pytubemq.errors import ConfigError, TransportError
from pytubemq.net.iothread import IoThread
from pytubemq.pipelines.analysis.guarantees import SourceKind
from pytubemq.pipelines.check import dry_run
from pytubemq.pipelines.file.model import DeadLetter, Guarantee, Pipeline, Sink, Source
from pytubemq.pipelines.file.source_positions import Places, unplaced
from pytubemq.pipelines.rules.rule import Context, Need
from pytubemq.pipelines.rules.sinks import possible_guarantee
from pytubemq.pipelines.sinks.sink_factory import make_sink
from pytubemq.pipelines.sinks.tubemq.repeat_safety import repeating
from pytubemq.testing.mock_broker import MockBroker
from pytubemq.wire.protocol.extensions import Capability

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.pipelines.file.faults import Fault

LAKE = Sink("lake", "parquet", path="/lake", guarantee=Guarantee.EXACTLY_ONCE)
PIPELINE = Pipeline("p", Source(topics=("t",), master="h:8715"), sinks=(LAKE,))
SPARK: Any = None


def faults(pipeline: Pipeline, sees: Need = Need.FILE | Need.VALUES | Need.CLUSTER) -> list[Fault]:
    return list(possible_guarantee.check(Context(pipeline, unplaced(pipeline), sees)))


def test_a_sink_that_asks_for_exactly_once_is_refused_where_java_brokers_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(possible_guarantee, "finds_java", lambda pipeline: True)
    [refused] = faults(PIPELINE)
    assert refused.text.startswith("sinks.lake.guarantee: exactly_once is not possible with Java Brokers")
    assert "javaReads: flushed" in (refused.hint or "")
    assert faults(PIPELINE, Need.FILE) == []  # the file does not say whose Brokers they are
    flushed = replace(PIPELINE, source=replace(PIPELINE.source, options={"javaReads": "flushed"}))
    assert faults(flushed) == []


def test_a_cluster_that_does_not_say_what_its_brokers_are_is_no_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    away = TransportError("nobody answers")

    def ask(pipeline: Pipeline) -> bool:
        raise away

    monkeypatch.setattr(possible_guarantee, "finds_java", ask)
    assert [fault.cause for fault in faults(PIPELINE)] == [away]
    assert faults(replace(PIPELINE, sinks=(replace(LAKE, guarantee=None),))) == []


@pytest.mark.parametrize("format", ["tubemq", "rate"])
def test_of_all_other_sources_it_can_be_had(format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(possible_guarantee, "finds_java", lambda pipeline: False)
    assert faults(replace(PIPELINE, source=replace(PIPELINE.source, format=format))) == []


def test_a_dry_run_tells_the_weaker_of_source_and_sink(monkeypatch: pytest.MonkeyPatch) -> None:
    class Writer:
        guarantee = Guarantee.EXACTLY_ONCE

        def __init__(self, spec: Sink) -> None:
            self.spec = spec

        def check(self, spark: object, schema: object) -> None: ...

    monkeypatch.setattr(dry_run, "make_sink", Writer)
    run = dry_run._DryRun(SPARK, replace(PIPELINE, sinks=(replace(LAKE, guarantee=None),)), Places("p.yaml"), 1)
    run._kind = SourceKind.JAVA
    [told] = run.sinks()
    assert told.text == "parquet can be written, at least once"


@pytest.fixture
def java(monkeypatch: pytest.MonkeyPatch) -> Iterator[MockBroker]:
    """A Master and a Broker that can do what the original can."""
    io = IoThread()
    mock = MockBroker(topics={"demo": 1}, capabilities=Capability(0))
    io.run(mock.start())
    monkeypatch.setattr(pytubemq.sync, "connect", partial(pytubemq.sync.connect, request_timeout_s=1.0))
    yield mock
    io.run(mock.stop())
    io.close()


def test_a_topic_on_java_brokers_takes_no_promise_by_number(java: MockBroker) -> None:
    sink = Sink("out", "tubemq", topic="demo", master=java.masters)
    writer = make_sink(sink)
    promised = [writer.guarantee]
    writer.check(SPARK, None)
    assert [*promised, writer.guarantee] == [Guarantee.EXACTLY_ONCE, Guarantee.AT_LEAST_ONCE]
    asking = make_sink(replace(sink, guarantee=Guarantee.EXACTLY_ONCE))
    with pytest.raises(ConfigError, match="Broker 1 of topic demo is a Java Broker, which stores duplicates"):
        asking.check(SPARK, None)


def test_brokers_that_do_not_say_what_they_are_make_no_promise_by_number(java: MockBroker) -> None:
    routed = Sink("out", "tubemq", master=java.masters)
    writer = make_sink(routed)
    writer.check(SPARK, None)  # a Java Master does not tell the topics that rows may name
    assert writer.guarantee is Guarantee.AT_LEAST_ONCE
    away = DeadLetter("tubemq", topic="demo", master="127.0.0.1:1")
    by_key = replace(routed, name="by_key", topic="demo", idempotency_key="id")
    asked = Pipeline("p", Source(master=java.masters), sinks=(routed, by_key, LAKE), dead_letter=away)
    assert repeating(asked) == {"out", "dead_letter"}
