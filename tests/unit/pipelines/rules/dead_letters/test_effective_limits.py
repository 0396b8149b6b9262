"""Limits of the dead letters that do not hold back every sink."""

from __future__ import annotations

from typing import Any

from pytubemq.pipelines.file.model import DeadLetter, Decode, Pipeline, Sink, Source, Step
from pytubemq.pipelines.file.source_positions import unplaced
from pytubemq.pipelines.rules.registry import BEFORE_SPARK, refuse
from pytubemq.pipelines.rules.rule import Compiled, Context, Need

PIPELINE = Pipeline(
    "orders",
    Source(master="h:8715", topics=("orders",)),
    decode=Decode("json", schema="id BIGINT"),
    steps=(Step("summed", python="steps:summed"),),
    sinks=(Sink("lake", "delta", path="/lake"), Sink("all", "delta", path="/all", input="INPUT")),
    dead_letter=DeadLetter(path="/rejected", max_ratio=0.1),
    state="/state",
)


def warned(sees: Need, *stateful: str, already: Need = Need.NOTHING) -> list[str]:
    session: Any = None
    told: list[str] = []
    compiled = Compiled(session, stateful=frozenset(stateful)) if Need.SESSION in sees else None
    context = Context(PIPELINE, unplaced(PIPELINE), sees, compiled=compiled)
    refuse(context, already=already, warn=lambda fault: told.append(f"{fault.code.value} {fault.text}"))
    return told


def test_a_sink_is_named_once_spark_has_told_that_its_step_keeps_state() -> None:
    seen = Need.FILE | Need.SESSION
    assert warned(Need.FILE) == []
    assert warned(seen, already=BEFORE_SPARK) == []
    assert warned(seen, "summed", already=BEFORE_SPARK) == [
        "P209 dead_letter.max_ratio: does not hold back lake, which reads the source separately, "
        "on_error: fail applies to all"
    ]
