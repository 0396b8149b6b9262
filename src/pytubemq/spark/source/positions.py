"""The start and end of a read as the user names them: edges, offsets, times and groups, by topic and partition.

The invariant: what is said is kept as it was said; what it means now is `resolve`'s to find out, once.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from pytubemq.errors import ConfigError, FormatError, MessageError
from pytubemq.model.ids import Partition
from pytubemq.model.names import check_group, check_topic
from pytubemq.spark.source.option_table import takes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import tzinfo

_AGO: Final = re.compile(r"-(\d{1,9})([smhd])", re.ASCII)
_UNIT_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_MAX_MS: Final = 253_402_300_799_999
"""The last millisecond of the year 9999."""
_GROUP: Final = "group:"
MAX_ENTRIES: Final = 100_000
"""Topics and partitions that one option may name."""


class Edge(StrEnum):
    """The ends of a partition."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class AtOffset:
    """An offset."""

    offset: int


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first message appended then or later: milliseconds since 1970, or so many before now."""

    time_ms: int | None = None
    ago_ms: int | None = None

    def at_ms(self, now_ms: int) -> int:
        """Return the time that is meant when it is `now_ms`."""
        return max(0, now_ms - self.ago_ms) if self.ago_ms is not None else self.time_ms or 0


@dataclass(frozen=True, slots=True)
class AtGroup:
    """The confirmed offset of a group."""

    group: str


PositionSpec = Edge | AtOffset | AtTime | AtGroup


@dataclass(frozen=True, slots=True)
class Positions:
    """A place for every partition; what is said of a partition wins over what is said of its topic."""

    default: PositionSpec
    topics: Mapping[str, PositionSpec] = field(default_factory=dict)
    partitions: Mapping[Partition, PositionSpec] = field(default_factory=dict)

    def of(self, partition: Partition) -> PositionSpec:
        """Return the place for one partition."""
        found = self.partitions.get(partition)
        return found if found is not None else self.topics.get(partition.topic, self.default)

    def places(self) -> Iterator[PositionSpec]:
        """Yield all that are named."""
        yield self.default
        yield from self.topics.values()
        yield from self.partitions.values()

    def named_topics(self) -> set[str]:
        """Return the topics that entries name."""
        return {*self.topics, *(partition.topic for partition in self.partitions)}


def parse_offsets(name: str, text: str, *, default: Edge, zone: tzinfo) -> Positions:
    """Parse the option `name`, which takes places.

    Raises:
        ConfigError: it is none.
    """

    def read(value: object) -> PositionSpec:
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return AtOffset(value)
        if isinstance(value, str) and not value.strip().isdigit():
            return _edge(value) or _group(name, text, value) or _time(name, text, value, zone)
        raise bad(name, text)

    word = text.strip()
    if not word.startswith("{"):
        place = _edge(word) or _group(name, text, word)
        if place is None:
            raise bad(name, text)
        return Positions(place)
    return _by_name(name, text, default, read)


def parse_times(name: str, text: str, *, default: Edge, zone: tzinfo) -> Positions:
    """Parse the option `name`, which takes times.

    Raises:
        ConfigError: it is none.
    """

    def read(value: object) -> PositionSpec:
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_MS:
            return AtTime(value)
        if isinstance(value, str):
            return _time(name, text, value, zone)
        raise bad(name, text)

    return _by_name(name, text, default, read) if text.strip().startswith("{") else Positions(read(text))


def bad(name: str, value: str) -> ConfigError:
    """Return the error for a value that an option does not take."""
    return ConfigError(f"option {name} = {value[:200]!r} is not valid", hint=f"{name} takes {takes(name)}")


def _by_name(name: str, text: str, default: Edge, read: Callable[[object], PositionSpec]) -> Positions:
    try:
        entries = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise bad(name, text) from error
    if not isinstance(entries, dict) or len(entries) > MAX_ENTRIES:
        raise bad(name, text)
    topics: dict[str, PositionSpec] = {}
    partitions: dict[Partition, PositionSpec] = {}
    for key, value in entries.items():
        try:
            if ":" in key:
                partitions[Partition.parse(key)] = read(value)
            else:
                topics[check_topic(key)] = read(value)
        except (FormatError, MessageError) as error:
            raise bad(name, text) from error
    return Positions(default, topics, partitions)


def _edge(value: str) -> Edge | None:
    word = value.strip().lower()
    return Edge(word) if word in (Edge.EARLIEST, Edge.LATEST) else None


def _group(name: str, text: str, value: str) -> AtGroup | None:
    word = value.strip()
    if not word.lower().startswith(_GROUP):
        return None
    try:
        return AtGroup(check_group(word[len(_GROUP) :].strip()))
    except MessageError as error:
        raise bad(name, text) from error


def _time(name: str, text: str, value: str, zone: tzinfo) -> AtTime:
    word = value.strip()
    if word.isascii() and word.isdigit() and int(word[:16]) <= _MAX_MS and len(word) <= 15:
        return AtTime(int(word))
    if found := _AGO.fullmatch(word.lower()):
        return AtTime(ago_ms=int(found[1]) * _UNIT_MS[found[2]])
    try:
        time = datetime.fromisoformat(word)
        time = time if time.tzinfo is not None else time.replace(tzinfo=zone)
        return AtTime(max(0, round(time.astimezone(UTC).timestamp() * 1000)))
    except (ValueError, OverflowError) as error:
        raise bad(name, text) from error
