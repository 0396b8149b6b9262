"""A dry run refuses no sink that a run takes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq.errors import ConfigError
from pytubemq.pipelines.analysis.missing import MissingTopicError
from pytubemq.pipelines.check import dry_run
from pytubemq.pipelines.file.document import Mark
from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.file.model import (
    DeadLetter,
    Decode,
    Guarantee,
    OnError,
    Pipeline,
    Sink,
    Source,
    Step,
)
from pytubemq.pipelines.file.source_positions import KeyPlace, Places, unplaced
from pytubemq.pipelines.rules.rule import Need
from pytubemq.pipelines.spark_faults import TooManyRejectedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytubemq.pipelines.file.faults import Fault
    from pytubemq.pipelines.rules.rule import Context

WINDOWED = Pipeline(
    "p",
    Source(topics=("t",)),
    steps=(Step("counts", sql="SELECT at, count(*) AS n FROM input GROUP BY at"),),
    sinks=(Sink("out", "tubemq", topic="t2", master="h:8715"),),
)


class _Writer:
    guarantee = Guarantee.EXACTLY_ONCE
    spec = WINDOWED.sinks[0]

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check

    def check(self, spark: Any, schema: Any) -> None:
        self._check()


def _checks(monkeypatch: pytest.MonkeyPatch, check: Callable[[], None], *found: Fault) -> list[dry_run.Check]:
    monkeypatch.setattr(dry_run, "keeps_state", lambda rows: True)
    monkeypatch.setattr(dry_run, "open_source", lambda spark, pipeline: _Opened())
    monkeypatch.setattr(dry_run, "apply_steps", lambda rows, pipeline: {"input": rows, "counts": rows})
    monkeypatch.setattr(dry_run, "faults_of", lambda context, already: found)
    monkeypatch.setattr(dry_run, "make_sink", lambda sink: _Writer(check))
    run = dry_run._DryRun(None, WINDOWED, Places(str(Path("p.yaml"))), 1)  # type: ignore[arg-type]
    assert run._as_stream() == "counts keeps state"
    return list(run.sinks())


class _Opened:
    rows = None

    def accepted(self) -> None:
        return None


def test_rows_of_a_step_that_keeps_state_may_go_to_a_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = _checks(monkeypatch, lambda: None)
    assert (found.name, found.error, found.text) == ("sink out", None, "tubemq can be written, exactly once")


def test_rows_that_the_sink_would_refuse_in_a_batch_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    places = unplaced(WINDOWED)
    random = places.fault(FaultCode.GUARANTEE_IMPOSSIBLE, "sinks[0]", "its rows depend on random numbers")
    warned = places.fault(FaultCode.UNUSED, "sinks[0]", "nothing reads it")
    (found,) = _checks(monkeypatch, lambda: None, warned, random)
    assert found.error is not None
    assert found.error.message == "sinks.out: its rows depend on random numbers [P026]"


def test_what_the_sink_itself_refuses_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise ConfigError("no such topic", hint="make it")

    (found,) = _checks(monkeypatch, refuse)
    assert found.error is not None
    assert found.error.message == "no such topic"


def test_what_java_raises_in_one_part_is_told_of_that_part(monkeypatch: pytest.MonkeyPatch) -> None:
    from py4j.protocol import Py4JError

    def refuse() -> None:
        raise Py4JError("An error occurred while calling o60.table.\n: java.net.ConnectException: h:1 refused\n\tat x")

    (found,) = _checks(monkeypatch, refuse)
    assert found.error is not None
    assert found.error.message == "sink out: h:1 refused"


def test_topics_that_are_not_there_are_told_with_their_lines_before_anything_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gone = [
        MissingTopicError("source.topics[0]", "source.topic", "t", known=None),
        MissingTopicError("sinks[0].topic", "sinks.out.topic", "t2", known=None),
    ]
    places = unplaced(WINDOWED)
    places.file, places.by_path = "p.yaml", {"source.topic": KeyPlace(Mark(2, 3), Mark(2, 10))}
    found = [places.fault(FaultCode.TOPIC_MISSING, one.path, one.message, cause=one) for one in gone]
    state = places.fault(FaultCode.OTHER_PROGRESS, "state", "is another's")
    asked: list[Need] = []

    def faults_of(context: Context, already: Need) -> list[Fault]:
        asked.append(context.sees)
        return [] if Need.SESSION in context.sees else [*found, state]

    monkeypatch.setattr(dry_run, "faults_of", faults_of)
    run = dry_run._DryRun(None, WINDOWED, places, 1)  # type: ignore[arg-type]
    (source,) = run.source()
    (sink,) = run.sinks()
    (more,) = run.rest()
    assert [Need.SESSION in sees for sees in asked] == [False, True]
    assert (more.name, str(more.error)) == ("state", "p.yaml:1:1 state: is another's [P036]")
    rest = "does not exist, or no Broker serves it now"
    assert source.error is not None
    assert source.error.message == f"p.yaml:2:10 source.topic: topic 't' {rest}"
    assert sink.error is not None
    assert (sink.error.message, sink.error.exit_code) == (f"p.yaml:1:1 sinks.out.topic: topic 't2' {rest}", 3)


def test_so_many_messages_are_read_in_all_and_of_each_partition_what_it_has() -> None:
    assert dry_run.shares({"a": 100, "b": 0, "c": 1, "d": 100}, 10) == {"b": 0, "c": 1, "a": 5, "d": 4}
    assert dry_run.shares({"a": 3, "b": 2}, 10) == {"a": 3, "b": 2}
    assert dry_run.shares({}, 10) == {}


ERROR = {"reason": "decode.json", "detail": "not JSON: hello"}


def test_messages_of_which_none_can_be_decoded_are_a_fault_with_an_example() -> None:
    with pytest.raises(TooManyRejectedError) as found:
        dry_run.decoding_summary(orders(DeadLetter(max_ratio=0.01)), [ERROR] * 10)
    assert found.value.message == (
        "0 rows decoded, 10 rejected: decode.json 10; as: not JSON: hello; more than 1% of a batch end the run"
    )
    assert found.value.hint == "make `decode` fit the messages: pytubemq pipeline tap FILE rejected  shows them"
    with pytest.raises(TooManyRejectedError):
        dry_run.decoding_summary(orders(None), [ERROR])


def test_a_few_of_the_newest_messages_may_be_rejected_unless_the_file_lets_none() -> None:
    told = "1 row decoded, 1 rejected: decode.json 1; as: not JSON: hello"
    assert dry_run.decoding_summary(orders(None), [None, ERROR]) == told
    limited = dry_run.decoding_summary(orders(DeadLetter(max_ratio=0.4)), [None, ERROR])
    assert limited == f"{told}; more than 40% of a batch end the run"
    assert dry_run.decoding_summary(orders(DeadLetter(max_ratio=0.5)), [None, ERROR]) == told
    assert dry_run.decoding_summary(orders(None), [None, None]) == "2 rows decoded"
    with pytest.raises(TooManyRejectedError, match="with on_error: fail the first one ends the run"):
        dry_run.decoding_summary(orders(None, OnError.FAIL), [None, ERROR])


def orders(letters: DeadLetter | None, on_error: OnError = OnError.DEAD_LETTER) -> Pipeline:
    return Pipeline("p", Source(), decode=Decode("json", schema="id INT", on_error=on_error), dead_letter=letters)
