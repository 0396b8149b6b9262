"""What a measurement says: medians, ratios, and whether a target is met. Pure.

The invariant: a row whose figures are missing, or not finite, never counts as met.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import asdict, dataclass, field
from enum import Enum, unique
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@unique
class Reach(Enum):
    """What of a row has to reach its target, and from which side."""

    RATIO_AT_LEAST = "x"
    OURS_AT_MOST = "<="
    OURS_AT_LEAST = ">="


@dataclass(frozen=True, slots=True)
class Target:
    """A bound that a row has to keep. A row without one is only shown."""

    reach: Reach
    bound: float

    def is_met(self, ours: float | None, ratio: float | None) -> bool:
        """Whether these figures keep it."""
        value = ratio if self.reach is Reach.RATIO_AT_LEAST else ours
        if value is None or not math.isfinite(value):
            return False
        return value <= self.bound if self.reach is Reach.OURS_AT_MOST else value >= self.bound

    def text(self, unit: str) -> str:
        """As the table shows it, the unit being the row's."""
        if self.reach is Reach.RATIO_AT_LEAST:
            return f">= {self.bound:g} x"
        return f"{self.reach.value} {figure(self.bound)} {unit}"


def at_least(ratio: float) -> Target:
    """Ours divided by the peer's has to be this or more."""
    return Target(Reach.RATIO_AT_LEAST, ratio)


def at_most(value: float) -> Target:
    """Our figure has to be this or less."""
    return Target(Reach.OURS_AT_MOST, value)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the comparison."""

    measure: str
    """The measure that it belongs to, as named after --only."""
    what: str
    """What is compared with what."""
    unit: str
    ours: float | None
    peer: float | None = None
    target: Target | None = None
    note: str = ""
    runs: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """The single readings by their side."""

    @property
    def ratio(self) -> float | None:
        """Ours divided by the peer's."""
        return ratio(self.ours, self.peer)

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None when there is none."""
        return None if self.target is None else self.target.is_met(self.ours, self.ratio)

    def as_json(self) -> dict[str, Any]:
        """All of it in plain values; figures rounded to four significant digits."""
        target = None if self.target is None else asdict(self.target) | {"reach": self.target.reach.name.lower()}
        return {
            "measure": self.measure,
            "what": self.what,
            "unit": self.unit,
            "ours": _rounded(self.ours),
            "peer": _rounded(self.peer),
            "ratio": _rounded(self.ratio),
            "target": None if target is None else target["bound"],
            "target_is": None if target is None else target["reach"],
            "met": self.met,
            "note": self.note,
            "runs": {side: [_rounded(value) for value in values] for side, values in self.runs.items()},
        }


def failed_row(measure: str, error: str) -> Row:
    """The row of a measure that could not be taken: its target, whatever it is, is not met."""
    return Row(measure, "could not be measured", "", None, target=Target(Reach.OURS_AT_LEAST, 0), note=error)


def median(values: Sequence[float]) -> float | None:
    """The middle one; None of nothing."""
    return statistics.median(values) if values else None


def ratio(ours: float | None, peer: float | None) -> float | None:
    """Ours divided by the peer's; None where that says nothing."""
    if ours is None or peer is None or not math.isfinite(ours) or not math.isfinite(peer) or peer == 0:
        return None
    return ours / peer


def alternating(sides: Sequence[str], runs: int) -> list[tuple[int, str]]:
    """In which order the sides are run: in turn, and every other round backwards, so that none is always first."""
    order: list[tuple[int, str]] = []
    for number in range(runs):
        order += [(number, side) for side in (sides if number % 2 == 0 else tuple(reversed(sides)))]
    return order


def exit_code(rows: Sequence[Row]) -> int:
    """0: every target met; 1: one was missed; 2: something could not be measured."""
    if any(row.ours is None for row in rows):
        return 2
    return int(any(row.met is False for row in rows))


def figure(value: float | None) -> str:
    """A number as people read it: three or more significant digits."""
    if value is None:
        return "-"
    if not math.isfinite(value):
        return str(value)
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _rounded(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.4g}")
