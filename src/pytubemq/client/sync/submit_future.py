"""Futures of submitted messages, and the failures that nobody has asked for.

The invariant: a message that was not delivered is seen: by who asks its future, else in the log and by `flush` or the
end of the producer's block.
"""

from __future__ import annotations

import concurrent.futures
import logging
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from pytubemq.errors import SubmitError, TubeError, one_line

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)

_KEPT: Final = 1000
"""The latest failures whose futures may still be asked; of older ones only the number is kept."""
_LOG_PERIOD_S: Final = 10.0


class SubmitFuture(concurrent.futures.Future[Any]):
    """The future of one `submit`; it knows whether anybody has asked for its outcome."""

    def __init__(self) -> None:
        super().__init__()
        self.is_asked = False

    def result(self, timeout: float | None = None) -> Any:
        """Mark it as asked, and return the result."""
        self.is_asked = True
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Mark it as asked, and return the exception, None without one."""
        self.is_asked = True
        return super().exception(timeout)

    def add_done_callback(self, fn: Callable[[concurrent.futures.Future[Any]], object]) -> None:
        """Mark it as asked, and call `fn` when it is done."""
        self.is_asked = True
        super().add_done_callback(fn)


class UnaskedFailures:
    """The failures of one producer's submits, until somebody asks for them."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._lock = threading.Lock()
        self._kept: deque[tuple[SubmitFuture, int, TubeError]] = deque()
        self._older = 0
        self._first: TubeError | None = None
        """The first error among those of which only the number is kept."""
        self._unlogged = 0
        self._logged_s = float("-inf")

    def record(self, future: SubmitFuture, messages: int, error: TubeError) -> None:
        """Record that the messages of a future were not delivered."""
        if future.is_asked:
            return
        with self._lock:
            self._kept.append((future, messages, error))
            if len(self._kept) > _KEPT:
                old, count, first = self._kept.popleft()
                if not old.is_asked:
                    self._older += count
                    self._first = self._first or first
            self._unlogged += messages
            now_s = time.monotonic()
            if now_s - self._logged_s < _LOG_PERIOD_S:
                return
            self._logged_s, count, self._unlogged = now_s, self._unlogged, 0
        logger.error(
            "producer of %s: %d submitted messages were not delivered: %s", self._topic, count, one_line(error)
        )

    def raise_any(self) -> None:
        """Raise what nobody has asked for, once.

        Raises:
            SubmitError: there were such failures.
        """
        with self._lock:
            unasked = [(count, error) for future, count, error in self._kept if not future.is_asked]
            messages, first = self._older + sum(count for count, _ in unasked), self._first
            self._kept.clear()
            self._older, self._first = 0, None
        if first is None and unasked:
            first = unasked[0][1]
        if first is not None:
            raise SubmitError(messages, first)
