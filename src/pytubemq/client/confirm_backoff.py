"""Backoff before a batch is fetched again after its confirm failed.

The invariants: the pause grows with each failure in a row up to its bound, and resets with a successful confirm. Each
failure counts, but events and log lines come at most once a minute for each partition.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from pytubemq.client.events import ConfirmFailed
from pytubemq.core.retry import Backoff

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytubemq.client.events import Event
    from pytubemq.core.retry import Rng
    from pytubemq.errors import TubeError
    from pytubemq.model.ids import Partition

logger = logging.getLogger(__name__)

BACKOFF: Final = Backoff(first_s=0.1, most_s=5.0)
REPORT_PERIOD_S: Final = 60.0


class ConfirmBackoff:
    """The backoff of one partition's confirms."""

    def __init__(self, partition: Partition, *, rng: Rng) -> None:
        self._partition = partition
        self._rng = rng
        self._failures = 0
        self._not_before_s = 0.0
        self._reported_s = float("-inf")

    def wait_s(self, now_s: float) -> float:
        """Return how long to wait before the next fetch."""
        return self._not_before_s - now_s if self._failures else 0.0

    def record_success(self) -> None:
        """Reset the backoff after a successful confirm."""
        self._failures = 0

    def record_failure(self, error: TubeError, *, messages: int, now_s: float, emit: Callable[[Event], None]) -> None:
        """Count a failure, and report it unless one was reported within REPORT_PERIOD_S."""
        self._failures += 1
        wait_s = BACKOFF.delay_s(self._failures, self._rng)
        self._not_before_s = now_s + wait_s
        if now_s - self._reported_s < REPORT_PERIOD_S:
            return
        self._reported_s = now_s
        logger.warning(
            "%s: the confirm of %d messages failed, they are fetched again in %.1f s (%d in a row): %s",
            self._partition, messages, wait_s, self._failures, error.message,
        )  # fmt: skip
        emit(ConfirmFailed(self._partition, messages, error, wait_s, self._failures))
