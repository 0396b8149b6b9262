"""Timers of the Master's rooms.

The invariants: the loop wakes when the next time-out is due, or when there may be a sooner one; a fault in one room
does not stop the timers of the others; nothing times out at a Master that no longer leads, as when its process was
stopped for longer than its lease.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytubemq.net.clock import Clock

logger = logging.getLogger(__name__)

_LONGEST_SLEEP_S: Final = 1.0
_SHORTEST_SLEEP_S: Final = 0.01


class Timed(Protocol):
    """A room in which time passes."""

    def tick(self, now_s: float) -> None:
        """Do what is due."""
        ...

    def due_s(self) -> float | None:
        """The time at which `tick` has something to do next; None if nothing is due."""
        ...


class Timeouts:
    """The Master's timer; `on_fault` is called for a room whose time-outs failed."""

    def __init__(self, clock: Clock, on_fault: Callable[[str], None], leads: Callable[[], bool]) -> None:
        self._clock = clock
        self._leads = leads
        self._on_fault = on_fault
        self._poked = asyncio.Event()

    def poke(self) -> None:
        """Recompute the next wake-up, since something may be due sooner."""
        self._poked.set()

    async def run(self, rooms: Sequence[Timed]) -> None:
        """Run until cancelled."""
        while True:
            # What a room does in its tick may poke: without this, such rounds would follow each other in one turn.
            await asyncio.sleep(0)
            self._poked.clear()
            now_s = self._clock.now_s()
            for room in rooms if self._leads() else ():
                try:
                    room.tick(now_s)
                except Exception:
                    logger.exception("master: expiring what is overdue in %s failed", type(room).__name__)
                    self._on_fault(f"expiring clients of {type(room).__name__} failed")
            dues = [due for room in rooms if (due := room.due_s()) is not None]
            sleep_s = min(_LONGEST_SLEEP_S, min(dues, default=_LONGEST_SLEEP_S + now_s) - now_s)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(_SHORTEST_SLEEP_S, sleep_s)):
                    await self._poked.wait()
