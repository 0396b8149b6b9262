"""Limits of the dead letters: they hold back every sink, as no sink reads the source for itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.pipelines.analysis.step_state import surely_keep_state
from pytubemq.pipelines.events import MAIN
from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.frames.steps import input_of
from pytubemq.pipelines.rules.rule import Need, rule
from pytubemq.pipelines.state.fed_queries import query_of

if TYPE_CHECKING:
    from pytubemq.pipelines.rules.rule import Context, Faults


@rule(Need.FILE, sharper=Need.SESSION)
def check(context: Context) -> Faults:
    """Report limits that sinks behind steps with state, and those of layout log, do not heed."""
    pipeline = context.pipeline
    if pipeline.dead_letter is None:
        return
    stateful = set(surely_keep_state(pipeline))
    if context.compiled is not None:
        stateful |= context.compiled.stateful
    apart = []
    for sink in pipeline.sinks:
        step = input_of(pipeline, sink.input)
        if query_of(sink, step, stateful=step in stateful) != MAIN:
            apart.append(sink.name)
    for key in ("max_ratio", "max_rows"):
        if apart and getattr(pipeline.dead_letter, key) is not None:
            text = (
                f"does not hold back {', '.join(apart)}, which read{'s' if len(apart) == 1 else ''} the "
                "source separately"
            )
            yield context.fault(FaultCode.LIMIT_OF_MAIN, f"dead_letter.{key}", text, "on_error: fail applies to all")
