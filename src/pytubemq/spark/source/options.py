"""The source's options: text in, one frozen value out, or one error that names the option and what it takes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeVar
from zoneinfo import ZoneInfo

from pytubemq.errors import ConfigError, FormatError, MessageError
from pytubemq.model.limits import MAX_FILTER_ITEM_CHARS, MAX_FILTER_ITEMS
from pytubemq.model.names import check_group, check_topic
from pytubemq.model.suggest import suggest
from pytubemq.model.units import count, duration_s, size_bytes
from pytubemq.spark.cluster_option import SECRETS, SECRETS_HINT, cluster_address
from pytubemq.spark.source.option_table import BY_NAME, OPTIONS, Scope, takes
from pytubemq.spark.source.positions import AtTime, Edge, Positions, bad, parse_offsets, parse_times
from pytubemq.spark.source.schema import ALL_COLUMNS, COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import tzinfo

    from pytubemq.model.cluster_address import ClusterAddress

DEFAULT_TRIGGER_DELAY_S: Final = 900.0
DEFAULT_LOOK_BACK: Final = 100_000
MAX_PATTERN_CHARS: Final = 1_000

E = TypeVar("E", bound=StrEnum)
V = TypeVar("V")


class OnDataLoss(StrEnum):
    """The effect of rows that a batch needs and that are gone."""

    FAIL = "true"
    IGNORE = "false"
    REPORT = "report"


class NoSuchTime(StrEnum):
    """The effect on a partition that has no message as new as the time given."""

    ERROR = "error"
    LATEST = "latest"
    EARLIEST = "earliest"


class JavaReads(StrEnum):
    """The messages of a Java Broker's partition that are read."""

    ALL = "all"
    FLUSHED = "flushed"
    """Messages that are on the Broker's disk."""


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics that are read: by name, or by a pattern that names match."""

    names: tuple[str, ...] = ()
    pattern: str | None = None

    def has(self, topic: str) -> bool:
        """True if this topic is read."""
        return topic in self.names if self.pattern is None else re.fullmatch(self.pattern, topic) is not None

    def __str__(self) -> str:
        return ", ".join(self.names) if self.pattern is None else f"those like {self.pattern}"


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one batch of a stream; None is no bound."""

    max_rows: int | None = None
    max_bytes: int | None = None
    min_rows: int | None = None
    max_delay_s: float = DEFAULT_TRIGGER_DELAY_S
    fetch_s: float | None = None
    damp_slow: bool = False
    """Slow partitions get less, so that a batch does not wait for them."""

    @property
    def any_most(self) -> bool:
        """True if there is an upper bound."""
        return self.damp_slow or not (self.max_rows is None and self.max_bytes is None and self.fetch_s is None)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of a reader, parsed. `starting` and `ending` are None where they are not set."""

    masters: ClusterAddress
    topics: Topics
    starting: Positions | None = None
    ending: Positions | None = None
    no_such_time: NoSuchTime = NoSuchTime.ERROR
    limits: Limits = Limits()
    max_task_rows: int | None = None
    min_tasks: int | None = None
    filters: tuple[str, ...] = ()
    commit_group: str | None = None
    on_data_loss: OnDataLoss = OnDataLoss.FAIL
    loss_directory: str | None = None
    columns: tuple[str, ...] = COLUMNS
    time_zone: tzinfo = field(default_factory=lambda: ZoneInfo("UTC"))
    decode: Mapping[str, str] = field(default_factory=dict)
    """`decode` and `decode.*`, as they were given; empty without."""
    dedup: bool = False
    dedup_look_back: int = DEFAULT_LOOK_BACK
    read_group: str | None = None
    java_reads: JavaReads = JavaReads.ALL

    @property
    def fail_on_data_loss(self) -> bool:
        """True if missing rows end the query."""
        return self.on_data_loss is OnDataLoss.FAIL


def parse_options(options: Mapping[str, str], scope: Scope = Scope.BOTH) -> SourceOptions:
    """Check and read the options of `format("tubemq")`; names are case-insensitive.

    Args:
        options: as Spark hands them over.
        scope: BATCH or STREAM refuses the options of the other; BOTH takes all, before it is known what is read.

    Raises:
        ConfigError: an option is unknown, missing, contradicts another, or has a value that it does not take.
    """
    given = _by_known_name(options, scope)
    _check_contradictions(given)
    zone = _time_zone(given.get("timeZone", "UTC"))
    topics = _topics(given)
    made = SourceOptions(
        masters=_masters(given),
        topics=topics,
        starting=_positions(given, "starting", Edge.EARLIEST, zone, topics),
        ending=_positions(given, "ending", Edge.LATEST, zone, topics),
        no_such_time=_word(given, "startingTimestampStrategy", NoSuchTime, NoSuchTime.ERROR),
        limits=Limits(
            max_rows=_read(given, "maxRowsPerTrigger", count),
            max_bytes=_read(given, "maxBytesPerTrigger", size_bytes),
            min_rows=_read(given, "minRowsPerTrigger", count),
            max_delay_s=_read(given, "maxTriggerDelay", duration_s) or DEFAULT_TRIGGER_DELAY_S,
            fetch_s=_read(given, "maxFetchTimePerTask", duration_s),
            damp_slow=_flag("slowPartitionAdjustment", given.get("slowPartitionAdjustment")),
        ),
        max_task_rows=_read(given, "maxRecordsPerTask", count),
        min_tasks=_read(given, "minPartitions", count),
        filters=_filters(given.get("filters")),
        commit_group=_group("commitGroup", given.get("commitGroup")),
        on_data_loss=_word(given, "failOnDataLoss", OnDataLoss, OnDataLoss.FAIL),
        loss_directory=given.get("lossDirectory"),
        columns=_columns(given.get("columns")),
        time_zone=zone,
        decode={name: value for name, value in given.items() if _is_decode(name)},
        dedup=_flag("dedup", given.get("dedup")),
        dedup_look_back=_read(given, "dedupLookBack", count) or DEFAULT_LOOK_BACK,
        read_group=_group("readGroup", given.get("readGroup")),
        java_reads=_word(given, "javaReads", JavaReads, JavaReads.ALL),
    )
    _check_values(made, given)
    return made


def _is_decode(name: str) -> bool:
    return name.lower() == "decode" or name.lower().startswith("decode.")


def _by_known_name(options: Mapping[str, str], scope: Scope) -> dict[str, str]:
    given: dict[str, str] = {}
    for name, value in options.items():
        option = BY_NAME.get("decode.*" if name.lower().startswith("decode.") else name.lower())
        if option is None:
            raise _unknown(name)
        if Scope.BOTH not in (scope, option.scope) and option.scope is not scope:
            here, there = ("spark.read", "readStream")[:: 1 if scope is Scope.BATCH else -1]
            raise ConfigError(f"{option.name} is an option of {there}", hint=f"leave it out with {here}")
        given[name if option.name == "decode.*" else option.name] = str(value)
    return given


def _unknown(name: str) -> ConfigError:
    close = suggest(name, (option.name for option in BY_NAME.values()))
    names = ", ".join(option.name for option in OPTIONS)
    hint = f"did you mean {close}?" if close else f"the options are {names}"
    if name.lower() in SECRETS:
        hint = SECRETS_HINT
    if name.lower() == "path":
        hint = 'name the topic as an option: .option("topic", ...)'
    return ConfigError(f'format("tubemq") has no option {name!r}', hint=hint)


_EITHER: Final = (
    ("topic", "topicPattern"),
    ("startingOffsets", "startingTimestamp"),
    ("endingOffsets", "endingTimestamp"),
    ("columns", "decode"),
)
_NEEDS: Final = (
    ("maxTriggerDelay", "minRowsPerTrigger"),
    ("lossDirectory", "failOnDataLoss"),
    ("dedupLookBack", "dedup"),
)


def _check_contradictions(given: Mapping[str, str]) -> None:
    for one, other in _EITHER:
        if one in given and other in given:
            hint = "decode.columns names the raw columns to keep" if other == "decode" else "leave one of them out"
            raise ConfigError(f"the options {one} and {other} exclude each other", hint=hint)
    for option, needed in _NEEDS:
        if option in given and needed not in given:
            raise ConfigError(f"the option {option} has no meaning without {needed}", hint=f"set {needed}, too")
    own = sorted(name for name in given if name.lower().startswith("decode."))
    if own and "decode" not in given:
        raise ConfigError(f"the option {own[0]} has no meaning without decode", hint="set decode to a format")


def _check_values(options: SourceOptions, given: Mapping[str, str]) -> None:
    limits = options.limits
    if limits.min_rows is not None and limits.max_rows is not None and limits.min_rows > limits.max_rows:
        raise ConfigError(
            f"minRowsPerTrigger = {limits.min_rows} is more than maxRowsPerTrigger = {limits.max_rows}",
            hint="a batch cannot be both; make the first one smaller",
        )
    if "startingTimestampStrategy" in given and not (
        options.starting and any(isinstance(place, AtTime) for place in options.starting.places())
    ):
        raise ConfigError(
            "the option startingTimestampStrategy has no meaning without a time", hint="set startingTimestamp, too"
        )
    if (options.on_data_loss is OnDataLoss.REPORT) != (options.loss_directory is not None):
        raise ConfigError(
            "failOnDataLoss = report and lossDirectory belong together",
            hint="set both: failOnDataLoss=report, and lossDirectory to a directory",
        )


def _masters(given: Mapping[str, str]) -> ClusterAddress:
    text = given.get("master")
    if not text or not text.strip():
        raise ConfigError('format("tubemq") needs the option master', hint=f"master takes {takes('master')}")
    try:
        return cluster_address(text, given)
    except FormatError as error:
        raise bad("master", text) from error


def _topics(given: Mapping[str, str]) -> Topics:
    pattern = given.get("topicPattern")
    if pattern is not None:
        try:
            re.compile(pattern)
        except (re.error, RecursionError) as error:
            raise bad("topicPattern", pattern) from error
        if not 0 < len(pattern) <= MAX_PATTERN_CHARS:
            raise bad("topicPattern", pattern)
        return Topics(pattern=pattern)
    text = given.get("topic", "")
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        hint = f"topic takes {takes('topic')}; or name them by topicPattern"
        raise ConfigError('format("tubemq") needs the option topic', hint=hint)
    try:
        return Topics(tuple(dict.fromkeys(check_topic(name) for name in names)))
    except MessageError as error:
        raise bad("topic", text) from error


def _positions(given: Mapping[str, str], edge: str, default: Edge, zone: tzinfo, topics: Topics) -> Positions | None:
    offsets, times = f"{edge}Offsets", f"{edge}Timestamp"
    if offsets in given:
        name, found = offsets, parse_offsets(offsets, given[offsets], default=default, zone=zone)
    elif times in given:
        name, found = times, parse_times(times, given[times], default=default, zone=zone)
    else:
        return None
    strange = sorted(topic for topic in found.named_topics() if not topics.has(topic))
    if strange:
        raise ConfigError(
            f"option {name} names {strange[0]}, a topic that is not read", hint=f"the topics are {topics}"
        )
    return found


def _read(given: Mapping[str, str], name: str, parse: Callable[[str], V | None]) -> V | None:
    text = given.get(name)
    if text is None:
        return None
    found = parse(text)
    if found is None:
        raise bad(name, text)
    return found


def _word(given: Mapping[str, str], name: str, words: type[E], default: E) -> E:
    text = given.get(name)
    if text is None:
        return default
    try:
        return words(text.strip().lower())
    except ValueError as error:
        raise bad(name, text) from error


def _flag(name: str, text: str | None) -> bool:
    word = (text or "false").strip().lower()
    if word not in ("true", "false"):
        raise bad(name, text or "")
    return word == "true"


def _group(name: str, text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return check_group(text.strip())
    except MessageError as error:
        raise bad(name, text) from error


def _filters(text: str | None) -> tuple[str, ...]:
    if text is None:
        return ()
    items = tuple(dict.fromkeys(item.strip() for item in text.split(",") if item.strip()))
    wrong = any(len(item) > MAX_FILTER_ITEM_CHARS or any(char in item for char in "=#@") for item in items)
    if wrong or not 1 <= len(items) <= MAX_FILTER_ITEMS:
        raise bad("filters", text)
    return items


def _columns(text: str | None) -> tuple[str, ...]:
    if text is None:
        return COLUMNS
    known = {name.lower(): name for name in ALL_COLUMNS}
    chosen = [known.get(name.strip().lower(), "") for name in text.split(",")]
    if not all(chosen) or len(set(chosen)) != len(chosen):
        raise ConfigError(
            f"option columns = {text[:200]!r} is not valid",
            hint=f"columns takes some of {', '.join(ALL_COLUMNS)}, each once, separated by commas",
        )
    return tuple(chosen)


def _time_zone(text: str) -> tzinfo:
    try:
        return ZoneInfo(text)
    except (KeyError, ValueError, OSError) as error:
        raise bad("timeZone", text) from error
