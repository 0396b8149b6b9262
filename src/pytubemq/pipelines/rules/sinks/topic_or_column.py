"""Topic of a sink whose format writes to topics: the file names it, or each row does in its column `topic`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.file.sink_table import sink_kind
from pytubemq.pipelines.frames.steps import input_of
from pytubemq.pipelines.rules.rule import Need, rule
from pytubemq.pipelines.sinks.columns import TOPIC, lacking

if TYPE_CHECKING:
    from pytubemq.pipelines.rules.rule import Context, Faults


@rule(Need.SESSION)
def check(context: Context) -> Faults:
    """Report sinks that name no topic and whose rows do not name one either."""
    assert context.compiled is not None
    for index, sink in enumerate(context.pipeline.sinks):
        schema = context.compiled.schemas.get(input_of(context.pipeline, sink.input))
        if schema is None or sink.topic or sink_kind(sink.format).key(TOPIC) is None:
            continue
        if lacking([TOPIC], schema.names):
            text = f"of format {sink.format} needs the key topic, or rows with a column topic"
            hint = f"add topic: NAME; the columns are {', '.join(schema.names)}"
            yield context.fault(FaultCode.SINK_LACKS_KEY, f"sinks[{index}]", text, hint, at_key=True)
