"""Query that feeds a sink: the one that fed it so far, for another has not read what the sink has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.rules.rule import Need, rule
from pytubemq.pipelines.state.fed_queries import REMEDY, fed_before, moves

if TYPE_CHECKING:
    from pytubemq.pipelines.rules.rule import Context, Faults


@rule(Need.PROGRESS | Need.SESSION)
def check(context: Context) -> Faults:
    """Report a sink that another query fed."""
    assert context.state is not None
    assert context.compiled is not None
    paths = {sink.name: f"sinks[{index}]" for index, sink in enumerate(context.pipeline.sinks)}
    for sink, before, now in moves(fed_before(context.state), context.compiled.feeds):
        text = (
            f"the query {before} has written to it and now {now} would, which has its own progress: rows would be "
            "written twice, or not at all"
        )
        hint = f"{REMEDY}; or undo the change of the steps, or forget all progress with `pytubemq pipeline reset`"
        yield context.fault(FaultCode.OTHER_PROGRESS, paths.get(sink, sink), text, hint)
