"""A range of a Java Broker's partition, in pieces.

The invariants: the pieces together are the messages of [start, end), each once and in order, because a piece is handed
out only after its end is known, and a new try begins where the last piece ended. Nothing waits for ever: a Broker that
is away, says nothing, or limits the reader is waited for as long as the constants below say.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from pytubemq.core.retry import Backoff, Verdict, verdict
from pytubemq.errors import (
    Code,
    CorruptError,
    NotAllowedError,
    NotRegisteredError,
    OccupiedError,
    OffsetMovedError,
    RefusedError,
    ThrottledError,
    TubeError,
)
from pytubemq.model.offset import messages_between
from pytubemq.spark.source.java.range_end import cut, dense, mark
from pytubemq.spark.source.planning.plan import Ends, OffsetRange, data_loss
from pytubemq.spark.source.read.source_connection import OUTAGE_S

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence

    from pytubemq.client.reader.range_group import FetchedRange, PartitionPosition
    from pytubemq.wire.batch.stored import StoredMessage

LIMITED_S: Final = 300.0
"""Seconds that a Broker's flow control may keep a task from reading anything: better it fails than it hangs."""
LEASE_S: Final = 35.0
"""Seconds to wait for a group that only one may use: a Broker frees a dead reader's partitions after 30 s."""
POLL_S: Final = 0.4
"""The pause after a fetch that brought nothing and moved nowhere, as the original's consumers make it."""
NO_CODE: Final = 0
"""The error of a Java Broker that failed to read its files after the first message."""
PAUSES: Final = Backoff(first_s=0.1, most_s=2.0)


class Hold(Protocol):
    """One partition held for a group; `client.reader.range_group.GroupRange`."""

    async def begin(self, offset: int) -> PartitionPosition: ...
    async def fetch(self) -> FetchedRange: ...
    async def end(self) -> None: ...


@dataclass(frozen=True, slots=True)
class RangePiece:
    """The partition's messages in [start, end); `dense`: one for each place there, so that each offset is known."""

    records: Sequence[StoredMessage]
    start: int
    end: int
    dense: bool


