"""Names of steps, tables and sinks: each once, and each that is read is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.model.suggest import suggest
from pytubemq.pipelines.analysis.sql_names import names_read
from pytubemq.pipelines.file.faults import FaultCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.pipelines.file.faults import Fault
    from pytubemq.pipelines.file.model import Pipeline, Step
    from pytubemq.pipelines.file.places import Places

INPUT: Final = "input"
"""The name by which steps read what the source and `decode` give."""
DEAD_LETTER: Final = "dead_letter"
"""The name by which tests expect dead letters."""


def check(pipeline: Pipeline, places: Places) -> Iterator[Fault]:
    """Faults of names; the rules are Spark's: case does not tell two names apart."""
    yield from _twice(pipeline, places)
    used: set[str] = set()
    yield from _steps(pipeline, places, used)
    yield from _inputs(pipeline, places, used)
    yield from _unused(pipeline, places, used)
    yield from _tests(pipeline, places)


def _twice(pipeline: Pipeline, places: Places) -> Iterator[Fault]:
    seen: dict[str, str] = {INPUT: "the source's rows"}
    views = [("tables", table.name) for table in pipeline.tables] + [("steps", step.name) for step in pipeline.steps]
    counts = {"tables": 0, "steps": 0}
    for kind, name in views:
        path = f"{kind}[{counts[kind]}]"
        counts[kind] += 1
        if name.lower() in seen:
            yield places.fault(FaultCode.DUPLICATE_NAME, f"{path}.name", f"{name} is {seen[name.lower()]} already")
        if kind == "steps" and name.lower() == DEAD_LETTER:
            yield places.fault(FaultCode.DUPLICATE_NAME, f"{path}.name", f"{name} is the name of the dead letters")
        seen.setdefault(name.lower(), f"the name of {places.shown(path)}")
    sinks: dict[str, int] = {}
    for index, sink in enumerate(pipeline.sinks):
        path = f"sinks[{index}].name"
        if sink.name.lower() == DEAD_LETTER:
            yield places.fault(FaultCode.DUPLICATE_NAME, path, f"{sink.name} is the name of the dead letters")
        if sink.name.lower() in sinks:
            yield places.fault(FaultCode.DUPLICATE_NAME, path, f"{sink.name} is the name of another sink already")
        sinks.setdefault(sink.name.lower(), index)


def _steps(pipeline: Pipeline, places: Places, used: set[str]) -> Iterator[Fault]:
    tables = {table.name.lower() for table in pipeline.tables}
    all_steps = {step.name.lower() for step in pipeline.steps}
    known = {INPUT} | tables
    before = INPUT
    for index, step in enumerate(pipeline.steps):
        path = f"steps[{index}]"
        if (step.sql is None) == (step.python is None):
            text = "needs sql or python" if step.sql is None else "has sql and python"
            code = FaultCode.MISSING_KEY if step.sql is None else FaultCode.CONTRADICTION
            yield places.fault(code, path, text, "one of the two")
        if step.python is not None:
            used.add(before)
        yield from _reads(step, path, places, known, all_steps, used)
        before = step.name.lower()
        known.add(before)


def _reads(
    step: Step, path: str, places: Places, known: set[str], steps: set[str], used: set[str]
) -> Iterator[Fault]:  # fmt: skip
    for name, line, column in names_read(step.sql or ""):
        lower = name.lower()
        used.add(lower)
        if lower in known:
            continue
        if lower == step.name.lower():
            text = "reads itself"
        elif lower in steps:
            text = f"reads {name}, which is a later step"
        else:
            text = f"reads {name}, which is not there"
        close = suggest(lower, known)
        hint = f'did you mean "{close}"?' if close else f"there is {', '.join(sorted(known))}"
        at = places.inside(f"{path}.sql", line, column)
        yield places.fault(FaultCode.UNKNOWN_NAME, f"{path}.sql", text, hint, at=at)


def _inputs(pipeline: Pipeline, places: Places, used: set[str]) -> Iterator[Fault]:
    if not pipeline.sinks:
        yield places.fault(FaultCode.MISSING_KEY, "sinks", "needs at least one sink")
    known = [INPUT, *(step.name.lower() for step in pipeline.steps)]
    for index, sink in enumerate(pipeline.sinks):
        wanted = known[-1] if sink.input is None else sink.input.lower()
        used.add(wanted)
        if wanted not in known:
            close = suggest(wanted, known)
            hint = f'did you mean "{close}"?' if close else f"there is {', '.join(known)}"
            yield places.fault(
                FaultCode.UNKNOWN_INPUT, f"sinks[{index}].input", f"no step is called {sink.input}", hint
            )


def _unused(pipeline: Pipeline, places: Places, used: set[str]) -> Iterator[Fault]:
    tables = [table.name for table in pipeline.tables]
    steps = [step.name for step in pipeline.steps]
    for kind, named in (("tables", tables), ("steps", steps)):
        for index, name in enumerate(named):
            if name.lower() not in used:
                yield places.fault(FaultCode.UNUSED, f"{kind}[{index}]", "nothing reads it")


def _tests(pipeline: Pipeline, places: Places) -> Iterator[Fault]:
    sinks = [*(sink.name for sink in pipeline.sinks), DEAD_LETTER]
    for index, case in enumerate(pipeline.tests):
        for name in case.expect:
            if name not in sinks:
                close = suggest(name, sinks)
                hint = f'did you mean "{close}"?' if close else f"there is {', '.join(sinks)}"
                path = f"tests[{index}].expect.{name}"
                yield places.fault(FaultCode.BAD_TEST, path, "no sink has this name", hint, at_key=True)
        if pipeline.source.format == "tubemq":
            yield from _messages(index, pipeline, places)


MESSAGE_KEYS: Final = (
    "body", "attributes", "msgType", "msgTime", "topic", "brokerId", "partition", "offset", "timestamp", "messageId",
)  # fmt: skip


def _messages(index: int, pipeline: Pipeline, places: Places) -> Iterator[Fault]:
    for row, message in enumerate(pipeline.tests[index].given):
        path = f"tests[{index}].given[{row}]"
        for name in message:
            if name not in MESSAGE_KEYS:
                close = suggest(name, MESSAGE_KEYS)
                hint = f'did you mean "{close}"?' if close else f"there is {', '.join(MESSAGE_KEYS)}"
                yield places.fault(FaultCode.BAD_TEST, f"{path}.{name}", "a message has no such key", hint, at_key=True)
        if "body" not in message:
            yield places.fault(FaultCode.BAD_TEST, path, "a message needs a body")
