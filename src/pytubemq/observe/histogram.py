"""Durations in cells whose bounds are powers of two.

The invariants: adding a time costs the same however many there were; a cell's upper bound is never below a time in it;
counts only grow.

The unit is a 1,024th of a millisecond, so that the cells of whole milliseconds (the original's) and those of parts of
one have the same bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

UNITS_PER_S: Final = 1_024_000
CELLS: Final = 32
"""The number of cells; the last one has durations of 2^30 units (17 minutes) or longer."""


@dataclass(slots=True)
class Histogram:
    """Times by cell: cell 0 has those below one unit, cell n those from 2^(n-1) to below 2^n units."""

    cells: list[int] = field(default_factory=lambda: [0] * CELLS)
    count: int = 0
    sum_s: float = 0.0
    least_s: float | None = None
    most_s: float | None = None

    def add(self, taken_s: float, times: int = 1) -> None:
        """Count one duration, or several equal ones."""
        taken_s = max(0.0, taken_s)
        self.cells[min(int(taken_s * UNITS_PER_S).bit_length(), CELLS - 1)] += times
        self.count += times
        self.sum_s += taken_s * times
        if self.least_s is None or taken_s < self.least_s:
            self.least_s = taken_s
        if self.most_s is None or taken_s > self.most_s:
            self.most_s = taken_s

    def forget_extremes(self) -> None:
        """Reset the shortest and the longest duration; the counts continue."""
        self.least_s = self.most_s = None

    def below(self, first: int, last: int) -> list[tuple[float, int]]:
        """Return, for cells `first` to `last`, the upper bound in seconds and the number of shorter durations."""
        total = sum(self.cells[:first])
        found = []
        for cell in range(first, last + 1):
            total += self.cells[cell]
            found.append((bound_s(cell), total))
        return found


def bound_s(cell: int) -> float:
    """Return the upper bound of a cell's durations, in seconds."""
    return (1 << cell) / UNITS_PER_S
