"""Guarantee that a sink asks for: one that the sink, and who answers the reads, can keep.

The cluster is asked only if a sink asks for exactly once. What the Brokers of a topic do that a sink writes to is seen
when the sink is checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.errors import TubeError
from pytubemq.pipelines.analysis.guarantees import SOURCES, SourceKind, not_exactly_once, promise_of, source_kind
from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.file.model import Guarantee
from pytubemq.pipelines.frames.brokers import finds_java
from pytubemq.pipelines.rules.rule import Need, rule

if TYPE_CHECKING:
    from pytubemq.pipelines.rules.rule import Context, Faults


@rule(Need.FILE, sharper=Need.CLUSTER)
def check(context: Context) -> Faults:
    """Report sinks that ask for exactly once where rows come at least once."""
    asking = {
        f"sinks[{index}].guarantee": sink
        for index, sink in enumerate(context.pipeline.sinks)
        if sink.guarantee is Guarantee.EXACTLY_ONCE
    }
    if not asking:
        return
    try:
        kind = _source_kind(context)
    except TubeError as error:
        path = next(iter(asking))
        yield context.fault(FaultCode.CLUSTER_AWAY, path, error.message, error.hint, cause=error)
        return
    for path, sink in asking.items():
        promise = promise_of(sink, source=kind)
        if promise.guarantee is Guarantee.EXACTLY_ONCE:
            continue
        by_source = promise is SOURCES[kind]
        text = not_exactly_once(promise.why, by=kind.value if by_source else "")
        remedy = "set source.options.javaReads: flushed, or ask for at_least_once"
        hint = remedy if by_source else promise.needs or "ask for at_least_once"
        yield context.fault(FaultCode.GUARANTEE_IMPOSSIBLE, path, text, hint)


def _source_kind(context: Context) -> SourceKind:
    asked = Need.CLUSTER in context.sees and context.pipeline.source.format == "tubemq"
    return source_kind(context.pipeline, java=asked and finds_java(context.pipeline))
