"""Steps that make other rows when a batch is done again, before sinks that tell rows by their number."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from pytubemq.pipelines.analysis.sql_names import names_read, words_of
from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.file.sink_table import sink_kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.pipelines.file.faults import Fault
    from pytubemq.pipelines.file.model import Pipeline, Sink, Step
    from pytubemq.pipelines.file.places import Places

_CLOCKS: Final = frozenset({"current_timestamp", "current_date", "current_time", "localtimestamp"})
"""Also without parentheses."""
_CLOCK_CALLS: Final = frozenset({"now", "curdate"})
_RANDOM_CALLS: Final = frozenset({"rand", "random", "randn", "randstr", "uniform", "uuid", "shuffle"})


def check(pipeline: Pipeline, places: Places) -> Iterator[Fault]:
    """A warning for each step before such a sink: a query's words may mislead, the run asks Spark."""
    by_name = {step.name.lower(): index for index, step in enumerate(pipeline.steps)}
    told: set[int] = set()
    numbered = [sink for sink in pipeline.sinks if sink_kind(sink.format).by_number(sink)]
    if not numbered:
        return
    from pytubemq.pipelines.plan.planned import keeps_state  # few files need it, and it this package's values

    for sink in numbered:
        before = _before(pipeline, sink, by_name)
        timed = any(keeps_state(pipeline.steps[index]) for index in before)  # Spark keeps the time of such a batch
        for index in sorted(before - told):
            word = _differs(pipeline.steps[index], clocks=not timed)
            if word is not None:
                told.add(index)
                text = (
                    f"{word} gives other rows when a batch is done again, and the sink {sink.name} takes rows by number"
                )
                hint = "take a time of the message, or give the sink idempotency_key"
                yield places.fault(FaultCode.ROWS_DIFFER, f"steps[{index}].sql", text, hint)


def _before(pipeline: Pipeline, sink: Sink, by_name: dict[str, int]) -> set[int]:
    """The steps whose rows come to the sink, by number."""
    last = pipeline.steps[-1].name if pipeline.steps else ""
    waiting = [by_name.get((sink.input or last).lower())]
    found: set[int] = set()
    while waiting:
        index = waiting.pop()
        if index is None or index in found:
            continue
        found.add(index)
        step = pipeline.steps[index]
        reads = {read.name.lower() for read in names_read(step.sql)} if step.sql is not None else {"input"}
        waiting += [by_name.get(name) for name in reads - {"input"}]
        if "input" in reads and index:
            waiting.append(index - 1)
    return found


def _differs(step: Step, *, clocks: bool) -> str | None:
    """The first word of the step's query that is a clock or makes something up."""
    for word, after in pairwise([*words_of(step.sql or ""), ""]):
        if clocks and (word in _CLOCKS or (word in _CLOCK_CALLS and after == "(")):
            return word
        if word in _RANDOM_CALLS and after == "(":
            return word
    return None
