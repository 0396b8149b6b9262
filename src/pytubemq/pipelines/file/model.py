"""A pipeline as values: what a file, or the same in Python, comes to.

The invariant: values are frozen and hold no secret, only references to secrets; where each stands in its file is kept
apart (`places`), so that two files that say the same are equal.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
"""Names of steps, tables and sinks."""
INPUT: Final = "input"
"""The rows before a step, by this name in its SQL; and the source's rows, for a sink that takes no step's."""
LOG: Final = "log"
"""The layout of Parquet that Spark's own file sink writes."""
DEAD_LETTER: Final = "dead_letter"
"""The name of the dead letters where they stand among sinks: in tests, in the ledger and in events."""


class OnError(StrEnum):
    """The handling of a record that cannot be decoded."""

    DEAD_LETTER = "dead_letter"
    DROP = "drop"
    """It is counted and left out."""
    FAIL = "fail"


class OnSchemaChange(StrEnum):
    """A sink's reaction to rows with other columns than its table."""

    FAIL = "fail"
    IGNORE = "ignore"
    """Columns that the table lacks are left out; those that the rows lack are null."""
    ADD_COLUMNS = "add-columns"
    WIDEN = "widen"
    """As add-columns; and a column whose type holds more takes its place: int to bigint, float to double, ..."""


class Guarantee(StrEnum):
    """A sink's promise about each row of its input, through kills of any process."""

    EXACTLY_ONCE = "exactly_once"
    AT_LEAST_ONCE = "at_least_once"


class TriggerKind(StrEnum):
    """The condition that begins a batch."""

    DEFAULT = "default"
    """As soon as the last one is done and there is news."""
    INTERVAL = "interval"
    AVAILABLE_NOW = "available_now"
    """All that is there at the start, in batches, then the run ends."""
    ONCE = "once"
    """All that is there at the start, in one batch, then the run ends."""


@dataclass(frozen=True, slots=True)
class Limit:
    """Bounds of one micro-batch; None is no bound. They map to the source's options of the same meaning."""

    rows: int | None = None
    size_bytes: int | None = None
    min_rows: int | None = None
    max_delay_s: float | None = None
    """The longest time that `min_rows` may hold a batch back."""
    fetch_s: float | None = None
    """The longest time that one task may fetch."""


@dataclass(frozen=True, slots=True)
class ClusterKeys:
    """The keys that name a cluster and the user to connect as; values may be references."""

    master: str | None = None
    user: str | None = None
    secret_file: str | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """The source of the rows: a topic, or any format that Spark reads."""

    format: str = "tubemq"
    master: str | None = None
    user: str | None = None
    secret_file: str | None = None
    topics: tuple[str, ...] = ()
    topic_pattern: str | None = None
    start: str | Mapping[str, Any] | None = None
    """earliest, latest, group:NAME, a time, -10m, or offsets by topic or partition."""
    end: str | Mapping[str, Any] | None = None
    limit: Limit = Limit()
    commit_group: str | None = None
    filters: tuple[str, ...] = ()
    dedup: bool = False
    on_data_loss: str = "fail"
    """fail, ignore or report."""
    columns: tuple[str, ...] = ()
    """Of the source's own columns, those that stay beside the decoded ones."""
    path: str | None = None
    schema: str | None = None
    """Of other formats than tubemq."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Handed to Spark as they are."""


@dataclass(frozen=True, slots=True)
class Decode:
    """The decoding of messages to rows."""

    format: str = "raw"
    schema: str | None = None
    """Columns as Spark writes them: `id BIGINT, at TIMESTAMP`."""
    inner: str | None = None
    """The format inside of InLongMsg."""
    on_error: OnError = OnError.DEAD_LETTER
    options: Mapping[str, str] = field(default_factory=dict)
    of_records: bool = False
    """Each body is one record that was taken out of a message before, as a rejected record is when it is redriven."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table at rest, joined by name in the steps."""

    name: str
    format: str
    path: str | None = None
    schema: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Watermark:
    """The limit on how late rows may be for windows and state."""

    column: str
    delay: str
    """As Spark takes it: `10 minutes`."""


@dataclass(frozen=True, slots=True)
class Step:
    """One transformation: Spark SQL over `input` (the step before), earlier steps and tables by name; or Python."""

    name: str
    sql: str | None = None
    python: str | None = None
    """`module:function`, DataFrame to DataFrame."""
    watermark: Watermark | None = None


