"""Keys of a sink: none that only other formats take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.file.sink_table import sink_kind, sink_kinds
from pytubemq.pipelines.rules.rule import Need, rule

if TYPE_CHECKING:
    from pytubemq.pipelines.rules.rule import Context, Faults


@rule(Need.FILE)
def check(context: Context) -> Faults:
    """Report keys of other kinds of sinks."""
    kinds = sink_kinds()
    names = dict.fromkeys(key.name for kind in kinds for key in kind.keys)
    for index, sink in enumerate(context.pipeline.sinks):
        own = sink_kind(sink.format)
        for name in names:
            path = f"sinks[{index}].{name}"
            if path in context.places.by_path and own.key(name) is None:
                takers = ", ".join(kind.name for kind in kinds if kind.key(name) is not None)
                text = f"has no effect for the format {sink.format}"
                yield context.fault(
                    FaultCode.SINK_TAKES_NO_KEY, path, text, f"it is for {takers} only", at_key=True
                )  # fmt: skip
