"""Guarantees of pipelines, end to end: those of the sinks' kinds held against the source's.

The invariant: a promise stands in a kind of sink, or here, only if it is kept through a kill of any process at any
point; a sink that is not proven to keep it is promised as at least once.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from pytubemq.pipelines.file.model import Guarantee
from pytubemq.pipelines.file.sink_kind import Intake, Promise
from pytubemq.pipelines.file.sink_table import sink_kind

if TYPE_CHECKING:
    from pytubemq.pipelines.file.model import Pipeline, Sink

_EXACT: Final = Guarantee.EXACTLY_ONCE
_LEAST: Final = Guarantee.AT_LEAST_ONCE
_FLUSHED: Final = (
    "only what the Java Broker has flushed to disk is read, so a batch read again has the same messages even "
    "after the Broker was killed"
)
_FROM_MEMORY: Final = (
    "messages are read from a Java Broker's memory, too: when it is killed it loses some that were read, and gives "
    "their offsets to others; as long as it is not killed, each message is read once (javaReads=flushed: always)"
)


class SourceKind(StrEnum):
    """Sorts of sources, by who answers a batch's reads."""

    OURS = "pytubemq Brokers"
    JAVA = "Java Brokers"
    JAVA_FLUSHED = "Java Brokers, javaReads=flushed"
    SPARK = "another format of Spark"


SOURCES: Final[dict[SourceKind, Promise]] = {
    SourceKind.OURS: Promise(_EXACT, "a batch is a range of exact offsets, which is read again as the same range"),
    SourceKind.JAVA: Promise(_LEAST, _FROM_MEMORY, "exactly once with source.options.javaReads: flushed"),
    SourceKind.JAVA_FLUSHED: Promise(_EXACT, _FLUSHED),
    SourceKind.SPARK: Promise(
        _EXACT, "Spark's checkpoint holds the range of each batch", "a source that replays its ranges"
    ),
}  # fmt: skip


def promise_of(
    sink: Sink, *, source: SourceKind = SourceKind.OURS, stateful: bool = False, drops_repeats: bool = True
) -> Promise:
    """Return what a sink promises of each message that the source holds, end to end.

    Of Spark's own sources it is not known that a batch that comes again is divided into the same tasks, so their rows
    count as those behind a step that keeps state.

    Args:
        sink: as the file says it.
        source: who answers the reads.
        stateful: whether it gets its rows behind a step that keeps state.
        drops_repeats: False where the Brokers of the topic that it writes to store again what is sent again.
    """
    kind = sink_kind(sink.format)
    intake = Intake(row_by_row=not stateful and source is not SourceKind.SPARK, drops_repeats=drops_repeats)
    own = kind.promises[kind.case(sink, intake)]
    if own.guarantee is _LEAST:
        return own
    read = SOURCES[source]
    if read.guarantee is _LEAST:
        return read
    needs = "; ".join(part for part in (own.needs, read.needs) if part)
    return Promise(_EXACT, own.why, needs)


def not_exactly_once(why: str, *, by: str = "") -> str:
    """Return the words of a refusal of `guarantee: exactly_once`; `by`: who stands in its way, if not the sink."""
    return f"exactly_once is not possible{f' with {by}' if by else ''}: {why}"


def source_kind(pipeline: Pipeline, *, java: bool) -> SourceKind:
    """Return who answers this pipeline's reads, if its cluster has Java Brokers or not."""
    if pipeline.source.format != "tubemq":
        return SourceKind.SPARK
    if not java:
        return SourceKind.OURS
    option = {name.lower(): value for name, value in pipeline.source.options.items()}.get("javareads", "all")
    return SourceKind.JAVA_FLUSHED if option.lower() == "flushed" else SourceKind.JAVA