@dataclass(frozen=True, slots=True)
class Sink:
    """The kind of sink."""

    name: str
    format: str
    """A word of the table of sinks."""
    input: str | None = None
    """The step whose rows it takes; the last one if None."""
    path: str | None = None
    table: str | None = None
    url: str | None = None
    """Of JDBC."""
    topic: str | None = None
    master: str | None = None
    user: str | None = None
    secret_file: str | None = None
    partition_by: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    """Of an upsert."""
    layout: str | None = None
    """Of Parquet: `log` (Spark's file log) or `batches` (a directory for each batch)."""
    idempotency_key: str | None = None
    more: Mapping[str, Any] = field(default_factory=dict)
    """Keys that no other kind of sink has."""
    guarantee: Guarantee | None = None
    """The guarantee that the user asks for; refused if the sink cannot promise it."""
    on_schema_change: OnSchemaChange = OnSchemaChange.FAIL
    options: Mapping[str, str] = field(default_factory=dict)
    """Handed on to the writer; values may be references to secrets."""

    def value(self, key: str) -> Any:
        """Return the value of a key; None if it is not given."""
        return self.more[key] if key in self.more else getattr(self, key, None)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """The place of rejected records, and how many are too many."""

    format: str = "parquet"
    """A word of the table of sinks."""
    path: str | None = None
    topic: str | None = None
    master: str | None = None
    """The source's if None."""
    user: str | None = None
    secret_file: str | None = None
    table: str | None = None
    url: str | None = None
    max_ratio: float | None = None
    """Of a batch's records; above it the run fails before anything of the batch is written."""
    max_rows: int | None = None
    """Of the whole run."""
    options: Mapping[str, str] = field(default_factory=dict)

    def as_sink(self) -> Sink:
        """Return the dead letters as a sink like any other."""
        return Sink(
            DEAD_LETTER, self.format, path=self.path, table=self.table, url=self.url, topic=self.topic,
            master=self.master, user=self.user, secret_file=self.secret_file, options=self.options,
        )  # fmt: skip


_Written = TypeVar("_Written", Sink, DeadLetter)


@dataclass(frozen=True, slots=True)
class Trigger:
    """The condition that begins a batch."""

    kind: TriggerKind = TriggerKind.DEFAULT
    interval: str | None = None


@dataclass(frozen=True, slots=True)
class Audit:
    """Counts by minute of a time that the rows carry."""

    time: str | None = None
    """A column; the message's `msgTime`, else its `timestamp`, if None."""


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """The settings with which the runner starts Spark."""

    master: str = "local[2,4]"
    conf: Mapping[str, str] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    jars: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """A test inside the file: messages in, rows expected out of each sink and of the dead letters."""

    name: str
    given: tuple[Mapping[str, Any], ...]
    expect: Mapping[str, tuple[Mapping[str, Any], ...]]
    tables: Mapping[str, tuple[Mapping[str, Any], ...]] = field(default_factory=dict)
    """Rows in place of what tables at rest hold."""


def default_state(name: str) -> str:
    """Return the state directory of a pipeline that names none: it lies beside the file.

    Where there is no file, as for a pipeline made in Python, it lies in the working directory.
    """
    return f".pytubemq/{name}"


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The whole of it."""

    name: str
    source: Source
    decode: Decode | None = None
    tables: tuple[Table, ...] = ()
    steps: tuple[Step, ...] = ()
    sinks: tuple[Sink, ...] = ()
    dead_letter: DeadLetter | None = None
    trigger: Trigger = Trigger()
    audit: Audit | None = None
    state: str | None = None
    """Directory (path or URI) of checkpoint, ledger and progress; `default_state` if None."""
    spark: SparkSettings = SparkSettings()
    tests: tuple[Case, ...] = ()

    @property
    def state_or_default(self) -> str:
        """The state directory as the pipeline names it, else the default; neither is absolute."""
        return self.state or default_state(self.name)

    def master_of(self, sink: Sink | DeadLetter) -> str | None:
        """Return the Masters of the topic that a sink writes to: the source's where it names none."""
        return sink.master or self.source.master

    def cluster_of(self, sink: Sink | DeadLetter) -> ClusterKeys:
        """Return the cluster that a sink writes to: the source's, with its user, where the sink names none."""
        own = sink if sink.master or sink.user or sink.secret_file else self.source
        return ClusterKeys(self.master_of(sink), own.user, own.secret_file)

    def with_masters(self, otherwise: Callable[[], str | None] = lambda: None) -> Pipeline:
        """Return the pipeline with the Masters and the user named in all that writes to a topic.

        Args:
            otherwise: gives the Masters where neither a sink nor the source does; not asked if no sink needs it.
        """

        def named(sink: _Written) -> _Written:
            if sink.format != "tubemq" or sink.master:
                return sink
            cluster = self.cluster_of(sink)
            master = cluster.master or otherwise()
            return replace(sink, master=master, user=cluster.user, secret_file=cluster.secret_file)

        letters = None if self.dead_letter is None else named(self.dead_letter)
        return replace(self, sinks=tuple(named(sink) for sink in self.sinks), dead_letter=letters)
