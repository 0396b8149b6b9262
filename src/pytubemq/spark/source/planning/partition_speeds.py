"""Slow partitions, and the rows that a batch reads of them so that it does not wait for them: decisions, no I/O.

The invariant: nothing here makes a batch larger, and a partition that has rows gets one at least.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median_high
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

SLOW: Final = 3.0
"""A partition is slow that takes so many times as long for a row as the one in the middle."""
LEAST_S: Final = 1.0
"""Seconds for which a slow partition may be read in any batch, however soon the others are done."""
HELD_S: Final = LEAST_S / 2
"""A partition that held its last task for less holds nobody up: few rows say little about speed."""
_OLD: Final = 0.5
"""The weight of earlier tasks when a task of a partition is reported."""


@dataclass(frozen=True, slots=True)
class _Read:
    """The measurements of a partition."""

    rows: float
    took_s: float
    last_s: float

    @property
    def per_s(self) -> float:
        return self.rows / self.took_s


class Speeds:
    """The speeds at which partitions were read in earlier batches."""

    def __init__(self) -> None:
        self._read: dict[str, _Read] = {}

    def add(self, partition: str, rows: int, took_s: float) -> None:
        """Record that a task has read so many rows of it, in so long."""
        took_s = max(took_s, 1e-6)
        old = self._read.get(partition, _Read(0.0, 0.0, 0.0))
        self._read[partition] = _Read(old.rows * _OLD + rows, old.took_s * _OLD + took_s, took_s)

    def keep(self, partitions: Collection[str]) -> None:
        """Forget all others."""
        self._read = {key: read for key, read in self._read.items() if key in partitions}

    def damped(self, rows: Mapping[str, int]) -> dict[str, int]:
        """Limit a batch's rows of slow partitions to what they deliver while the others are read, or in `LEAST_S`."""
        known = {key: self._read[key] for key, count in rows.items() if count and key in self._read}
        if not known:
            return dict(rows)
        middle = median_high(read.per_s for read in known.values())
        slow = {key for key, read in known.items() if read.last_s >= HELD_S and read.per_s * SLOW < middle}
        others_s = max((rows[key] / read.per_s for key, read in known.items() if key not in slow), default=0.0)
        time_s = max(LEAST_S, others_s)
        most = {key: max(1, int(known[key].per_s * time_s)) for key in slow}
        return {key: min(count, most.get(key, count)) for key, count in rows.items()}
