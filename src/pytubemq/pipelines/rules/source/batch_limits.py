"""Bounds of a batch: the least is no more than the most, and a wait is for something."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.rules.rule import Need, rule

if TYPE_CHECKING:
    from pytubemq.pipelines.rules.rule import Context, Faults


@rule(Need.FILE)
def check(context: Context) -> Faults:
    """Report bounds that exclude each other."""
    limit = context.pipeline.source.limit
    if context.pipeline.source.format != "tubemq":
        return
    if limit.max_delay_s is not None and limit.min_rows is None:
        text = "limits the wait for min_rows, which is not given"
        yield context.fault(FaultCode.CONTRADICTION, "source.limit.max_delay", text, "add min_rows", at_key=True)
    if limit.rows is not None and limit.min_rows is not None and limit.min_rows > limit.rows:
        text = f"{limit.min_rows} is more than a batch may hold, limit.rows {limit.rows}"
        yield context.fault(FaultCode.CONTRADICTION, "source.limit.min_rows", text)
