"""Every key of a pipeline file, written once: what it takes, its default and what it means.

The invariant: the loader, the faults for unknown keys, the JSON schema and the reference page are all made from these
tables, and from those of the kinds of sinks, and from nothing else.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Final

from pytubemq.pipelines.file import model
from pytubemq.pipelines.file.key import Key, Kind, Section
from pytubemq.pipelines.file.sink_table import SINKS, sink_kinds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ROOT: Final = Section(
    "",
    model.Pipeline,
    "The file as a whole.",
    (
        Key("name", Kind.NAME, "The name of the pipeline: letters, digits, `_`, `-` and `.`.", required=True),
        Key("source", Kind.SECTION, "Where rows come from.", required=True),
        Key("decode", Kind.SECTION, "How a message becomes rows; without it steps see the source's own columns."),
        Key("tables", Kind.SECTIONS, "Static tables that steps join by name."),
        Key("steps", Kind.SECTIONS, "Transformations, in order, over `input`, earlier steps and tables."),
        Key("sinks", Kind.SECTIONS, "Where rows go; at least one.", required=True),
        Key("dead_letter", Kind.SECTION, "Where records go that cannot be decoded.",
            default="Parquet in `<state>/dead_letter`"),
        Key("trigger", Kind.SECTION, "When a batch begins; a plain text is its kind or its interval.",
            default="default"),
        Key("audit", Kind.SECTION, "Counts for each minute of a time in the rows; a plain text is `time`."),
        Key("state", Kind.TEXT, "Directory (path or URI) of checkpoint, ledger and progress.",
            default=f"`{model.default_state('<name>')}` beside the file"),
        Key("spark", Kind.SECTION, "How Spark is started when the runner starts it."),
        Key("tests", Kind.SECTIONS, "Messages in and rows out, run by `pipeline test` without a cluster."),
    ),
)  # fmt: skip

SOURCE: Final = Section(
    "source",
    model.Source,
    "A topic of a TubeMQ cluster, or anything that Spark reads.",
    (
        Key("format", Kind.TEXT, "`tubemq`, or any format that Spark reads, to feed a topic.", default="tubemq"),
        Key("master", Kind.TEXT, "The Masters: `host:port`, several with commas; over TLS `tls://host:port?ca=FILE`.",
            default="the current profile's"),
        Key("user", Kind.TEXT, "The user to read the cluster as, where it authenticates clients.",
            default="the one in `master`, else the environment's"),
        Key("secret_file", Kind.TEXT, "The path of the file with that user's secret, of mode 0600, on the driver.",
            default="needed with `user`"),
        Key("topic", Kind.TEXT, "One topic.", field="topics"),
        Key("topics", Kind.TEXTS, "Several topics."),
        Key("topic_pattern", Kind.TEXT, "All topics whose whole name matches this regular expression."),
        Key("start", Kind.POSITIONS, "Where a new pipeline begins: `earliest`, `latest`, `group:NAME`, a time "
            "(ISO 8601 or milliseconds), `-10m` (that long ago), or a mapping by topic or partition. A partition "
            "without a message that new begins at its end; `options.startingTimestampStrategy` may say otherwise.",
            default="latest"),
        Key("end", Kind.POSITIONS, "Where the pipeline ends, in the same forms as `start`.", default="never"),
        Key("limit", Kind.SECTION, "Limits of one batch."),
        Key("commit_group", Kind.TEXT, "Group under which progress is shown at the Brokers; never used for recovery. "
            "If there are several queries, it shows the progress of the first: `main`, if there is one."),
        Key("filters", Kind.TEXTS, "Message types to read; the Broker skips the others."),
        Key("dedup", Kind.FLAG, "Drop messages that an idempotent Spark sink sent twice.", default="false"),
        Key("on_data_loss", Kind.CHOICE, "What happens when messages to be read have been deleted or damaged.",
            default="fail", choices=("fail", "ignore", "report")),
        Key("columns", Kind.TEXTS, "The source's own columns to keep beside the decoded ones.",
            default="all without `decode`, none with it"),
        Key("path", Kind.TEXT, "The path to read, for formats other than tubemq."),
        Key("schema", Kind.TEXT, "The columns as Spark writes them, for formats other than tubemq."),
        Key("options", Kind.OPTIONS, "Passed to Spark's reader unchanged."),
    ),
)  # fmt: skip

LIMIT: Final = Section(
    "source.limit",
    model.Limit,
    "Limits of one batch; all apply together.",
    (
        Key("rows", Kind.COUNT, "The most messages in a batch.", default="none"),
        Key("bytes", Kind.SIZE, "The most bytes in a batch, as `64MiB`.", field="size_bytes", default="none"),
        Key("min_rows", Kind.COUNT, "A batch waits until there are this many messages.", default="none"),
        Key("max_delay", Kind.DURATION, "How long `min_rows` may delay a batch.", field="max_delay_s",
            default="none"),
        Key("fetch", Kind.DURATION, "How long one task may fetch.", field="fetch_s", default="none"),
    ),
)  # fmt: skip

DECODE: Final = Section(
    "decode",
    model.Decode,
    "How a message becomes rows.",
    (
        Key("format", Kind.TEXT, "`raw`, `csv`, `kv`, `json`, `avro`, `canal-json`, `debezium-json` or `inlong-msg`.",
            default="raw"),
        Key("schema", Kind.TEXT, "Columns as Spark writes them: `id BIGINT, at TIMESTAMP`."),
        Key("inner", Kind.TEXT, "The format of the records inside `inlong-msg`."),
        Key("on_error", Kind.CHOICE, "What happens to a record that cannot be decoded: keep it as a dead letter, "
            "count and drop it, or end the run.",
            default="dead_letter", enum=model.OnError),
        Key("options", Kind.OPTIONS, "Options of the format."),
    ),
)  # fmt: skip

TABLE: Final = Section(
    "tables[]",
    model.Table,
    "A static table.",
    (
        Key("name", Kind.NAME, "The name by which steps read it.", required=True),
        Key("format", Kind.TEXT, "Any format that Spark reads.", required=True),
        Key("path", Kind.TEXT, "Where it is stored."),
        Key("schema", Kind.TEXT, "Columns as Spark writes them."),
        Key("options", Kind.OPTIONS, "Passed to Spark's reader unchanged."),
    ),
)

STEP: Final = Section(
    "steps[]",
    model.Step,
    "One transformation, in `sql` or in `python`.",
    (
        Key("name", Kind.NAME, "The name by which later steps and sinks read it.", required=True),
        Key("sql", Kind.SQL, "A query over `input`, earlier steps and tables."),
        Key("python", Kind.FUNCTION, "A function that takes a DataFrame (the step before) and returns one."),
        Key("watermark", Kind.SECTION, "How late rows may be, for windows and state."),
    ),
)

WATERMARK: Final = Section(
    "steps[].watermark",
    model.Watermark,
    "How late rows may be.",
    (
        Key("column", Kind.TEXT, "The column with the time of a row.", required=True),
        Key("delay", Kind.INTERVAL, "As `10 minutes` or `10m`.", required=True),
    ),
)

TRIGGER: Final = Section(
    "trigger",
    model.Trigger,
    "When a batch begins.",
    (
        Key("kind", Kind.CHOICE, "`default`: when the last one is done and there are new messages; `available_now`: "
            "all messages available at the start, then the run ends; `once`: the same in one batch.",
            enum=model.TriggerKind, default="default, or interval if one is given"),
        Key("interval", Kind.INTERVAL, "As `10 seconds` or `10s`."),
    ),
    short="kind",
)  # fmt: skip

AUDIT: Final = Section(
    "audit",
    model.Audit,
    "Counts for each minute.",
    (Key("time", Kind.TEXT, "A column with a time.", default="the message's `msgTime`, else its `timestamp`"),),
    short="time",
)

SPARK: Final = Section(
    "spark",
    model.SparkSettings,
    "How Spark is started; under spark-submit its own settings count.",
    (
        Key("master", Kind.TEXT, "In the form that Spark accepts.", default="local[2,4]"),
        Key("conf", Kind.OPTIONS, "Settings."),
        Key("packages", Kind.TEXTS, "Maven coordinates of packages that a sink needs."),
        Key("jars", Kind.TEXTS, "Paths of jars that a sink needs."),
    ),
)

CASE: Final = Section(
    "tests[]",
    model.Case,
    "A test: messages in, rows out.",
    (
        Key("name", Kind.TEXT, "What the test shows.", default="test and its number"),
        Key("given", Kind.ROWS, "Messages: a text is a body; a mapping has `body` (text, or `{base64: ...}`, or "
            "`{hex: ...}`), `attributes`, `msgType`, `msgTime`, `topic`, `brokerId`, `partition`, `offset`, "
            "`timestamp`. With another source than tubemq: rows by column.", required=True),
        Key("expect", Kind.EXPECTED, "Rows for each sink, and for `dead_letter`; of each row only the columns that "
            "are named, in any order. A sink that is not named is not checked.", required=True),
        Key("tables", Kind.EXPECTED, "Rows for each of the file's tables, used instead of the stored ones.",
            default="the tables are read"),
    ),
)  # fmt: skip


def sections() -> Mapping[str, Section]:
    """Return all sections by path, in the order of the reference page."""
    listed = (
        ROOT, SOURCE, LIMIT, DECODE, TABLE, STEP, WATERMARK, _sink(), _dead_letter(), TRIGGER, AUDIT, SPARK, CASE,
    )  # fmt: skip
    return {section.path: section for section in listed}


def child(section: Section, key: Key) -> Section:
    """Return the section that a key of kind section or sections holds."""
    path = f"{section.path}.{key.name}" if section.path else key.name
    return sections()[f"{path}[]" if key.kind is Kind.SECTIONS else path]


def _sink() -> Section:
    """Return the section of a sink: the keys of every sink, and those of each kind."""
    keys = (
        Key("name", Kind.NAME, "The name of the sink in progress, reports and tests.", required=True),
        Key("format", Kind.CHOICE, "The format to write.", choices=tuple(SINKS), required=True),
        Key("input", Kind.NAME, "The step whose rows it writes, or `input`.", default="the last step"),
        *_merged((kind.name, key) for kind in sink_kinds() for key in kind.keys),
        Key("guarantee", Kind.CHOICE, "The guarantee that you need; the file is refused if the sink cannot give it.",
            enum=model.Guarantee),
        Key("options", Kind.OPTIONS, "Passed to the writer."),
    )  # fmt: skip
    return Section("sinks[]", model.Sink, "Where rows go.", _in_order(keys, model.Sink))


def _dead_letter() -> Section:
    """Return the section of dead letters: the keys that always count, and those of each kind of sink."""
    kinds = [(kind.name, kind.dead_letters) for kind in sink_kinds() if kind.dead_letters is not None]
    chosen = [f"{name} with `{letters.chosen_by}`" for name, letters in reversed(kinds) if letters.chosen_by]
    keys = (
        Key("format", Kind.CHOICE, "The format to write.", choices=tuple(name for name, _ in kinds),
            default=f"{', '.join(chosen)}, else {model.DeadLetter().format}"),
        *_merged((name, key) for name, letters in kinds for key in letters.keys),
        Key("max_ratio", Kind.RATIO, "The largest share of a batch's records; above it the run fails before anything "
            "of the batch is written, except to sinks that read the source on their own: after steps that keep state, "
            "or with layout log.", default="none"),
        Key("max_rows", Kind.COUNT, "The most records in the pipeline's whole life; likewise.", default="none"),
        Key("options", Kind.OPTIONS, "Passed to the writer."),
    )  # fmt: skip
    doc = "Where records go that cannot be decoded, and how many of them end the run."
    return Section("dead_letter", model.DeadLetter, doc, _in_order(keys, model.DeadLetter))


def _in_order(keys: tuple[Key, ...], made: type) -> tuple[Key, ...]:
    """Return keys in the order of a class's fields; those that are none of them stand where `more` does."""
    order = {field.name: index for index, field in enumerate(fields(made))}
    return tuple(sorted(keys, key=lambda key: order[key.into if key.into in order else "more"]))


