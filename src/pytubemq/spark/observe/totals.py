"""Totals that a listener keeps of each query: its last lag, and counts since the query was first seen.

The invariant: counts of one name only grow, also over restarts of the query within the listener's life.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytubemq.spark.observe.lag import QueryLag


@dataclass(slots=True)
class QueryTotals:
    """One query, by its name."""

    last: QueryLag
    input_rows: int = 0
    batches: int = 0
    failures: int = 0
    active: bool = True

    def add(self, lag: QueryLag) -> None:
        """Add a batch; an idle look has no rows and counts as none."""
        self.last = lag
        self.active = True
        self.input_rows += lag.input_rows
        self.batches += lag.input_rows > 0
