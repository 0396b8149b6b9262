"""Rate-limited log lines about what peers may do as often as they like.

The invariant: the first lines of a period are logged, and one more line counts the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.net.server.peer_warnings import PERIOD_S

if TYPE_CHECKING:
    import logging

MOST_LINES: Final = 50
"""The most lines in one period: more than a large cluster's Brokers make when it starts."""


class LimitedLog:
    """Lines of one kind at level INFO."""

    def __init__(self, logger: logging.Logger, others: str) -> None:
        self._logger = logger
        self._others = others
        self._since_s = float("-inf")
        self._lines = 0

    def info(self, now_s: float, text: str, *values: object) -> None:
        """Log a line, unless this period had too many."""
        self.log_rest(now_s)
        self._lines += 1
        if self._lines <= MOST_LINES:
            self._logger.info(text, *values)

    def log_rest(self, now_s: float) -> None:
        """Log how many lines were left out, once a period is over."""
        if now_s - self._since_s < PERIOD_S:
            return
        if self._lines > MOST_LINES:
            self._logger.info("and %d more %s", self._lines - MOST_LINES, self._others)
        self._since_s, self._lines = now_s, 0
