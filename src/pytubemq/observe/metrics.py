"""A server's metrics as values: their names, kinds and current readings.

The invariants: a metric is read at a scrape and costs nothing in between; its labels are bounded in number (`Shown`);
counters never go down while their process runs, except for the sum under OTHER, which drops when a value leaves it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, unique
from heapq import nlargest
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from pytubemq.observe.histogram import Histogram

PREFIX: Final = "pytubemq_"
MOST_LABELS: Final = 1_000
"""Values of a label, such as topics, that are exported individually; all others are summed under OTHER."""
OTHER: Final = "other"

Labels = tuple[str, ...]
"""Values, in the order of the metric's labels."""
Values = Mapping[Labels, float]
F = TypeVar("F", contravariant=True)


@unique
class Kind(Enum):
    """The type of a metric in Prometheus's sense."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric by its name without PREFIX, in base units; a counter's name ends in `_total`."""

    name: str
    kind: Kind
    about: str
    labels: Labels = ()


@dataclass(frozen=True, slots=True)
class Reading:
    """A metric's current values by their labels, or its histogram."""

    metric: Metric
    values: Values | Histogram


class Meter(Protocol):
    """A port: an object with metrics to export."""

    def readings(self) -> Iterable[Reading]:
        """Return the current reading of each metric. May be called on any thread."""
        ...


@dataclass(frozen=True, slots=True)
class Source(Generic[F]):
    """A metric and how it is read from the facts of a server."""

    metric: Metric
    read: Callable[[F], float | Values | Histogram]

    def reading(self, facts: F) -> Reading:
        """Return the metric's current reading."""
        found = self.read(facts)
        return Reading(self.metric, {(): found} if isinstance(found, int | float) else found)


def counter(name: str, about: str, read: Callable[[F], float | Values], labels: Labels = ()) -> Source[F]:
    """Return the source of a metric that only grows."""
    return Source(Metric(name, Kind.COUNTER, about, labels), read)


def gauge(name: str, about: str, read: Callable[[F], float | Values], labels: Labels = ()) -> Source[F]:
    """Return the source of a metric that goes up and down."""
    return Source(Metric(name, Kind.GAUGE, about, labels), read)


def times(name: str, about: str, read: Callable[[F], Histogram]) -> Source[F]:
    """Return the source of a histogram of durations."""
    return Source(Metric(name, Kind.HISTOGRAM, about), read)


class Shown:
    """The values of a label that are exported individually.

    A free slot goes to the value with the greatest weight, which keeps it as long as it exists: a counter does not jump
    because another value has overtaken this one.
    """

    def __init__(self, *, most: int = MOST_LABELS) -> None:
        self._most = most
        self._chosen: set[str] = set()

    def choose(self, weights: Mapping[str, float]) -> frozenset[str]:
        """Return the values to export individually now, out of all that exist."""
        self._chosen.intersection_update(weights)
        room = self._most - len(self._chosen)
        if room > 0 and len(self._chosen) < len(weights):
            fresh = (value for value in weights if value not in self._chosen)
            self._chosen.update(nlargest(room, fresh, key=lambda value: weights[value]))
        return frozenset(self._chosen)


def grouped(values: Mapping[str, float], shown: frozenset[str]) -> Values:
    """Return values by one label, with those not shown summed under OTHER."""
    found: dict[Labels, float] = {}
    for label, value in values.items():
        key = (label if label in shown else OTHER,)
        found[key] = found.get(key, 0) + value
    return found
