"""The table of rules: each rule is in it, and is asked when it sees something new."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import pytubemq.pipelines.rules
from pytubemq.errors import TransportError
from pytubemq.pipelines import PipelineFileError
from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.file.model import Pipeline, Sink, Source
from pytubemq.pipelines.file.source_positions import unplaced
from pytubemq.pipelines.rules import registry
from pytubemq.pipelines.rules.registry import BEFORE_SPARK, EVERYTHING, RULES, faults_of, refuse
from pytubemq.pipelines.rules.rule import Context, Need, Rule, rule

if TYPE_CHECKING:
    from pytubemq.pipelines.rules.rule import Faults

ROOM = Path(pytubemq.pipelines.rules.__path__[0])
PIPELINE = Pipeline("p", Source(topics=("t",)), sinks=(Sink("out", "console"),))


def context(sees: Need = Need.FILE) -> Context:
    return Context(PIPELINE, unplaced(PIPELINE), sees)


def table(monkeypatch: pytest.MonkeyPatch, *rules: Rule) -> None:
    monkeypatch.setattr(registry, "RULES", rules)


@rule(Need.FILE, sharper=Need.SESSION)
def warning(context: Context) -> Faults:
    yield context.fault(FaultCode.UNUSED, "steps[0]", "nothing reads it")


@rule(Need.VALUES)
def errors(context: Context) -> Faults:
    yield context.fault(FaultCode.CONTRADICTION, "sinks[0].path", "is one")
    yield context.fault(FaultCode.CONTRADICTION, "sinks[0].table", "is another")


@rule(Need.CLUSTER)
def away(context: Context) -> Faults:
    cause = TransportError("nobody answers")
    yield context.fault(FaultCode.CLUSTER_AWAY, "source.master", cause.message, cause=cause)


@rule(Need.CLUSTER)
def never(context: Context) -> Faults:
    raise AssertionError("it was asked")


def test_each_file_of_a_topic_is_a_rule_of_the_table_and_nothing_else_is() -> None:
    files = [path for path in ROOM.glob("*/*.py") if path.name != "__init__.py"]
    names = [".".join(path.relative_to(ROOM).with_suffix("").parts) for path in files]
    found = [import_module(f"pytubemq.pipelines.rules.{name}").check for name in names]
    assert {id(one) for one in found} == {id(one) for one in RULES}
    assert len(RULES) == len(files)


def test_what_needs_less_is_asked_before_what_needs_more() -> None:
    def rank(one: Rule) -> int:
        return 2 if Need.SESSION in one.needs else 1 if one.needs & (Need.PROGRESS | Need.CLUSTER) else 0

    asked = [rank(one) for one in RULES if one.needs != Need.FILE or not one.sharper & Need.CLUSTER]
    assert asked == sorted(asked)


def test_a_rule_is_asked_where_it_can_see_and_again_only_where_it_sees_more(monkeypatch: pytest.MonkeyPatch) -> None:
    table(monkeypatch, warning, errors)

    def asked(sees: Need, already: Need = Need.NOTHING) -> list[str]:
        return [fault.code.name for fault in faults_of(context(sees), already=already)]

    assert asked(Need.FILE) == ["UNUSED"]
    assert asked(BEFORE_SPARK) == ["UNUSED", "CONTRADICTION", "CONTRADICTION"]
    assert asked(BEFORE_SPARK, Need.FILE) == ["CONTRADICTION", "CONTRADICTION"]
    assert asked(EVERYTHING, BEFORE_SPARK) == ["UNUSED"]
    assert asked(EVERYTHING, EVERYTHING) == []


def test_the_first_rule_that_finds_errors_refuses_with_all_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    table(monkeypatch, warning, errors, away)
    refuse(context())  # a warning refuses nothing
    with pytest.raises(PipelineFileError) as found:
        refuse(context(BEFORE_SPARK))
    assert found.value.message == "sinks.out.path: is one [P020] (and 1 more)"
    assert found.value.hint == "also sinks.out.table: is another"


def test_a_cluster_that_is_away_is_told_as_the_connection_says_it_and_asked_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table(monkeypatch, away, never, warning)
    assert [fault.code for fault in faults_of(context(BEFORE_SPARK))] == [FaultCode.CLUSTER_AWAY, FaultCode.UNUSED]
    with pytest.raises(TransportError, match="nobody answers"):
        refuse(context(BEFORE_SPARK))
