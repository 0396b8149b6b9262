"""Spark's file sink (`layout: log`) in a run beside the pipeline's own, as a backfill: its batches would be skipped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.file.model import LOG
from pytubemq.pipelines.rules.rule import Need, rule

if TYPE_CHECKING:
    from pytubemq.pipelines.rules.rule import Context, Faults


@rule(Need.FILE)
def check(context: Context) -> Faults:
    """Report sinks of that layout, in such a run."""
    for index, sink in enumerate(context.pipeline.sinks):
        if context.apart is not None and sink.layout == LOG:
            text = (
                f"log cannot take rows of {context.apart}: Spark would skip its batches, or later ones of the pipeline"
            )
            hint = "use layout batches, or write the rows to another path with a pipeline file of their own"
            yield context.fault(FaultCode.NOT_APART, f"sinks[{index}].layout", text, hint)
