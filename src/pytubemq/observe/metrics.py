"""What a server tells of itself in figures, as values: which there are, and what they are now.

The invariants: a figure is read when somebody asks, never kept up to date for nobody; its labels are bounded in number
(`Shown`); counters never go down while their process runs, but for what OTHER adds up: a value that goes, or is told
apart from then on, takes its part with it.
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
"""Values of a label, such as topics, that are told apart; all others together are OTHER."""
OTHER: Final = "other"

Labels = tuple[str, ...]
"""Values, in the order of the metric's labels."""
Values = Mapping[Labels, float]
F = TypeVar("F")


@unique
class Kind(Enum):
    """What a figure is."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure by its name without PREFIX, in base units; that of a counter ends in `_total`."""

    name: str
    kind: Kind
    about: str
    labels: Labels = ()


@dataclass(frozen=True, slots=True)
class Reading:
    """What a metric is now: a value by its labels, or a histogram."""

    metric: Metric
    values: Values | Histogram


class Meter(Protocol):
    """Whatever has figures to tell."""

    def readings(self) -> Iterable[Reading]:
        """All of them, as they are now. May be called on any thread."""
        ...


@dataclass(frozen=True, slots=True)
class Source(Generic[F]):
    """A metric and how it is read from the facts of a server."""

    metric: Metric
    read: Callable[[F], float | Values | Histogram]

    def reading(self, facts: F) -> Reading:
        """What it is now."""
        found = self.read(facts)
        return Reading(self.metric, {(): found} if isinstance(found, int | float) else found)


def counter(name: str, about: str, read: Callable[[F], float | Values], labels: Labels = ()) -> Source[F]:
    """A figure that only grows."""
    return Source(Metric(name, Kind.COUNTER, about, labels), read)


def gauge(name: str, about: str, read: Callable[[F], float | Values], labels: Labels = ()) -> Source[F]:
    """A figure that goes up and down."""
    return Source(Metric(name, Kind.GAUGE, about, labels), read)


def times(name: str, about: str, read: Callable[[F], Histogram]) -> Source[F]:
    """How long something took."""
    return Source(Metric(name, Kind.HISTOGRAM, about), read)


class Shown:
    """Which values of a label are told apart: the weightiest when there was room, and those stay while they are there.

    So a counter does not jump because another value has overtaken this one.
    """

    def __init__(self, *, most: int = MOST_LABELS) -> None:
        self._most = most
        self._chosen: set[str] = set()

    def choose(self, weights: Mapping[str, float]) -> frozenset[str]:
        """The values that are told apart now, out of all that there are."""
        self._chosen.intersection_update(weights)
        room = self._most - len(self._chosen)
        if room > 0 and len(self._chosen) < len(weights):
            fresh = (value for value in weights if value not in self._chosen)
            self._chosen.update(nlargest(room, fresh, key=lambda value: weights[value]))
        return frozenset(self._chosen)


def grouped(values: Mapping[str, float], shown: frozenset[str]) -> Values:
    """Values by one label; those not shown are added up under OTHER."""
    found: dict[Labels, float] = {}
    for label, value in values.items():
        key = (label if label in shown else OTHER,)
        found[key] = found.get(key, 0) + value
    return found
