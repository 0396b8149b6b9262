"""An amount per second, kept on average.

The invariant: over any time t no more than `per_s * (t + 1)` is taken, plus what came last: an amount is only known
when it has come, so what was too much is waited for afterwards.
"""

from __future__ import annotations


class Rate:
    """A bucket with the budget of one second."""

    __slots__ = ("_at_s", "_left", "per_s")

    def __init__(self, per_s: float) -> None:
        self.per_s = per_s
        self._left = per_s
        self._at_s: float | None = None

    def record(self, amount: float, now_s: float) -> None:
        """Record an amount that has come."""
        self._fill(now_s)
        # It may fall below 0: a fetch's size is known only when it has come, so what was too much is made up for later.
        self._left -= amount

    def wait_s(self, now_s: float) -> float:
        """Return how long to wait before more may be requested."""
        self._fill(now_s)
        return max(0.0, -self._left / self.per_s)

    def _fill(self, now_s: float) -> None:
        if self._at_s is not None and now_s > self._at_s:
            # Full at one second's amount, so that a pause saves up no larger burst.
            self._left = min(self.per_s, self._left + (now_s - self._at_s) * self.per_s)
        # Never back, or the same time would fill the bucket twice.
        self._at_s = now_s if self._at_s is None else max(now_s, self._at_s)
