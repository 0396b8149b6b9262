"""The source's options: text in, one frozen value out, or one error that names the option and what it takes."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal
from zoneinfo import ZoneInfo

from pytubemq.errors import ConfigError, FormatError, MessageError
from pytubemq.model.ids import DEFAULT_MASTER_PORT, Address, Partition, check_topic
from pytubemq.spark.source.schema import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import tzinfo

Edge = Literal["earliest", "latest"]

OPTIONS: Final = (
    "master",
    "topic",
    "startingOffsets",
    "endingOffsets",
    "maxRowsPerTrigger",
    "failOnDataLoss",
    "columns",
    "timeZone",
)


@dataclass(frozen=True, slots=True)
class Positions:
    """Where to start or end: the edge for every partition, and exact offsets for the partitions named."""

    edge: Edge
    exact: Mapping[Partition, int | Edge]


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What a reader was asked for. `starting` and `ending` are None where nothing was said."""

    masters: tuple[Address, ...]
    topics: tuple[str, ...]
    starting: Positions | None
    ending: Positions | None
    max_rows_per_trigger: int | None
    fail_on_data_loss: bool
    columns: tuple[str, ...]
    time_zone: tzinfo


def parse_options(options: Mapping[str, str]) -> SourceOptions:
    """Check and read the options of `format("tubemq")`; names are case-insensitive.

    Raises:
        ConfigError: an option is unknown, missing, or has a value that it does not take.
    """
    given = _by_known_name(options)
    topics = _topics(given.get("topic"))
    return SourceOptions(
        masters=_masters(given.get("master")),
        topics=topics,
        starting=_positions("startingOffsets", given.get("startingOffsets"), topics),
        ending=_positions("endingOffsets", given.get("endingOffsets"), topics),
        max_rows_per_trigger=_rows("maxRowsPerTrigger", given.get("maxRowsPerTrigger")),
        fail_on_data_loss=_flag("failOnDataLoss", given.get("failOnDataLoss"), default=True),
        columns=_columns(given.get("columns")),
        time_zone=_time_zone(given.get("timeZone", "UTC")),
    )


def _by_known_name(options: Mapping[str, str]) -> dict[str, str]:
    known = {name.lower(): name for name in OPTIONS}
    given: dict[str, str] = {}
    for name, value in options.items():
        right = known.get(name.lower())
        if right is None:
            close = difflib.get_close_matches(name.lower(), known, n=1)
            hint = f"did you mean {known[close[0]]}?" if close else f"the options are {', '.join(OPTIONS)}"
            if name.lower() == "path":
                hint = 'name the topic as an option: .option("topic", ...)'
            raise ConfigError(f'format("tubemq") has no option {name!r}', hint=hint)
        given[right] = value
    return given


def _bad(name: str, value: str, takes: str) -> ConfigError:
    return ConfigError(f"option {name} = {value!r} is not valid", hint=f"{name} takes {takes}")


def _masters(text: str | None) -> tuple[Address, ...]:
    takes = 'the Master\'s address, "host:port" (several: "host1:8715,host2:8715")'
    if not text or not text.strip():
        raise ConfigError('format("tubemq") needs the option master', hint=f"master takes {takes}")
    try:
        return tuple(Address.parse(part, default_port=DEFAULT_MASTER_PORT) for part in text.split(","))
    except FormatError as error:
        raise _bad("master", text, takes) from error


def _topics(text: str | None) -> tuple[str, ...]:
    takes = "one topic or a list of them, separated by commas"
    names = [name.strip() for name in (text or "").split(",") if name.strip()]
    if not names:
        raise ConfigError('format("tubemq") needs the option topic', hint=f"topic takes {takes}")
    try:
        return tuple(dict.fromkeys(check_topic(name) for name in names))
    except MessageError as error:
        raise _bad("topic", text or "", takes) from error


def _positions(name: str, text: str | None, topics: tuple[str, ...]) -> Positions | None:
    if text is None:
        return None
    edge: Edge = "earliest" if name == "startingOffsets" else "latest"
    word = _edge(text.strip().lower())
    if word is not None:
        return Positions(word, {})
    takes = 'earliest, latest or JSON of offset by partition, as in {"1:demo:0": 280, "1:demo:1": "earliest"}'
    try:
        entries = json.loads(text)
        if not isinstance(entries, dict):
            raise _bad(name, text, takes)
        exact = {Partition.parse(key): _offset(name, text, takes, value) for key, value in entries.items()}
    except (json.JSONDecodeError, FormatError) as error:
        raise _bad(name, text, takes) from error
    for partition in exact:
        if partition.topic not in topics:
            raise ConfigError(
                f"option {name} names the partition {partition}, whose topic is not read",
                hint=f"the option topic says {', '.join(topics)}",
            )
    return Positions(edge, exact)


def _edge(value: object) -> Edge | None:
    if value == "earliest":
        return "earliest"
    return "latest" if value == "latest" else None


def _offset(name: str, text: str, takes: str, value: object) -> int | Edge:
    if (word := _edge(value)) is not None:
        return word
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise _bad(name, text, takes)
    return value


def _rows(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        rows = int(text)
    except ValueError:
        rows = 0
    if rows < 1:
        raise _bad(name, text, "a number of rows, at least 1")
    return rows


def _flag(name: str, text: str | None, *, default: bool) -> bool:
    if text is None:
        return default
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise _bad(name, text, "true or false")
    return word == "true"


def _columns(text: str | None) -> tuple[str, ...]:
    if text is None:
        return COLUMNS
    known = {name.lower(): name for name in COLUMNS}
    chosen = [known.get(name.strip().lower(), "") for name in text.split(",")]
    if not all(chosen) or len(set(chosen)) != len(chosen):
        raise _bad("columns", text, f"some of {', '.join(COLUMNS)}, each once, separated by commas")
    return tuple(chosen)


def _time_zone(text: str) -> tzinfo:
    try:
        return ZoneInfo(text)
    except (KeyError, ValueError, OSError) as error:
        raise _bad("timeZone", text, "an IANA name, as in UTC or Asia/Shanghai") from error
