"""Election by a lease that is stored where several Masters reach it.

The invariants: the lease passes from one holder to the next only as it was seen, so of several standbys one succeeds;
each leader has the next epoch; a leader counts its lease from before the renewal was sent, a standby from after it was
seen, each on its own monotonic clock, so the two never overlap while clocks run about equally fast. A leader that was
stopped, or cut from the store, stops leading by its own clock; the store refuses what it writes after that.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final

from pytubemq.core.database.database_limits import LEASE_RENEWALS, LEASE_S
from pytubemq.core.database.lease_watch import LeaseWatch, leads_until_s
from pytubemq.errors import ClosedError, TubeError, one_line
from pytubemq.net.clock import Clock, SystemClock

if TYPE_CHECKING:
    from pytubemq.net.elect.stored_lease import StoredLease

logger = logging.getLogger(__name__)

_LOOKS: Final = 12
"""The reads of a standby in the time of one lease, at least."""
_LOOK_S: Final = 0.25
"""The longest time between two reads, so that a lease that is given back is soon taken."""
_RETURN_LIMIT_S: Final = 1.0
"""The time for giving the lease back; without that, others wait until it ends."""


class LeaseElector:
    """`Elector` on a stored lease.

    Args:
        lease: the lease, which nobody else uses; closed with this.
        holder: this Master's address, which others see.
        lease_s: how long it leads after each renewal, in seconds.
    """

    def __init__(
        self, lease: StoredLease, holder: str, *, lease_s: float = LEASE_S, clock: Clock | None = None
    ) -> None:
        self._lease = lease
        self._holder = holder
        self._lease_s = lease_s
        self._clock = clock or SystemClock()
        self._watch = LeaseWatch()
        self._epoch = 0
        self._until_s = 0.0
        self._leader = ""
        self._said = ""
        self._reason = ""
        self._ended = asyncio.Event()
        self._tasks: tuple[asyncio.Task[None], ...] = ()

    @property
    def leads(self) -> bool:
        return self._epoch > 0 and not self._ended.is_set() and self._clock.now_s() < self._until_s

    @property
    def leader(self) -> str:
        return self._leader

    async def lead(self) -> int:
        while not self.leads:
            if self._ended.is_set():
                raise ClosedError("the election was closed")
            try:
                taken = await self._try_to_lead()
            except TubeError as error:
                if self._ended.is_set():
                    continue
                if not error.retriable:
                    raise
                self._say(logging.WARNING, f"the election waits: {one_line(error)}")
                taken = False
            if not taken:
                await asyncio.sleep(min(self._lease_s / _LOOKS, _LOOK_S))
        self._say(logging.INFO, f"this Master leads with epoch {self._epoch}")
        loop = asyncio.get_running_loop()
        self._tasks = (loop.create_task(self._renew()), loop.create_task(self._end_in_time()))
        for task in self._tasks:
            task.add_done_callback(self._end_with)
        return self._epoch

    async def until_lost(self) -> str:
        await self._ended.wait()
        return self._reason

    async def close(self) -> None:
        led = self.leads
        self._end("it was closed")
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task
        self._tasks = ()
        if led:
            try:
                await self._lease.give_back(self._epoch, limit_s=min(_RETURN_LIMIT_S, self._lease_s))
            except TubeError as error:
                logger.warning("the lease could not be given back and ends when its time is over: %s", one_line(error))
        self._lease.close()

    # --- a standby ----------------------------------------------------------------------------------------------

    async def _try_to_lead(self) -> bool:
        lease = await self._lease.see(limit_s=self._lease_s)
        if self._ended.is_set():
            return False
        self._leader = lease.holder
        if not self._watch.is_free(lease, now_s=self._clock.now_s()):
            self._say(logging.INFO, f"{lease.holder} leads with epoch {lease.epoch}; this Master stands by")
            return False
        sent_s = self._clock.now_s()
        if not await self._lease.take(lease, holder=self._holder, lease_s=self._lease_s, limit_s=self._lease_s):
            return False  # another one was faster
        self._epoch = lease.epoch + 1
        self._until_s, self._leader = leads_until_s(sent_s, self._lease_s), self._holder
        return True

    # --- a leader -----------------------------------------------------------------------------------------------

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._lease_s / LEASE_RENEWALS)
            # The limit is the rest of the lease: a response after that is of no use.
            sent_s = self._clock.now_s()
            left_s = self._until_s - sent_s
            if left_s <= 0:
                return
            try:
                renewed = await self._lease.renew(self._epoch, limit_s=left_s)
            except TubeError as error:
                self._say(logging.WARNING, f"the lease was not renewed: {one_line(error)}")
                continue
            if not renewed:
                self._end("another Master has taken the lease")
                return
            # One that arrives too late changes nothing: who led until then has stopped.
            if self.leads:
                self._until_s = leads_until_s(sent_s, self._lease_s)
                self._said = ""

    async def _end_in_time(self) -> None:
        """End the leadership when the lease does, whatever the renewal waits for."""
        while True:
            left_s = self._until_s - self._clock.now_s()
            if left_s <= 0:
                break
            await asyncio.sleep(left_s)
        self._end("its lease was not renewed in time")

    def _end_with(self, task: asyncio.Task[None]) -> None:
        """End the leadership with a task that failed; one that returned or was cancelled has its own reason."""
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("the renewal of the lease failed", exc_info=error)
            self._end(f"the renewal of the lease failed: {error!r}")

    def _end(self, reason: str) -> None:
        if self._ended.is_set():
            return
        if self._epoch:
            logger.info("this Master no longer leads: %s", reason)
        self._reason = reason
        self._ended.set()

    def _say(self, level: int, text: str) -> None:
        """Log what has changed since the last time."""
        if text != self._said:
            self._said = text
            logger.log(level, text)
