"""Rows of sinks that know them by their number: they are the same when a batch is done again.

A query's words may mislead, so they warn; the plan that Spark makes of it refuses.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from pytubemq.pipelines.analysis.sql_names import names_read, words_of
from pytubemq.pipelines.analysis.step_state import keeps_state
from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.file.model import INPUT
from pytubemq.pipelines.file.sink_table import sink_kind
from pytubemq.pipelines.frames.steps import input_of
from pytubemq.pipelines.rules.rule import Need, rule
from pytubemq.pipelines.sinks.repeats import REMEDY, ROWS_DIFFER
from pytubemq.pipelines.sinks.rows import is_deterministic

if TYPE_CHECKING:
    from pytubemq.pipelines.file.model import Pipeline, Sink, Step
    from pytubemq.pipelines.rules.rule import Compiled, Context, Faults

_CLOCKS: Final = frozenset({"current_timestamp", "current_date", "current_time", "localtimestamp"})
"""Also without parentheses."""
_CLOCK_CALLS: Final = frozenset({"now", "curdate"})
_RANDOM_CALLS: Final = frozenset({"rand", "random", "randn", "randstr", "uniform", "uuid", "shuffle"})


@rule(Need.FILE, sharper=Need.SESSION)
def check(context: Context) -> Faults:
    """Report steps that make rows at random or by the clock, before such a sink."""
    sinks = context.pipeline.sinks
    numbered = {index: sink for index, sink in enumerate(sinks) if sink_kind(sink.format).by_number(sink)}
    if context.compiled is not None:
        yield from _by_plan(context, context.compiled, numbered)
    else:
        yield from _by_words(context, numbered)


def _by_plan(context: Context, compiled: Compiled, numbered: dict[int, Sink]) -> Faults:
    for index, sink in numbered.items():
        step = input_of(context.pipeline, sink.input)
        rows = compiled.streams.get(step)
        if rows is not None and not is_deterministic(rows, keeps_time=step in compiled.stateful):
            yield context.fault(FaultCode.GUARANTEE_IMPOSSIBLE, f"sinks[{index}]", ROWS_DIFFER, REMEDY)


def _by_words(context: Context, numbered: dict[int, Sink]) -> Faults:
    pipeline = context.pipeline
    reported: set[int] = set()
    for sink in numbered.values():
        before = _before(pipeline, sink)
        timed = any(keeps_state(pipeline.steps[index]) for index in before)  # Spark keeps the time of such a batch
        for index in sorted(before - reported):
            word = _differs(pipeline.steps[index], clocks=not timed)
            if word is not None:
                reported.add(index)
                text = f"{word} gives different rows when a batch is repeated, and the sink {sink.name} numbers rows"
                yield context.fault(FaultCode.ROWS_DIFFER, f"steps[{index}].sql", text, REMEDY)


def _before(pipeline: Pipeline, sink: Sink) -> set[int]:
    """Return the steps whose rows come to the sink, by number."""
    by_name = {step.name.lower(): index for index, step in enumerate(pipeline.steps)}
    waiting = [by_name.get(input_of(pipeline, sink.input).lower())]
    found: set[int] = set()
    while waiting:
        index = waiting.pop()
        if index is None or index in found:
            continue
        found.add(index)
        step = pipeline.steps[index]
        reads = {read.name.lower() for read in names_read(step.sql)} if step.sql is not None else {INPUT}
        waiting += [by_name.get(name) for name in reads - {INPUT}]
        if INPUT in reads and index:
            waiting.append(index - 1)
    return found


def _differs(step: Step, *, clocks: bool) -> str | None:
    """Return the first word of the step's query that reads a clock or is random."""
    for word, after in pairwise([*words_of(step.sql or ""), ""]):
        if clocks and (word in _CLOCKS or (word in _CLOCK_CALLS and after == "(")):
            return word
        if word in _RANDOM_CALLS and after == "(":
            return word
    return None
