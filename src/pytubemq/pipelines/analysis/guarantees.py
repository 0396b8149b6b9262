"""What each sink promises, in which case, why, and what it needs: one table for `plan`, `lint` and the docs.

The invariant: a promise stands here only if the sink keeps it through a kill of any process at any point; a sink that
is not proven to is promised as at least once.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from pytubemq.pipelines.analysis.numbered_sinks import is_idempotent
from pytubemq.pipelines.file.model import Guarantee, Sink, SinkFormat
from pytubemq.spark.source.java.guarantee import java_guarantee

if TYPE_CHECKING:
    from pytubemq.pipelines.file.model import Pipeline

_EXACT: Final = Guarantee.EXACTLY_ONCE
_LEAST: Final = Guarantee.AT_LEAST_ONCE
_SAME_ROWS: Final = (
    "steps that give the same rows each time (no rand(), uuid(), current_timestamp(); Python functions likewise)"
)
_TRANSACTIONS: Final = "a database whose transactions cover the table (tested: PostgreSQL, Derby)"


class Case(StrEnum):
    """What decides among the rows of one sink."""

    ALWAYS = "always"
    BATCHES = "layout: batches"
    LOG = "layout: log"
    WITH_KEYS = "with keys"
    WITHOUT_KEYS = "without keys"
    KEY_COLUMN = "with idempotency_key"
    MAP_ONLY = "by number, steps look at one row at a time"
    IN_ORDER = "by number, behind windows and aggregates, or of another source than topics"
    REPEATED = "by number, to Brokers that are Java's, or did not say what they are"
    NOT_IDEMPOTENT = "with options.idempotent: false"


class SourceKind(StrEnum):
    """Who answers a batch's reads."""

    OURS = "pytubemq Brokers"
    JAVA = "Java Brokers"
    JAVA_FLUSHED = "Java Brokers, javaReads=flushed"
    SPARK = "another format of Spark"


@dataclass(frozen=True, slots=True)
class Promise:
    """What holds, and why."""

    guarantee: Guarantee
    why: str
    needs: str = ""
    """What must be so that it holds; nothing beyond the pipeline's own state if empty."""


SINKS: Final[dict[tuple[SinkFormat, Case], Promise]] = {
    (SinkFormat.PARQUET, Case.BATCHES): Promise(
        _EXACT,
        "a batch is written aside and renamed to the directory of its batch id; a replay finds it there",
        "a file system whose rename is atomic (local, HDFS)",
    ),
    (SinkFormat.PARQUET, Case.LOG): Promise(
        _EXACT,
        "Spark's file sink puts the names of a batch's files in its log in one step, and a batch once",
        "readers that are Spark: others take files of tries that were killed, too",
    ),
    (SinkFormat.DELTA, Case.WITHOUT_KEYS): Promise(
        _EXACT, "rows and batch id are one commit (txnAppId, txnVersion); Delta skips a version that it has"
    ),
    (SinkFormat.DELTA, Case.WITH_KEYS): Promise(
        _EXACT, "rows replace those of their keys in one commit; a batch that comes again replaces them by the same"
    ),
    (SinkFormat.ICEBERG, Case.ALWAYS): Promise(
        _EXACT, "the batch id lies in the snapshot that adds the rows, and is looked for before another is made"
    ),
    (SinkFormat.JDBC, Case.WITH_KEYS): Promise(
        _EXACT,
        "rows replace those of their keys, and the batch id is written, in one transaction",
        _TRANSACTIONS,
    ),
    (SinkFormat.JDBC, Case.WITHOUT_KEYS): Promise(
        _EXACT,
        "rows are moved out of a staging table, and the batch id is written, in one transaction",
        _TRANSACTIONS,
    ),
    (SinkFormat.KAFKA, Case.ALWAYS): Promise(
        _LEAST, "Spark's Kafka sink has no transactions: a replay sends the batch again"
    ),
    (SinkFormat.TUBEMQ, Case.MAP_ONLY): Promise(
        _EXACT,
        "rows are numbered by batch and partition, and the Broker drops a number that it has",
        f"pytubemq Brokers; {_SAME_ROWS}",
    ),
    (SinkFormat.TUBEMQ, Case.IN_ORDER): Promise(
        _EXACT,
        "rows are sorted by all that they hold, then numbered, and the Broker drops a number that it has",
        f"pytubemq Brokers; {_SAME_ROWS}",
    ),
    (SinkFormat.TUBEMQ, Case.KEY_COLUMN): Promise(
        _LEAST,
        "at least once in the topic, exactly once for readers with dedup=true: a batch that is done again sends its "
        "rows again, with the same keys",
    ),
    (SinkFormat.TUBEMQ, Case.REPEATED): Promise(
        _LEAST,
        "at least once in the topic, exactly once for readers with dedup=true: a Java Broker stores again what is sent "
        "again",
        "exactly once at pytubemq Brokers",
    ),
    (SinkFormat.TUBEMQ, Case.NOT_IDEMPOTENT): Promise(_LEAST, "a replay sends the batch again"),
    (SinkFormat.CONSOLE, Case.ALWAYS): Promise(_LEAST, "a replay prints the batch again"),
}
"""In the order of the docs."""

