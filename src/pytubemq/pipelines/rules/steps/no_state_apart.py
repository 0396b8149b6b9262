"""Steps that keep state, in a run over a part of a pipeline's rows: a backfill, a redrive of dead letters.

Such a run ends, and its state is thrown away; so it never has rows that wait in a state for later ones, as those of
the newest window do. The words of the steps show what leaves no doubt; Spark decides the rest when the run is begun.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.pipelines.analysis.step_state import surely_keep_state
from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.frames.steps import input_of
from pytubemq.pipelines.rules.rule import Need, rule

if TYPE_CHECKING:
    from pytubemq.pipelines.rules.rule import Context, Faults


@rule(Need.FILE, sharper=Need.SESSION)
def check(context: Context) -> Faults:
    """Report a step that keeps state, and whose rows a sink takes."""
    if context.apart is None:
        return
    pipeline, compiled = context.pipeline, context.compiled
    stateful = compiled.stateful if compiled is not None else surely_keep_state(pipeline)
    lower = {step.lower() for step in stateful}
    inputs = {sink.name: input_of(pipeline, sink.input).lower() for sink in pipeline.sinks}
    behind = ", ".join(name for name, step in inputs.items() if step in lower)
    others = ", ".join(name for name, step in inputs.items() if step not in lower)
    whole = "for those, run the file from `source.start` with another name and state, into other targets"
    hint = f"run a copy of the file without {behind}, with the same name and state, for {others}; {whole}"
    for index, step in enumerate(pipeline.steps):
        if step.name.lower() in lower & set(inputs.values()):
            text = (
                f"keeps state, which {context.apart} cannot: its newest windows would never be written, and "
                "others would "
                f"be added to those that sink {behind} has"
            )
            yield context.fault(
                FaultCode.NOT_APART, f"steps[{index}]", text, hint if others else whole.removeprefix("for those, ")
            )
