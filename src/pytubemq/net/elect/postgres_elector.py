"""Election by a lease in a PostgreSQL database, in the row of table `lease`.

The invariants: the row changes from one holder to the next by one statement that compares it with what was seen, so of
several standbys one succeeds; a leader counts its lease from before the renewal was sent, a standby from after it was
seen, each on its own monotonic clock, so the two never overlap while clocks run about equally fast. A leader that was
stopped, or cut from the database, stops leading by its own clock; the store refuses what it writes after that.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final

from pytubemq.core.database.database_limits import LEASE_RENEWALS, LEASE_S
from pytubemq.core.database.lease_watch import Lease, LeaseWatch, leads_until_s
from pytubemq.core.database.postgres_options import SCHEMA
from pytubemq.errors import ClosedError, CorruptError, TubeError, one_line
from pytubemq.net.clock import Clock, SystemClock
from pytubemq.net.elect.lease_connection import LeaseConnection

if TYPE_CHECKING:
    from pytubemq.core.database.postgres_options import PostgresOptions

logger = logging.getLogger(__name__)

_LOOKS: Final = 12
"""Looks of a standby at the lease in the time of one lease, at least."""
_LOOK_S: Final = 0.25
"""The longest time between two, so that a lease that is given back is soon taken."""
_CONNECT_S: Final = 30.0
"""The time for a standby's connection, in which no lease runs out: a URL may name several servers, the first of them
gone without a word, and each may take its own time (`DATABASE_CONNECT_TIMEOUT_S`)."""
_RETURN_LIMIT_S: Final = 1.0
"""The time for giving the lease back; without that, others wait until it ends."""
_SEE: Final = f"SELECT epoch, holder, renewals, lease_ms FROM {SCHEMA}.lease WHERE id = 1"
_TAKE: Final = (
    f"UPDATE {SCHEMA}.lease SET epoch = epoch + 1, holder = %s, renewals = renewals + 1, lease_ms = %s, "
    "until = clock_timestamp() + %s * interval '1 millisecond' "
    "WHERE id = 1 AND epoch = %s AND holder = %s AND renewals = %s RETURNING epoch"
)
# Without a wait for the disk: a renewal that a crash of the server undoes was in time all the same, and the next one
# is on its way. The epoch is never changed like this.
_RENEW: Final = (
    f"UPDATE {SCHEMA}.lease SET renewals = renewals + 1, until = clock_timestamp() + %s * interval '1 millisecond' "
    "FROM (SELECT set_config('synchronous_commit', 'off', true)) AS without_wait "
    "WHERE id = 1 AND epoch = %s RETURNING epoch"
)
_RETURN: Final = f"UPDATE {SCHEMA}.lease SET holder = '', until = clock_timestamp() WHERE id = 1 AND epoch = %s"


class PostgresElector:
    """`Elector` on a database whose tables are there (the store makes them).

    Args:
        options: the database.
        holder: this Master's address, which others see.
        lease_s: how long it leads after each renewal, in seconds.
    """

    def __init__(
        self, options: PostgresOptions, holder: str, *, lease_s: float = LEASE_S, clock: Clock | None = None
    ) -> None:
        self._options = options
        self._holder = holder
        self._lease_s = lease_s
        self._lease_ms = int(lease_s * 1000)
        self._clock = clock or SystemClock()
        self._connection = LeaseConnection(options, self._clock, statement_s=lease_s)
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
                await self._connection.row(_RETURN, (self._epoch,), limit_s=min(_RETURN_LIMIT_S, self._lease_s))
            except TubeError as error:
                logger.warning("the lease could not be given back and ends when its time is over: %s", one_line(error))
        self._connection.drop()

    # --- a standby ----------------------------------------------------------------------------------------------

    async def _try_to_lead(self) -> bool:
        found = await self._connection.row(_SEE, limit_s=self._lease_s, connect_s=_CONNECT_S)
        if found is None:
            raise CorruptError(
                f"the row of the lease is missing in the database {self._options.place}",
                hint="restore the database from a backup",
            )
        lease = Lease(int(found[0]), str(found[1]), int(found[2]), int(found[3]) / 1000)
        self._leader = lease.holder
        if not self._watch.is_free(lease, now_s=self._clock.now_s()):
            self._say(logging.INFO, f"{lease.holder} leads with epoch {lease.epoch}; this Master stands by")
            return False
        sent_s = self._clock.now_s()
        taken = await self._connection.row(
            _TAKE,
            (self._holder, self._lease_ms, self._lease_ms, lease.epoch, lease.holder, lease.renewals),
            limit_s=self._lease_s,
        )
        if taken is None:  # another one was faster
            return False
        self._epoch, self._until_s, self._leader = int(taken[0]), leads_until_s(sent_s, self._lease_s), self._holder
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
                renewed = await self._connection.row(_RENEW, (self._lease_ms, self._epoch), limit_s=left_s)
            except TubeError as error:
                self._say(logging.WARNING, f"the lease was not renewed: {one_line(error)}")
                continue
            if renewed is None:
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
