"""The topics of a pipeline, looked for before Spark starts; the cluster played here."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

import pytubemq.sync
from pytubemq.errors import Code, ExitCode, RefusedError, TransportError
from pytubemq.pipelines import load_checked
from pytubemq.pipelines.file.model import DeadLetter, Pipeline, Sink, Source
from pytubemq.pipelines.file.source_positions import unplaced
from pytubemq.pipelines.rules.rule import Context, Need
from pytubemq.pipelines.rules.source import known_topics
from pytubemq.pipelines.rules.source.known_topics import topics_named
from pytubemq.pipelines.state.directory import StateDirectory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SEES = Need.FILE | Need.VALUES | Need.CLUSTER
LETTERS = DeadLetter(format="tubemq", topic="bad")


class Tube:
    """A cluster, by the topics that it has."""

    def __init__(self, *names: str, tells_names: bool = True) -> None:
        self.names = names
        self.tells_names = tells_names

    def partitions_of(self, topics: list[str]) -> dict[str, list[object]]:
        return {name: [] for name in topics if name in self.names}

    def topics(self) -> list[str]:
        if not self.tells_names:
            raise RefusedError("a Java Master")
        return list(self.names)


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch) -> dict[str, Tube]:
    there: dict[str, Tube] = {}

    @contextmanager
    def connect(masters: Any, **more: object) -> Iterator[Tube]:
        if str(masters) not in there:
            raise TransportError("nobody answers")
        yield there[str(masters)]

    monkeypatch.setattr(pytubemq.sync, "connect", connect)
    return there


def missing(pipeline: Pipeline, state: StateDirectory | None = None) -> list[Any]:
    """What a run raises for each topic that is not there."""
    context = Context(pipeline, unplaced(pipeline), SEES, state=state)
    return [fault.cause for fault in known_topics.check(context)]


def copying(topic: str, **more: Any) -> Pipeline:
    sink = Sink("copied", "tubemq", topic="copy", master=more.pop("sink_master", None))
    return Pipeline("p", Source(master="a:1", topics=(topic,)), sinks=(sink,), **more)


def test_a_topic_that_is_not_there_is_told_with_its_key_and_the_nearest_one(
    clusters: dict[str, Tube], tmp_path: Path
) -> None:
    clusters["a:1"] = Tube("orders", "copy", "demo")
    assert missing(copying("orders")) == []
    [found] = missing(copying("ordres"))
    assert found.message.startswith("source.topic: topic 'ordres' does not exist")
    assert found.hint == "did you mean orders? Else create it with  pytubemq topic create ordres"
    assert (found.exit_code, found.code) == (ExitCode.NOT_FOUND, Code.TOPIC_NOT_DEPLOYED)
    state = StateDirectory(str(tmp_path))
    assert len(missing(copying("ordres"), state)) == 1
    (tmp_path / "ledger").mkdir()
    assert missing(copying("ordres"), state) == []  # a topic that was read is waited for
    clusters["a:1"] = Tube("orders", "cpoy", tells_names=False)
    [found] = missing(copying("orders"))
    assert found.message.startswith("sinks.copied.topic: topic 'copy'")
    assert found.hint == "create it with  pytubemq topic create copy"


def test_each_topic_is_looked_for_in_its_own_cluster_and_one_that_is_away_refuses_nothing(
    clusters: dict[str, Tube],
) -> None:
    assert missing(copying("orders")) == []
    clusters["b:2"] = Tube("bad", "copy")
    assert missing(copying("orders", sink_master="b:2")) == []
    clusters["a:1"] = Tube("orders")
    [found] = missing(copying("orders", sink_master="b:2", dead_letter=LETTERS))
    assert found.message.startswith("dead_letter.topic: topic 'bad'")
    [found] = missing(copying("orders"))
    assert found.message.startswith("sinks.copied.topic")


@pytest.mark.parametrize(
    ("source", "place"),
    [("topic: ordres", "4:10"), ("topics: [ordres]", "4:12"), ("topics: [orders, ordres]", "4:20")],
)
def test_topics_that_are_not_there_are_told_with_line_and_column(
    clusters: dict[str, Tube], tmp_path: Path, source: str, place: str
) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(
        f"name: p\nsource:\n  master: a:1\n  {source}\nsinks:\n  - {{name: out, format: console}}\n"
        "  - {name: copied, format: tubemq, topic: cpoy}\ndead_letter: {format: tubemq, topic: bda}\n"
        "decode: {format: json, schema: id INT}\n"
    )
    clusters["a:1"] = Tube("orders", "copy", "bad")
    loaded = load_checked(file)
    told = missing(loaded.require())
    for error in told:
        error.put(loaded.places)
    rest = "does not exist"
    key = "source.topics[1]" if "," in source else "source.topic"
    assert [error.message for error in told] == [
        f"{file}:{place} {key}: topic 'ordres' {rest}",
        f"{file}:7:43 sinks.copied.topic: topic 'cpoy' {rest}",
        f"{file}:8:38 dead_letter.topic: topic 'bda' {rest}",
    ]


def test_what_else_is_wrong_is_left_to_those_who_say_it_better() -> None:
    wrong = copying("orders", sink_master="http://b")
    assert [named.key for named in topics_named(wrong)] == ["source.topic"]
    assert topics_named(Pipeline("p", Source(topics=("t",), options={"topik": "x"}))) == []
    assert topics_named(Pipeline("p", Source(format="rate"))) == []
