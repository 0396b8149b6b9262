"""State directory of a pipeline with a sink that is exactly once: the file says where it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.pipelines.analysis.guarantees import promise_of
from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.file.model import Guarantee
from pytubemq.pipelines.rules.rule import Need, rule

if TYPE_CHECKING:
    from pytubemq.pipelines.rules.rule import Context, Faults


@rule(Need.FILE)
def check(context: Context) -> Faults:
    """Report a sink that is exactly once by progress whose place is not named."""
    pipeline = context.pipeline
    if pipeline.state is not None:
        return
    exact = [
        (sink.guarantee is None, index)  # where it is written comes first
        for index, sink in enumerate(pipeline.sinks)
        if (sink.guarantee or promise_of(sink).guarantee) is Guarantee.EXACTLY_ONCE
    ]
    if exact:
        by_default, index = min(exact)
        key = f"sinks[{index}]" if by_default else f"sinks[{index}].guarantee"
        text = f"{'is ' if by_default else ''}exactly_once without `state`"
        hint = f"progress is stored in {pipeline.state_or_default} beside the file"
        yield context.fault(FaultCode.DEFAULT_STATE, key, text, hint)
