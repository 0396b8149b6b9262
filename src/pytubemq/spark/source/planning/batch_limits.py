"""The start of a stream's batch, and the rows that a task may get so that it does not fetch for too long.

The invariant: decisions only; time comes in. Nothing here makes a batch larger than what is asked for.
"""

from __future__ import annotations

from typing import Final

FIRST_TASK_ROWS: Final = 50_000
"""Rows of one partition in the first batches, until its speed is known; also the least later."""
_MOST_GROWTH: Final = 4.0


class TaskRowLimit:
    """The rows of one partition that a batch may have, by how long earlier batches took.

    Spark does not report to a source how long a task took, so the time of the whole batch is used: a task took no
    longer.
    """

    def __init__(self, fetch_s: float) -> None:
        self._fetch_s = fetch_s
        self._rows = FIRST_TASK_ROWS
        self._begun: tuple[float, int] | None = None

    @property
    def most_rows(self) -> int:
        """The most rows of one partition in the next batch."""
        return self._rows

    def begin(self, now_s: float, most_rows: int) -> None:
        """Note a planned batch that reads so many rows of one partition; they may be cut into several tasks."""
        self._begun = (now_s, most_rows)

    def end(self, now_s: float) -> None:
        """Note that the batch that was planned last is done."""
        if self._begun is None:
            return
        since_s, rows = self._begun
        self._begun = None
        took_s = max(now_s - since_s, 1e-3)
        if took_s > self._fetch_s:
            self._rows = max(FIRST_TASK_ROWS, int(rows * self._fetch_s / took_s))
        elif rows >= self._rows:  # it was this that bounded it
            self._rows = int(self._rows * min(_MOST_GROWTH, self._fetch_s / took_s))


class TriggerDelay:
    """Holds rows back until there are enough of them, but not for longer than a given time."""

    def __init__(self, min_rows: int, max_delay_s: float, now_s: float) -> None:
        self._min_rows = min_rows
        self._max_delay_s = max_delay_s
        self._since_s = now_s

    def should_wait(self, rows: int, now_s: float) -> bool:
        """True if a batch with so many rows is not begun yet."""
        if rows < self._min_rows and now_s - self._since_s < self._max_delay_s:
            return True
        if rows:
            self._since_s = now_s
        return False
