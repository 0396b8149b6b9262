"""A Broker's retention: passes that remove messages older or more than their topics keep.

The invariant: while this Broker runs, a clock that jumps and is corrected within HOLD_S removes nothing. Wall clock and
monotonic clock are compared before each pass; once they differ no pass is made until the wall clock is back, or has
kept its jump for so long. A jump before the start cannot be detected.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from pytubemq.broker.upkeep.retention_warnings import RetentionWarnings
from pytubemq.errors import StorageError

if TYPE_CHECKING:
    from pytubemq.broker.state import BrokerState
    from pytubemq.storage.log.retention import Retained

logger = logging.getLogger(__name__)

FIRST_PASS_S: Final = 2.0
"""The time from a start to the first pass, so that a Broker that was away for long does not stay full."""
HOLD_S: Final = 3600.0
"""The time that a jumped clock is not trusted: an operator can see it in health(), and correct it."""
_PASSES_AHEAD: Final = 2
"""Groups are warned at least this many passes before their unconfirmed messages are removed by age."""
_MOST_DRIFT_MS: Final = 10_000
"""The most that the two clocks may differ by between two passes."""


class RetentionPasses:
    """Retention of one Broker; `run` is a task of its service. Event loop only."""

    def __init__(self, state: BrokerState, *, period_s: float, first_s: float = FIRST_PASS_S) -> None:
        self.problem: str | None = None
        """The reason why the last pass was not made or failed; None after a successful one."""
        self.passes = 0
        self.skipped = 0
        """The number of passes that were skipped because a clock had jumped."""
        self.dropped_segments = 0
        self.dropped_messages = 0
        self.dropped_bytes = 0
        self.warnings = RetentionWarnings(state)
        """The groups about to lose unconfirmed messages."""
        self._state = state
        self._period_s = period_s
        self._first_s = first_s
        self._clocks = self._read_clocks()
        self._jumped_ms = 0.0
        """The deviation of the wall clock since it jumped; 0 once it is back or trusted."""
        self._believed_s = 0.0
        """The time at which it is trusted, by the monotonic clock."""

    async def run(self) -> None:
        """Make one pass after the other until cancelled."""
        await asyncio.sleep(min(self._first_s, self._period_s))
        while True:
            await self.one_pass()
            await asyncio.sleep(self._period_s)

    async def one_pass(self) -> None:
        """Remove expired messages unless the clock has jumped, and log the groups that lose or will soon lose some."""
        self._state.expired.log_due(self._state.clock.now_s())
        if self._is_held():
            self.skipped += 1
            left_min = max(1, round((self._believed_s - self._clocks[0]) / 60))
            self.problem = (
                f"retention: nothing is removed, the clock of this machine jumped by {self._jumped_ms / 1000:+.0f} s; "
                f"if it is wrong, correct it; else it is trusted in {left_min} min"
            )
            return
        state, wall_ms = self._state, self._clocks[1]
        loop = asyncio.get_running_loop()
        try:
            gone = await loop.run_in_executor(
                None, partial(state.store.retain, wall_ms, ahead_s=_PASSES_AHEAD * self._period_s)
            )
        except StorageError as error:
            self._record_failure(error.message)
        except OSError as error:
            self._record_failure(str(error))
        else:
            self._record_pass(gone)
            await self.warnings.look(gone.expiring)

    def _is_held(self) -> bool:
        """True if the wall clock is not to be trusted now; compares the clocks."""
        before, self._clocks = self._clocks, self._read_clocks()
        drift_ms = (self._clocks[1] - before[1]) - (self._clocks[0] - before[0]) * 1000
        if abs(drift_ms) > _MOST_DRIFT_MS:
            self._jumped_ms += drift_ms
            self._believed_s = self._clocks[0] + HOLD_S
            logger.warning("retention waits: the clock of this machine jumped by %+.0f s", drift_ms / 1000)
            if abs(self._jumped_ms) <= _MOST_DRIFT_MS:
                self._jumped_ms = 0.0
                logger.warning("retention resumes: the clock of this machine is back")
        elif self._jumped_ms and self._clocks[0] >= self._believed_s:
            logger.warning("retention resumes: the clock has kept its jump of %+.0f s", self._jumped_ms / 1000)
            self._jumped_ms = 0.0
        return self._jumped_ms != 0.0

    def _record_pass(self, gone: Retained) -> None:
        self.passes += 1
        self.problem = None
        self.dropped_segments += gone.segments
        self.dropped_messages += gone.messages
        self.dropped_bytes += gone.bytes
        if gone.segments:
            logger.info("retention removed %d messages in %d files, %d bytes", gone.messages, gone.segments, gone.bytes)

    def _record_failure(self, text: str) -> None:
        problem = f"retention: {text}"
        if problem != self.problem:
            logger.error("%s", problem)
        self.problem = problem

    def _read_clocks(self) -> tuple[float, int]:
        """Return the monotonic clock in seconds and the wall clock in milliseconds."""
        clock = self._state.clock
        return clock.now_s(), clock.wall_ms()
