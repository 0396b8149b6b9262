"""Welch's t: whether two samples of times may come from the same source."""

from __future__ import annotations

import math
from statistics import fmean, variance
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

BOUND: Final = 4.5
"""A larger |t| says that the times differ: by chance that happens once in some 100,000 runs."""
KEPT: Final = 0.95
"""The share of the shortest times that counts: the others were interrupted by something else."""


def welch_t(one: Sequence[float], other: Sequence[float]) -> float:
    """Return Welch's t of two samples of at least two values each; 0 where neither varies."""
    spread = variance(one) / len(one) + variance(other) / len(other)
    difference = fmean(one) - fmean(other)
    if not spread:
        return math.copysign(math.inf, difference) if difference else 0.0
    return difference / math.sqrt(spread)


def uninterrupted(one: Sequence[int], other: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return both samples without the times beyond `KEPT` of all of them together."""
    together = sorted([*one, *other])
    most = together[min(int(len(together) * KEPT), len(together) - 1)]
    return [time for time in one if time <= most], [time for time in other if time <= most]