SOURCES: Final[dict[SourceKind, Promise]] = {
    SourceKind.OURS: Promise(_EXACT, "a batch is a range of exact offsets, and is read again as the same range"),
    SourceKind.JAVA: Promise(_LEAST, java_guarantee(False)[1], "exactly once with source.options.javaReads: flushed"),
    SourceKind.JAVA_FLUSHED: Promise(_EXACT, java_guarantee(True)[1]),
    SourceKind.SPARK: Promise(
        _EXACT, "Spark's checkpoint holds the range of each batch", "a source that replays its ranges"
    ),
}  # fmt: skip


def case_of(sink: Sink, *, stateful: bool, source: SourceKind = SourceKind.OURS, drops_repeats: bool = True) -> Case:
    """Which row of the table a sink stands in. Of Spark's own sources it is not known that a batch that comes again is
    divided into the same tasks, so their rows are put in order.
    """
    if sink.format in {SinkFormat.JDBC, SinkFormat.DELTA}:
        return Case.WITH_KEYS if sink.keys else Case.WITHOUT_KEYS
    if sink.format is SinkFormat.PARQUET:
        return Case.LOG if sink.layout == "log" else Case.BATCHES
    if sink.format is SinkFormat.TUBEMQ:
        if not is_idempotent(sink):
            return Case.NOT_IDEMPOTENT
        if sink.idempotency_key is not None:
            return Case.KEY_COLUMN
        if not drops_repeats:
            return Case.REPEATED
        return Case.IN_ORDER if stateful or source is SourceKind.SPARK else Case.MAP_ONLY
    return Case.ALWAYS


def promise_of(
    sink: Sink, *, source: SourceKind = SourceKind.OURS, stateful: bool = False, drops_repeats: bool = True
) -> Promise:
    """What a sink promises of each message that the source holds, end to end.

    Args:
        sink: as the file says it.
        source: who answers the reads.
        stateful: whether it gets its rows behind a step that keeps state.
        drops_repeats: False where the Brokers of the topic that it writes to store again what is sent again.
    """
    own = SINKS[sink.format, case_of(sink, stateful=stateful, source=source, drops_repeats=drops_repeats)]
    if own.guarantee is _LEAST:
        return own
    read = SOURCES[source]
    if read.guarantee is _LEAST:
        return read
    needs = "; ".join(part for part in (own.needs, read.needs) if part)
    return Promise(_EXACT, own.why, needs)


def source_kind(pipeline: Pipeline, *, java: bool) -> SourceKind:
    """Who answers this pipeline's reads, if its cluster has Java Brokers or not."""
    if pipeline.source.format != "tubemq":
        return SourceKind.SPARK
    if not java:
        return SourceKind.OURS
    option = {name.lower(): value for name, value in pipeline.source.options.items()}.get("javareads", "all")
    return SourceKind.JAVA_FLUSHED if option.lower() == "flushed" else SourceKind.JAVA
