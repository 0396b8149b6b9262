"""Promises that a pipeline asks for, held against who answers its reads.

The invariant: a run whose sink asks for exactly once never begins where it cannot be had. What a sink is by itself is
seen when it is made, and what the Brokers of a topic do that it writes to is seen when it is checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.errors import ConfigError
from pytubemq.pipelines.analysis.guarantees import SOURCES, promise_of, source_kind
from pytubemq.pipelines.file.model import Guarantee
from pytubemq.pipelines.plan.look import finds_java

if TYPE_CHECKING:
    from pytubemq.pipelines.analysis.guarantees import SourceKind
    from pytubemq.pipelines.file.model import Pipeline, Sink


def check_promises(pipeline: Pipeline) -> None:
    """Refuse a sink that asks for exactly once where the source gives less. The cluster is asked only if one does.

    Raises:
        ConfigError: naming the sink, with the remedy.
        TubeError: the cluster did not say what its Brokers are.
    """
    asking = [sink for sink in pipeline.sinks if sink.guarantee is Guarantee.EXACTLY_ONCE]
    if not asking:
        return
    kind = source_kind(pipeline, java=pipeline.source.format == "tubemq" and finds_java(pipeline))
    for sink in asking:
        check_promise(sink, kind)


def check_promise(sink: Sink, source: SourceKind) -> None:
    """Refuse one sink.

    Raises:
        ConfigError: it asks for exactly once, and rows of this source come at least once.
    """
    promise = promise_of(sink, source=source)
    if sink.guarantee is not Guarantee.EXACTLY_ONCE or promise.guarantee is Guarantee.EXACTLY_ONCE:
        return
    by_source = promise is SOURCES[source]
    raise ConfigError(
        f"sink {sink.name}: exactly_once cannot be had{f' of {source.value}' if by_source else ''}: {promise.why}",
        hint="set source.options.javaReads: flushed, or ask for at_least_once" if by_source else "leave it out",
    )
