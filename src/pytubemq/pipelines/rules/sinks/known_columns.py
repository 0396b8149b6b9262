"""Columns that a sink names: its rows have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.frames.steps import input_of
from pytubemq.pipelines.rules.rule import Need, rule
from pytubemq.pipelines.sinks.columns import lacking, no_column

if TYPE_CHECKING:
    from pytubemq.pipelines.rules.rule import Context, Faults


@rule(Need.SESSION)
def check(context: Context) -> Faults:
    """Report `partition_by` and `keys` that no row has."""
    assert context.compiled is not None
    for index, sink in enumerate(context.pipeline.sinks):
        schema = context.compiled.schemas.get(input_of(context.pipeline, sink.input))
        if schema is None:
            continue
        columns = schema.names
        named = {f"partition_by[{at}]": name for at, name in enumerate(sink.partition_by)}
        named |= {f"keys[{at}]": name for at, name in enumerate(sink.keys)}
        for key, name in named.items():
            if lacking([name], columns):
                yield context.fault(FaultCode.SINK_NOT_READY, f"sinks[{index}].{key}", *no_column(name, columns))
