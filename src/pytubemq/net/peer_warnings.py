"""Log lines about peers, so many in a time: a crowd of them shall not fill a disk with what is said of each.

The invariant: the first ones of a period are named, and it is said how many were not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import logging

PERIOD_S: Final = 10.0
MOST_LINES: Final = 10
"""In each period."""


class PeerWarnings:
    """Warnings of one kind that a server gives about its peers."""

    def __init__(self, logger: logging.Logger, name: str) -> None:
        self._logger = logger
        self._name = name
        self._since_s = float("-inf")
        self._lines = 0

    def warning(self, text: str, now_s: float) -> None:
        """Log a warning, unless there were too many of late."""
        self.log_rest(now_s)
        self._lines += 1
        if self._lines <= MOST_LINES:
            self._logger.warning("%s: %s", self._name, text)

    def log_rest(self, now_s: float) -> None:
        """Log how many were left out, once a period is over."""
        if now_s - self._since_s < PERIOD_S:
            return
        if self._lines > MOST_LINES:
            self._logger.warning("%s: and %d more such connections", self._name, self._lines - MOST_LINES)
        self._since_s, self._lines = now_s, 0
