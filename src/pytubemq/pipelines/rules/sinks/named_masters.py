"""Masters of what is written to a topic: the file names them, or its source does, or the command that opens it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.rules.rule import Need, rule

if TYPE_CHECKING:
    from pytubemq.pipelines.file.model import DeadLetter, Sink
    from pytubemq.pipelines.rules.rule import Context, Faults


@rule(Need.CLUSTER)
def check(context: Context) -> Faults:
    """Report sinks, and dead letters, of format tubemq without Masters."""
    pipeline = context.pipeline
    written: dict[str, Sink | DeadLetter] = {f"sinks[{index}]": sink for index, sink in enumerate(pipeline.sinks)}
    if pipeline.dead_letter is not None:
        written["dead_letter"] = pipeline.dead_letter
    for path, sink in written.items():
        if sink.format == "tubemq" and not pipeline.master_of(sink):
            text = "of format tubemq needs the key master"
            yield context.fault(FaultCode.SINK_LACKS_KEY, path, text, "add master: host:8715", at_key=True)
