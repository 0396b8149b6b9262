"""Rate-limited warnings about peers, so that a crowd of them cannot fill a disk with log lines.

The invariant: the first warnings of a period are logged, and one more line counts the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import logging

PERIOD_S: Final = 10.0
MOST_LINES: Final = 10
"""The most lines in one period."""


class PeerWarnings:
    """Rate-limited warnings of one kind that a server logs about its peers."""

    def __init__(self, logger: logging.Logger, name: str) -> None:
        self._logger = logger
        self._name = name
        self._since_s = float("-inf")
        self._lines = 0

    def warning(self, text: str, now_s: float) -> None:
        """Log a warning, unless this period had too many."""
        self.log_rest(now_s)
        self._lines += 1
        if self._lines <= MOST_LINES:
            self._logger.warning("%s: %s", self._name, text)

    def log_rest(self, now_s: float) -> None:
        """Log how many warnings were left out, once a period is over."""
        if now_s - self._since_s < PERIOD_S:
            return
        if self._lines > MOST_LINES:
            self._logger.warning("%s: and %d more such connections", self._name, self._lines - MOST_LINES)
        self._since_s, self._lines = now_s, 0
