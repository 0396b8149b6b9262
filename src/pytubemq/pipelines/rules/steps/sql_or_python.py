"""Steps: each is SQL or Python, one of the two."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.rules.rule import Need, rule

if TYPE_CHECKING:
    from pytubemq.pipelines.rules.rule import Context, Faults


@rule(Need.FILE)
def check(context: Context) -> Faults:
    """Report steps that are neither or both."""
    for index, step in enumerate(context.pipeline.steps):
        if step.sql is None and step.python is None:
            text = "needs sql or python"
            yield context.fault(FaultCode.MISSING_KEY, f"steps[{index}]", text, "one of the two")
        elif step.sql is not None and step.python is not None:
            text = "has sql and python"
            yield context.fault(FaultCode.CONTRADICTION, f"steps[{index}]", text, "one of the two")
