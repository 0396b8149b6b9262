"""Inputs of the sinks: there is a sink, and each takes the rows of a step that is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.file.model import INPUT
from pytubemq.pipelines.frames.steps import input_of
from pytubemq.pipelines.rules.hints import one_of
from pytubemq.pipelines.rules.rule import Need, rule

if TYPE_CHECKING:
    from pytubemq.pipelines.rules.rule import Context, Faults


@rule(Need.FILE)
def check(context: Context) -> Faults:
    """Report a pipeline without sinks, and sinks without rows."""
    pipeline = context.pipeline
    if not pipeline.sinks:
        yield context.fault(FaultCode.MISSING_KEY, "sinks", "needs at least one sink", "as console")
    known = [INPUT, *(step.name.lower() for step in pipeline.steps)]
    for index, sink in enumerate(pipeline.sinks):
        wanted = input_of(pipeline, sink.input).lower()
        if wanted not in known:
            text = f"no step is called {sink.input}"
            yield context.fault(FaultCode.UNKNOWN_INPUT, f"sinks[{index}].input", text, one_of(wanted, known))
