"""Progress in the state directory: the pipeline's own, so that no other source is read on with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.rules.rule import Need, rule
from pytubemq.pipelines.state.progress import others_progress

if TYPE_CHECKING:
    from pytubemq.pipelines.rules.rule import Context, Faults


@rule(Need.VALUES | Need.PROGRESS)
def check(context: Context) -> Faults:
    """Report progress that was made with another source, or by another pipeline."""
    assert context.state is not None
    refused = others_progress(context.state, context.pipeline)
    if refused is not None:
        yield context.fault(FaultCode.OTHER_PROGRESS, "state", refused.message, refused.hint)
