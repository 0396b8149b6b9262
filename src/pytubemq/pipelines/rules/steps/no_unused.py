"""Steps and tables: each is read by a later step or a sink."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.pipelines.analysis.sql_names import names_read
from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.file.model import INPUT
from pytubemq.pipelines.frames.steps import input_of
from pytubemq.pipelines.rules.rule import Need, rule

if TYPE_CHECKING:
    from pytubemq.pipelines.file.model import Pipeline
    from pytubemq.pipelines.rules.rule import Context, Faults


@rule(Need.FILE)
def check(context: Context) -> Faults:
    """Report tables and steps that nothing reads."""
    used = _used(context.pipeline)
    tables = [table.name for table in context.pipeline.tables]
    steps = [step.name for step in context.pipeline.steps]
    for kind, names in (("tables", tables), ("steps", steps)):
        for index, name in enumerate(names):
            if name.lower() not in used:
                yield context.fault(FaultCode.UNUSED, f"{kind}[{index}]", "nothing reads it")


def _used(pipeline: Pipeline) -> set[str]:
    used = {input_of(pipeline, sink.input).lower() for sink in pipeline.sinks}
    before = INPUT
    for step in pipeline.steps:
        used |= {read.name.lower() for read in names_read(step.sql or "")}
        used |= {before} if step.python is not None else set()
        before = step.name.lower()
    return used
