"""Names that two things would share, or that are none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytubemq.pipelines.file.model import Pipeline, Sink, Source, Step, Table
from pytubemq.pipelines.file.source_positions import unplaced
from pytubemq.pipelines.rules.rule import Context
from pytubemq.pipelines.rules.steps import unique_names

if TYPE_CHECKING:
    from pytubemq.pipelines.file.faults import Fault


def faults(pipeline: Pipeline) -> list[Fault]:
    return list(unique_names.check(Context(pipeline, unplaced(pipeline))))


CONSOLE = Sink("out", "console")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"sinks": (CONSOLE, Sink("OUT", "parquet"))}, "sinks.OUT.name: OUT is the name of another sink already"),
        ({"sinks": (Sink("dead_letter", "console"),)}, "dead_letter is the name of the dead letters already"),
        ({"steps": (Step("dead_letter", sql="SELECT 1"),)}, "dead_letter is the name of the dead letters already"),
        ({"steps": (Step("Input", sql="SELECT 1"),)}, "Input is the source's rows already"),
        ({"steps": (Step("a:b", sql="SELECT 1"),)}, "'a:b' cannot be the name of a step"),
        ({"sinks": (Sink("../x", "console"),)}, "'../x' cannot be the name of a sink"),
        ({"steps": (Step("a"), Step("b"), Step("A"))}, "steps.A.name: A is the name of a step already"),
        ({"tables": (Table("a", "csv"),), "steps": (Step("a"),)}, "steps.a.name: a is the name of a table already"),
    ],
)
def test_a_name_that_two_things_would_share_is_refused_for_pipelines_made_in_python(
    wrong: dict[str, Any], said: str
) -> None:
    [fault] = faults(Pipeline("p", Source(), **wrong))
    assert said in fault.text


def test_a_sink_may_have_the_name_of_its_step() -> None:
    sinks = (Sink("a", "console"), CONSOLE)
    assert faults(Pipeline("p", Source(), steps=(Step("a"),), sinks=sinks)) == []
