"""Places to begin and end at, as one writes them in a file and at the command line; refused in those words."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Final

from pytubemq.errors import ConfigError
from pytubemq.spark.source.positions import AtTime, Edge, parse_offsets, parse_times

if TYPE_CHECKING:
    from pytubemq.spark.source.positions import PositionSpec

EDGES: Final = frozenset({"earliest", "latest"})
TAKES: Final = "write earliest, latest, group:NAME, a time as 2026-01-31T12:00:00Z, or one ago as -10m"


def is_time(place: str) -> bool:
    """True if a place is written as a time, be it one or not."""
    return place not in EDGES and not place.startswith("group:")


def read_edge(text: str) -> PositionSpec:
    """Parse the place that a text names; times without a zone are in UTC.

    Raises:
        ConfigError: it names none; the message goes behind the name of what holds it.
    """
    try:
        read = parse_times if is_time(text) else parse_offsets
        return read("startingOffsets", text, default=Edge.LATEST, zone=UTC).default
    except ConfigError as error:
        raise ConfigError(f"{text[:80]!r} is not a position in a topic", hint=TAKES) from error


def is_past(text: str, now_ms: int) -> bool:
    """True if a place is a time that is not still to come."""
    try:
        place = read_edge(text)
    except ConfigError:
        return False
    return isinstance(place, AtTime) and place.at_ms(now_ms) <= now_ms


def lies_before(one: str, other: str, now_ms: int) -> bool:
    """True if a place is surely before another: only edges and times can be compared without asking the cluster."""
    first, second = (_rank(read_edge(text), now_ms) for text in (one, other))
    return first is not None and second is not None and first < second


def _rank(place: PositionSpec, now_ms: int) -> float | None:
    if place is Edge.EARLIEST:
        return float("-inf")
    if place is Edge.LATEST:
        return now_ms
    return place.at_ms(now_ms) if isinstance(place, AtTime) else None