def _merged(keys: Iterable[tuple[str, Key]]) -> tuple[Key, ...]:
    """Return each key once that kinds of sinks take, with what it is to each of them."""
    found: dict[str, list[tuple[str, Key]]] = {}
    for kind, key in keys:
        found.setdefault(key.name, []).append((kind, key))
    return tuple(replace(of_kinds[0][1], doc=_doc(of_kinds), default=_default(of_kinds)) for of_kinds in found.values())


def _doc(of_kinds: list[tuple[str, Key]]) -> str:
    """Return what a key means: "For parquet and delta: directory or URI; for tubemq: ..."."""
    said = _by_text((kind, key.doc) for kind, key in of_kinds)
    text = "; ".join(f"for {kinds}: {text}" if text else f"for {kinds}" for text, kinds in said.items())
    return f"{text[:1].upper()}{text[1:]}."


def _default(of_kinds: list[tuple[str, Key]]) -> str:
    said = _by_text((kind, key.default) for kind, key in of_kinds)
    if len(said) == 1:
        return of_kinds[0][1].default
    return "; ".join(f"for {kinds} {text}" for text, kinds in said.items() if text)


def _by_text(said: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the kinds of which the same is said, by what is said."""
    found: dict[str, list[str]] = {}
    for kind, text in said:
        found.setdefault(text, []).append(kind)
    return {
        text: " and ".join(part for part in (", ".join(kinds[:-1]), kinds[-1]) if part) for text, kinds in found.items()
    }
