"""What a Broker does about old messages, now and then: it lets go of those that their topics keep no longer.

The invariant: nothing goes because a clock jumped. A pass begins only if wall clock and monotonic clock have gone the
same way since the one before; else it is put off to the next, which compares anew.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from pytubemq.errors import StorageError

if TYPE_CHECKING:
    from pytubemq.broker.state import BrokerState
    from pytubemq.storage.retention import Retained

logger = logging.getLogger(__name__)

FIRST_PASS_S: Final = 2.0
"""How soon after a start the first pass is made, so that a Broker that was away for long does not stay full."""
_MOST_DRIFT_MS: Final = 10_000
"""By how much the two clocks may differ over the time between two passes."""


class Housekeeping:
    """Retention of one Broker; `run` is a task of its service. Event loop only."""

    def __init__(self, state: BrokerState, *, period_s: float, first_s: float = FIRST_PASS_S) -> None:
        self.problem: str | None = None
        """Why the last pass was not made or failed; None after a good one."""
        self.passes = 0
        self.skipped = 0
        """Passes that were put off because a clock had jumped."""
        self.dropped_segments = 0
        self.dropped_messages = 0
        self.dropped_bytes = 0
        self._state = state
        self._period_s = period_s
        self._first_s = first_s
        self._clocks = self._read_clocks()

    async def run(self) -> None:
        """One pass after the other until cancelled."""
        await asyncio.sleep(min(self._first_s, self._period_s))
        while True:
            await self.one_pass()
            await asyncio.sleep(self._period_s)

    async def one_pass(self) -> None:
        """Let go of what no topic keeps any more, unless a clock has jumped."""
        before, self._clocks = self._clocks, self._read_clocks()
        drift_ms = (self._clocks[1] - before[1]) - (self._clocks[0] - before[0]) * 1000
        if abs(drift_ms) > _MOST_DRIFT_MS:
            self.skipped += 1
            self.problem = (
                f"retention: a pass was put off, the clock of this machine jumped by {drift_ms / 1000:+.0f} s"
            )
            logger.warning("%s", self.problem)
            return
        state, wall_ms = self._state, self._clocks[1]
        loop = asyncio.get_running_loop()
        try:
            gone = await loop.run_in_executor(None, state.store.retain, wall_ms)
        except StorageError as error:
            self._failed(error.message)
        except OSError as error:
            self._failed(str(error))
        else:
            self._done(gone)

    def _done(self, gone: Retained) -> None:
        self.passes += 1
        self.problem = None
        self.dropped_segments += gone.segments
        self.dropped_messages += gone.messages
        self.dropped_bytes += gone.bytes
        if gone.segments:
            logger.info(
                "retention let go of %d messages in %d files, %d bytes", gone.messages, gone.segments, gone.bytes
            )

    def _failed(self, text: str) -> None:
        problem = f"retention: {text}"
        if problem != self.problem:
            logger.error("%s", problem)
        self.problem = problem

    def _read_clocks(self) -> tuple[float, int]:
        """The monotonic clock in seconds, the wall clock in milliseconds."""
        clock = self._state.clock
        return clock.now_s(), clock.wall_ms()