class RangeReading:
    """Reads one range. Use `pieces` once, then `close`."""

    def __init__(
        self,
        wanted: OffsetRange,
        *,
        hold: Callable[[str], Hold],
        names: Callable[[], Iterable[str]],
        renew_token: Callable[[], Awaitable[None]],
        fail_on_data_loss: bool,
        on_loss: Callable[[OffsetRange, Ends], None] | None = None,
        wait_for_group: bool = False,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        now_s: Callable[[], float] | None = None,
    ) -> None:
        """Create the reading; `hold` makes a hold for a group's name, of which `names` has those to try.

        `wait_for_group`: wait for one of them to become free, because there are no others.
        """
        self._wanted = wanted
        self._at, self._end = wanted.start, wanted.end
        self._make, self._names, self._renew_token = hold, names, renew_token
        self._fail, self._on_loss = fail_on_data_loss, on_loss
        self._wait_for_group = wait_for_group
        self._sleep = sleep
        self._now_s = now_s or (lambda: asyncio.get_running_loop().time())
        self._hold: Hold | None = None
        self._tries = 0
        self._since_s = self._limited_since_s = 0.0

    async def close(self) -> None:
        """Give the partition back. Idempotent, bounded in time."""
        hold, self._hold = self._hold, None
        if hold is not None:
            await hold.end()

    async def pieces(self) -> AsyncIterator[RangePiece]:
        """Yield the range, piece by piece.

        Raises:
            OffsetMovedError: the Broker no longer has all of it, and data loss is an error.
            OccupiedError: all groups that this task may use are held by others.
            ThrottledError: the Broker's flow control let nothing through for `LIMITED_S`.
            TubeError: the Broker was away for `OUTAGE_S`, or refuses for good.
        """
        self._progress()
        while self._at < self._end:
            try:
                piece = await self._next()
            except OffsetMovedError:
                raise
            except TubeError as error:
                await self._after(error)
                continue
            if piece is not None:
                self._at = piece.end
                self._progress()
                if piece.records:
                    yield piece

    async def _next(self) -> RangePiece | None:
        """Fetch once and return what belongs to the range; None if there is nothing to hand out yet."""
        hold = self._hold
        if hold is None:
            hold = self._hold = await self._take()
            if self._at >= self._end:
                return None
        fetched = await hold.fetch()
        if fetched.wait_s > 0:
            await self._limited(fetched.wait_s)
            return None
        self._limited_since_s = self._now_s()
        if fetched.start != self._at:
            raise self._moved(f"moved its reader from {self._at} to {fetched.start}")  # a new registration shows why
        self._check(fetched)
        if fetched.end == fetched.start:
            await self._nothing(fetched)
            return None
        if fetched.end <= self._end:
            is_dense = dense(len(fetched.records), fetched.start, fetched.end)
            return RangePiece(fetched.records, fetched.start, fetched.end, is_dense)
        return await self._last(hold, fetched)

    def _check(self, fetched: FetchedRange) -> None:
        if len(fetched.records) > messages_between(fetched.start, fetched.end):
            raise self._moved(f"gave {len(fetched.records)} messages for the offsets {fetched.start} to {fetched.end}")

    async def _last(self, hold: Hold, fetched: FetchedRange) -> RangePiece | None:
        """Cut the piece from a fetch that went beyond the range's end."""
        if dense(len(fetched.records), fetched.start, fetched.end):
            kept = messages_between(fetched.start, self._end)
            return RangePiece(fetched.records[:kept], fetched.start, self._end, dense=True)
        if not fetched.records:
            return RangePiece((), fetched.start, self._end, dense=False)
        found = await self._cut(hold, fetched)
        if found is None:
            return None
        is_dense = dense(found, fetched.start, self._end)
        return RangePiece(fetched.records[:found], fetched.start, self._end, is_dense)

    async def _cut(self, hold: Hold, fetched: FetchedRange) -> int | None:
        """Count a fetch's messages before the range's end, and move the reader there."""
        position = await hold.begin(self._end)
        if position.at != self._end:
            # deleted, or lost, between two questions: which messages lay before the end cannot be found out any more
            await self.close()
            self._lost(self._at, self._end, Ends(position.at, position.newest))
            self._at = self._end
            return None
        pack = [mark(record) for record in fetched.records]
        sight = []
        at, since_s = self._end, self._now_s()
        while True:
            seen = await hold.fetch()
            self._check(seen)
            if seen.start != at:
                raise self._moved(f"moved its reader from {at} to {seen.start}")
            sight += [mark(record) for record in seen.records]
            at = seen.end
            found = cut(pack, sight, complete=at >= fetched.end)
            if found is not None:
                await self.close()
                return found
            if seen.wait_s > 0:
                await self._limited(seen.wait_s)
            elif seen.end == seen.start:
                if self._now_s() - since_s > OUTAGE_S:
                    raise self._silent(at, fetched.end)
                await self._sleep(POLL_S)

    async def _take(self) -> Hold:
        """Hold the partition where reading goes on, under the first name that is free."""
        occupied: OccupiedError | None = None
        for name in self._names():
            hold = self._make(name)
            try:
                position = await hold.begin(self._at)
            except OccupiedError as error:
                occupied = error
                continue
            except BaseException:
                await hold.end()
                raise
            try:
                self._check_position(position)
            except BaseException:
                await hold.end()
                raise
            return hold
        raise OccupiedError(
            f"partition {self._wanted.partition} is read by others under every group that this task may use",
            hint="a reader that was killed is forgotten after 30 s; two queries must not have the same readGroup",
            code=Code.PARTITION_OCCUPIED,
        ) from occupied

    def _check_position(self, position: PartitionPosition) -> None:
        """Compare where the Broker begins with where reading goes on: what lies between is gone."""
        ends = Ends(position.at, position.newest)
        if position.at > self._at:
            first, self._at = self._at, min(position.at, self._end)
            self._lost(first, self._at, ends)
        if position.newest < self._end:
            last, self._end = self._end, max(position.newest, self._at)
            self._lost(self._end, last, ends)

    def _lost(self, first: int, last: int, ends: Ends) -> None:
        if self._fail:
            raise data_loss(self._wanted, ends)
        if self._on_loss is not None:
            self._on_loss(OffsetRange(self._wanted.partition, first, last), ends)

    async def _nothing(self, fetched: FetchedRange) -> None:
        """Handle a fetch that brought nothing and moved nowhere, though the range goes on."""
        if fetched.newest < self._end:
            raise self._moved(f"ends at {fetched.newest}, before {self._end}")  # a new registration shows what is lost
        if self._now_s() - self._since_s > OUTAGE_S:
            raise self._silent(self._at, self._end)
        await self._sleep(POLL_S)

    async def _limited(self, wait_s: float) -> None:
        """Wait as the Broker's flow control says, but not for ever."""
        if self._now_s() - self._limited_since_s > LIMITED_S:
            raise ThrottledError(
                f"the Broker of {self._wanted.partition} has let nothing through for {LIMITED_S:.0f} s by its flow "
                f"control",
                hint="its Master has a flow-control rule that applies to how far this query is behind; change it",
                code=Code.SERVER_CONSUME_SPEED_LIMIT,
            )
        self._since_s = self._now_s()
        await self._sleep(min(wait_s, OUTAGE_S))

    async def _after(self, error: TubeError) -> None:
        """Get ready for another try, or raise: a new hold, so that nothing late from the old one can do harm."""
        await self.close()
        allowed_s = LEASE_S if isinstance(error, OccupiedError) and self._wait_for_group else _allowed_s(error)
        if allowed_s is None or self._now_s() - self._since_s > allowed_s:
            raise error
        if isinstance(error, RefusedError) and error.code == Code.CERTIFICATE_FAILURE:
            await self._renew_token()
        self._tries += 1
        await self._sleep(PAUSES.delay_s(self._tries, random.random))

    def _progress(self) -> None:
        self._tries = 0
        self._since_s = self._limited_since_s = self._now_s()

    def _moved(self, what: str) -> TubeError:
        return _MovedUnderneathError(f"the Java Broker of {self._wanted.partition} {what}")

    def _silent(self, at: int, end: int) -> CorruptError:
        return CorruptError(
            f"the Java Broker of {self._wanted.partition} returns nothing for the offsets {at} to {end} "
            f"({messages_between(at, end)} messages), although it has them",
            hint="its index may name data that it lost when it was killed; start behind them with startingOffsets",
        )


class _MovedUnderneathError(TubeError):
    """The Broker's responses contradict each other; reading anew from the last certain offset may help."""

    retriable = True


def _allowed_s(error: TubeError) -> float | None:
    """Return the seconds without progress after which `error` ends the task; None: at once."""
    if isinstance(error, (OccupiedError, ThrottledError)):
        return None  # they were waited for already
    if isinstance(error, (NotRegisteredError, NotAllowedError)):
        return OUTAGE_S  # its hold, the topic or the token is not known (yet): a Broker that has restarted
    if isinstance(error, RefusedError) and error.code == NO_CODE:
        return OUTAGE_S
    return None if verdict(error) is Verdict.GIVE_UP else OUTAGE_S
