"""The clusters of a pipeline, tried before Spark starts; the connections played here."""

from __future__ import annotations

from typing import Any

import pytest

import pytubemq.sync
from pytubemq.errors import RemoteError, UnreachableError
from pytubemq.pipelines.file.model import DeadLetter, Pipeline, Sink, Source
from pytubemq.pipelines.file.source_positions import unplaced
from pytubemq.pipelines.rules.rule import Context, Need
from pytubemq.pipelines.rules.source import reachable_masters
from pytubemq.spark.source.read import source_connection


def away(pipeline: Pipeline) -> list[tuple[str, object]]:
    context = Context(pipeline, unplaced(pipeline), Need.FILE | Need.VALUES | Need.CLUSTER)
    return [(fault.key, fault.cause) for fault in reachable_masters.check(context)]


class Connections:
    """Who was asked, and what they say."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.open = 0
        self.wrong: dict[str, Exception] = {}

    def connect(self, masters: Any, **more: Any) -> Any:
        name = str(masters)
        self.asked.append(name)

        class Tube:
            def __enter__(tube) -> Any:
                if name in self.wrong:
                    raise self.wrong[name]
                self.open += 1
                return tube

            def close(tube) -> None:
                self.open -= 1

        return Tube()


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> Connections:
    there = Connections()
    monkeypatch.setattr(pytubemq.sync, "connect", there.connect)
    monkeypatch.setattr(source_connection, "FIRST_CONTACT_S", 0.0)
    return there


def test_each_cluster_is_tried_once_and_one_that_is_away_is_refused(connections: Connections) -> None:
    copied = Sink("copied", "tubemq", topic="copy", master="b:2")
    sinks = (copied, Sink("lake", "parquet"))
    letters = DeadLetter(format="tubemq", topic="bad", master="c:3,d:4")
    pipeline = Pipeline("p", Source(master="a:1"), sinks=sinks, dead_letter=letters)
    assert away(pipeline) == []
    assert (connections.asked, connections.open) == (["a:1", "b:2", "c:3,d:4"], 0)
    connections.wrong = {"b:2": RemoteError("it is a Broker")}
    assert away(pipeline) == []  # told by who asks it for more
    nobody = UnreachableError("no Master can be reached: c:3")
    connections.wrong = {"c:3,d:4": nobody}
    assert away(pipeline) == [("dead_letter.master", nobody)]


def test_only_clusters_that_are_read_or_written_are_tried(connections: Connections) -> None:
    assert away(Pipeline("p", Source(format="rate", master="a:1"), sinks=(Sink("o", "console"),))) == []
    assert away(Pipeline("p", Source(master="not an address:x"))) == []
    assert connections.asked == []
