"""The column of `audit.time`: one that holds a time. Rows that lack it are counted by the message's own time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.frames.audit import is_castable_to_time
from pytubemq.pipelines.rules.rule import Need, rule

if TYPE_CHECKING:
    from pytubemq.pipelines.rules.rule import Context, Faults


@rule(Need.SESSION)
def check(context: Context) -> Faults:
    """Report a column of another type."""
    audit, compiled = context.pipeline.audit, context.compiled
    if audit is None or compiled is None or compiled.source is None:
        return
    types = {field.name: field.dataType.simpleString() for field in compiled.source.schema}
    if audit.time in types and not is_castable_to_time(types[audit.time]):
        text = f"names the column {audit.time}, which is {types[audit.time]} and not a time"
        hint = "name a column of type TIMESTAMP, or one that can be cast to it"
        yield context.fault(FaultCode.BAD_VALUE, "audit.time", text, hint)
