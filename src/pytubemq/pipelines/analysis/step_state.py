"""Steps that keep state, judged by their words; a run asks Spark."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from pytubemq.pipelines.analysis.sql_names import names_read, words_of
from pytubemq.pipelines.file.model import INPUT

if TYPE_CHECKING:
    from pytubemq.pipelines.file.model import Pipeline, Step

_AGGREGATES: Final = frozenset({"count", "sum", "avg", "min", "max"})


def keeps_state(step: Step) -> bool:
    """True if a step's words look at more than one row at a time; a run asks Spark instead."""
    if step.watermark is not None:
        return True
    return any(
        pair in {("group", "by"), ("select", "distinct")} or (pair[0] in _AGGREGATES and pair[1] == "(")
        for pair in pairwise(words_of(step.sql or ""))
    )


def surely_keep_state(pipeline: Pipeline) -> list[str]:
    """Return the steps whose words leave no doubt: they group rows of the stream alone, or read such a step."""
    streams = {INPUT}
    found: list[str] = []
    before = INPUT
    for step in pipeline.steps:
        reads = {read.name.lower() for read in names_read(step.sql)} if step.sql is not None else {before}
        words = set(pairwise(words_of(step.sql or "")))
        groups = bool(words & {("group", "by"), ("select", "distinct")}) and bool(reads) and reads <= streams
        if groups or reads & {name.lower() for name in found}:
            found.append(step.name)
        before = step.name.lower()
        streams.add(before)
    return found
