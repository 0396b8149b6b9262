"""The background thread that carries messages from the journal into their partitions' logs.

The invariant: a failure here is kept, logged and shown in the Broker's health; one that may pass (a full disk, no file
handle) is retried, any other ends the thread, after which the append path refuses messages once its backlog is full.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from pytubemq.errors import DiskFullError, OutOfResourcesError, TubeError, one_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytubemq.storage.store.store import BrokerStore

logger = logging.getLogger(__name__)

IDLE_S: Final = 0.5
"""The longest time that messages stay in the journal before they are applied, if few arrive, in seconds."""
REST: Final = 10
"""The thread's pause, as a multiple of its last round, if few messages arrive: with thousands of partitions even a
small round costs much."""
LONGEST_REST_S: Final = 10.0
RETRY_S: Final = 1.0


class LogApplier:
    """The thread that runs `store.apply()` until it is closed."""

    def __init__(self, store: BrokerStore, *, on_progress: Callable[[], None]) -> None:
        """Prepare the thread; it calls `on_progress` after each round and after a failure."""
        self.error: BaseException | None = None
        """The last round's failure; None again after a successful one."""
        self.dead = False
        """True if a permanent failure ended the thread."""
        self._store = store
        self._on_progress = on_progress
        self._wake = threading.Event()
        self._stop = threading.Event()
        # A daemon: a disk that hangs must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name="pytubemq-apply", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def record_write(self) -> None:
        """Record that something was written to the journal."""
        # Asked on the loop, after every write, so that the thread is woken only when it is worth it.
        if self._store.worth_applying:
            self._wake.set()

    def close(self, *, timeout_s: float) -> bool:
        """Stop after the running round; False if that takes longer than `timeout_s`. Blocks."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            # With a bound, as a write to a disk that hangs never returns.
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        rest_s = IDLE_S
        while not self._stop.is_set():
            self._wake.wait(rest_s)
            # Before the round, so that what is written meanwhile begins another one.
            self._wake.clear()
            begun_s = time.monotonic()
            if not self._round():
                return
            rest_s = min(max(IDLE_S, REST * (time.monotonic() - begun_s)), LONGEST_REST_S)

    def _round(self) -> bool:
        """Apply everything in the journal; False if it must not be retried."""
        try:
            while self._store.apply():
                self._on_progress()
                # What is left is little, and goes with the next round: writes of a few bytes cost as much as large
                # ones.
                if self._stop.is_set() or not self._store.worth_applying:
                    break
        except (DiskFullError, OutOfResourcesError) as error:
            if self.error is None:
                logger.error("messages stay in the journal for now: %s", one_line(error))
            self.error = error
            self._on_progress()
            # Not on `_wake`: writes go on, and each of them would make it try again.
            self._stop.wait(RETRY_S)
            return True
        # Whatever it is, it has to show: without this thread the backlog fills up, and then sends are refused.
        except BaseException as error:
            # A traceback helps with faults in this program, not with those of a disk.
            expected = isinstance(error, TubeError)
            logger.error(
                "messages cannot be moved from the journal to their partitions: %s",
                one_line(error),
                exc_info=None if expected else error,
            )
            self.error, self.dead = error, True
            self._on_progress()
            return False
        if self.error is not None:
            logger.info("messages move from the journal to their partitions again")
        self.error = None
        return True
