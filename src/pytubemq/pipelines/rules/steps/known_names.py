"""Names that a step's query reads: `input`, an earlier step or a table of the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.pipelines.analysis.sql_names import names_read
from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.file.model import INPUT
from pytubemq.pipelines.rules.hints import one_of
from pytubemq.pipelines.rules.rule import Need, rule

if TYPE_CHECKING:
    from collections.abc import Collection

    from pytubemq.pipelines.file.model import Step
    from pytubemq.pipelines.rules.rule import Context, Faults


@rule(Need.FILE)
def check(context: Context) -> Faults:
    """Report names that are none of these."""
    pipeline = context.pipeline
    steps = {step.name.lower() for step in pipeline.steps}
    known = {INPUT, *(table.name.lower() for table in pipeline.tables)}
    for index, step in enumerate(pipeline.steps):
        yield from _unknown(context, step, f"steps[{index}].sql", known, steps)
        known.add(step.name.lower())


def _unknown(context: Context, step: Step, path: str, known: Collection[str], steps: Collection[str]) -> Faults:
    for name, line, column in names_read(step.sql or ""):
        if name.lower() in known:
            continue
        if name.lower() == step.name.lower():
            text = "reads itself"
        elif name.lower() in steps:
            text = f"reads {name}, which is a later step"
        else:
            text = f"reads {name}, which does not exist"
        at = context.places.inside(path, line, column)
        yield context.fault(FaultCode.UNKNOWN_NAME, path, text, one_of(name.lower(), sorted(known)), at=at)
