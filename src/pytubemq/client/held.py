"""One partition that this consumer holds: registered at its Broker, fetched from, confirmed.

The invariants: at most one batch is with the user, and at most one before it has a confirm under way; if that fails,
both come again, and whatever was fetched behind it counts no more; a fetch never confirms anything, only `confirm`
does; a registration that is lost is made again by itself, and the batch in the user's hands can still be confirmed
afterwards where the Broker takes confirms by offset.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING

from pytubemq.client.batch import Batch
from pytubemq.client.cluster import is_refusal
from pytubemq.client.confirm_backoff import ConfirmBackoff
from pytubemq.client.confirms import Confirm, Confirms, check_takes_parts, ends_registration
from pytubemq.client.events import PositionMoved, Skipped, SlowConsumer
from pytubemq.client.fetch import Fetch, payload_bytes
from pytubemq.client.options import Start
from pytubemq.client.outcomes import UNDER_WAY, Outcomes
from pytubemq.client.pace import Pace
from pytubemq.client.registration import UNREGISTER_TIMEOUT_S, Registration
from pytubemq.client.skip_report import SkipReport
from pytubemq.client.unpack import LOST_THERE, Portions, Unpacker
from pytubemq.core.offsets import Hold, Watermarks
from pytubemq.core.retry import BRIEF_S, Backoff, Verdict, verdict
from pytubemq.errors import Code, StaleBatchError, TransportError, TubeError
from pytubemq.wire.pack_fetch import Pack, decode_get_message

if TYPE_CHECKING:
    from pytubemq.client.keeping import Keeper
    from pytubemq.client.options import FetchOptions
    from pytubemq.model.ids import Address, Partition
    from pytubemq.net.connection import RpcConnection
    from pytubemq.wire.messages.broker import CommitOffsetResponseB2C, GetMessageResponseB2C
    from pytubemq.wire.pack_fetch import Fetched

logger = logging.getLogger(__name__)

RETRY = Backoff(first_s=0.05, most_s=1.0)


class HeldPartition:
    """Registration, fetch loop and settlement of one partition."""

    def __init__(self, keeper: Keeper, partition: Partition, *, offset: int | None = None) -> None:
        """`offset`: where to begin, whatever the group has confirmed; None leaves that to the group's position."""
        self.partition = partition
        self.marks = Watermarks()
        self.tried = asyncio.Event()
        """Set after the first registration, whatever came of it."""
        self.registered_s = float("-inf")
        """When the Broker last took a registration, by the loop's clock."""
        self.told_ms = 0
        """When the Broker last told of offsets, milliseconds since 1970."""
        self._keeper = keeper
        self._cluster = keeper.cluster
        self._offset = offset
        self._at_newest = False
        self._wanted = keeper.options.filters.get(partition.topic)
        self._unpacker = Unpacker(partition, self._wanted)
        self._rest: Portions | None = None
        """What a fetch brought beyond the batch that is held."""
        self._pace = Pace(partition, keeper.options, keeper.flow, keeper.rates, rng=keeper.cluster.rng)
        self._skip_report = SkipReport(keeper, partition)
        self._registration = Registration(keeper, partition)
        self._connection: RpcConnection | None = None
        self._registrations = self._fetched_in = 0
        self._fetch: Fetch | None = None
        self._confirms = Confirms(keeper, self)
        self._backoff = ConfirmBackoff(partition, rng=keeper.cluster.rng)
        self._passing: set[asyncio.Task[None]] = set()
        """These confirm what nobody is to handle."""
        self._changed = asyncio.Event()
        self._settled = asyncio.Event()
        self._registered_again = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._held_messages = 0
        self._outcomes = Outcomes(partition)

    @property
    def address(self) -> Address:
        """Where its Broker is, as far as anybody has told; not where it was when the partition was given to us."""
        return self._cluster.address_of(self.partition.broker_id)

    @property
    def registered(self) -> bool:
        """Whether the Broker knows us, as far as we know."""
        return self._connection is not None and not self._connection.closed

    async def run(self) -> None:
        """Keep the registration, and fetch whenever the user may get another batch."""
        while True:
            if not self.registered and not await self._keep_registered():
                return
            wait_s = self._go_on()
            if self._fetch is not None:
                await self._take(self._fetch)
            else:
                await self._nap(wait_s)

    def _go_on(self) -> float | None:
        """Have the next batch ready or on its way, if there is to be one; else how long to wait, None: for a change."""
        options = self._keeper.fetch_options
        connection = self._connection
        if options is None or connection is None or self._fetch is not None:
            return None
        if self.marks.hold is not Hold.NOTHING or not self._confirms.let_fetch(self._registrations):
            return None
        if self._rest is not None:
            self._bring(self._rest, options)
            return None
        now_s = asyncio.get_running_loop().time()
        wait_s = max(self._pace.wait_s(now_s), self._backoff.wait_s(now_s))
        if wait_s > 0:
            return wait_s
        self._ask(connection, options)
        return None

    def wake(self) -> None:
        """Something has changed: look again."""
        self._changed.set()

    async def _nap(self, wait_s: float | None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._changed.wait()
        self._changed.clear()

    def registration_lost(self) -> None:
        """The Broker does not know us any more."""
        self._connection = None
        self._rest = None  # the Broker begins anew at what is confirmed
        self._forget_fetch()
        self._registered_again.clear()
        self.wake()

    # --- registration ---------------------------------------------------------------------------------------

    async def _keep_registered(self) -> bool:
        """Register, again and again; False when the partition was given up."""
        loop = asyncio.get_running_loop()
        began_s, attempt = loop.time(), 0
        while True:
            try:
                await self.register()
            except TubeError as error:
                attempt += 1
                occupied_s = loop.time() - began_s if is_refusal(error, Code.PARTITION_OCCUPIED) else 0.0
                if occupied_s > self._keeper.occupied_for_s or verdict(error) is Verdict.GIVE_UP:
                    await self._registration.give_back(timeout_s=UNREGISTER_TIMEOUT_S)  # an earlier one may stand
                    self._finish(f"its partition was given up: {error.message}")
                    self.tried.set()
                    self._keeper.gave_up(self, error)
                    return False
                logger.debug("%s: register: %s", self.partition, error.message)
                self.tried.set()
                if isinstance(error, TransportError):
                    await self._keeper.unreachable(self, error, again=attempt > 1)
                elif verdict(error) is Verdict.RETRY_BRIEFLY and loop.time() - began_s > BRIEF_S:
                    await self._keeper.unreachable(self, error, again=False)  # tried on, but no longer in silence
                await asyncio.sleep(RETRY.delay_s(attempt, self._cluster.rng))
            else:
                self.tried.set()
                self._keeper.reached(self)
                return True

    async def register(self) -> None:
        """Register once.

        Raises:
            TubeError: the Broker refuses, or cannot be reached.
        """
        at_newest, offset = self._at_newest, self._offset
        connection, answer = await self._registration.ask(
            read_status=self._read_status(), filters=self._wanted or (), offset=offset
        )
        self._registrations += 1
        self.registered_s = asyncio.get_running_loop().time()
        self._keeper.seen.add(self.partition)
        self._offset = None if self._offset == offset else self._offset
        self._at_newest = self._at_newest and not at_newest
        self._told()
        if self._registration.shows_move(answer):
            self._moved(answer.curr_offset)
        self.marks.registered(answer.curr_offset, answer.max_offset)
        if self.marks.hold is Hold.NOTHING:
            self._rest = None  # it lies behind a batch that nobody has taken, which the Broker hands out again
        if self._at_newest or self._offset is not None:
            return  # asked for meanwhile, so once more
        self._connection = connection
        connection.lost.add_done_callback(lambda _: self.wake())
        self._registered_again.set()

    def _moved(self, offset: int | None) -> None:
        """Leave the place: somebody has moved the group since the last registration."""
        self.marks.confirmed = None
        self._leave("its group was moved to another place")
        logger.info("%s: the group was moved to offset %s", self.partition, offset)
        self._keeper.emit(PositionMoved(self.partition, offset))

    def _read_status(self) -> int:
        if self._at_newest:
            return Start.ALWAYS_LATEST.read_status
        known = self._offset is not None or self.partition in self._keeper.seen
        return Start.EARLIEST.read_status if known else self._keeper.options.start.read_status

    def go_to_newest(self) -> None:
        """Register anew at the partition's end; a batch in the user's hands is not held any more."""
        self._at_newest = True
        self._leave("its group was sent to the newest messages")
        self.registration_lost()

    async def seek(self, offset: int) -> int | None:
        """Register anew at an offset; returns where the Broker put us. A batch in hand is not held any more.

        Raises:
            StaleBatchError: the partition was revoked meanwhile.
        """
        while self.marks.hold is Hold.SETTLING or self._confirms.under_way is not None:
            self._settled.clear()
            await self._settled.wait()
        self._offset = offset
        self.marks.confirmed = None
        self._leave("the consumer was sent to another offset")
        self.registration_lost()
        await self.for_confirm()
        return self.marks.start

    def _leave(self, reason: str) -> None:
        """Void the current batch and a confirm in flight, because reading continues elsewhere."""
        self._outcomes.record_left(self.marks.ticket, reason)
        if self.marks.hold is not Hold.NOTHING:
            self._give_back(reason)
        self.marks.leave()

    async def release(self, *, wait_s: float, timeout_s: float, reason: str | None = None) -> None:
        """Let a batch in the user's hands be settled for `wait_s`, then unregister. Never confirms.

        Args:
            reason: why a batch in hand cannot be confirmed any more; None if the Master revoked the partition.
        """
        if wait_s > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    while self._in_use:
                        self._settled.clear()
                        await self._settled.wait()
        self._finish(reason or self._revoked)
        await self._registration.give_back(timeout_s=timeout_s)

    @property
    def _revoked(self) -> str:
        if self.registered:
            return "the Master assigned its partition anew"
        return "its Broker could not be reached, and the Master has taken the partition back meanwhile"

    @property
    def _in_use(self) -> bool:
        """Whether the user has a batch, or a confirm is under way."""
        return self.marks.hold in (Hold.HANDED_OUT, Hold.SETTLING) or self._confirms.under_way is not None

    def _finish(self, reason: str) -> None:
        """The partition is not ours any more; whoever waits for it hears so at once."""
        self._outcomes.over = reason
        self._connection = None
        self._forget_fetch()
        for task in self._passing:
            task.cancel()
        self._stop_timer()
        self._registered_again.set()

    # --- fetching -------------------------------------------------------------------------------------------

    def _ask(self, connection: RpcConnection, options: FetchOptions) -> None:
        """Send a fetch."""
        self._fetch = Fetch.send(self._keeper, self.partition, connection, options, escapes=self._pace.escapes)

    def _forget_fetch(self) -> None:
        """What a fetch under way brings does not count: the Broker hands it out again."""
        fetch, self._fetch = self._fetch, None
        if fetch is not None:
            fetch.give_up()

    async def _take(self, fetch: Fetch) -> None:
        """Wait for a fetch, and have what it brought ready."""
        loop = asyncio.get_running_loop()
        error: TubeError | None = None
        try:
            fetched = decode_get_message((await fetch.answer).body)
        except TubeError as problem:
            error = problem
        if self._fetch is not fetch:
            return  # it was given up
        self._fetch = None
        if isinstance(error, TransportError):
            logger.info("%s: fetch: %s", self.partition, error.message)
            self.registration_lost()
            return
        if error is not None:
            logger.warning("%s: fetch: %s", self.partition, error.message)
            self._pace.failed(loop.time())
            return
        options = fetch.options
        now_s = loop.time()
        head = fetched.head
        self._pace.answered(
            head,
            messages=sum([one.columns.count if isinstance(one, Pack) else 1 for one in fetched.records]),
            size_bytes=payload_bytes(fetched) if self._pace.counts_bytes else 0,
            held=fetch.limits and now_s - fetch.began_s >= options.max_wait_s / 2 > 0,
            now_s=now_s,
            emit=self._keeper.emit,
        )
        self._skip_report.record_reported(head, now_s)
        if head.err_code != Code.SUCCESS:
            self._not_served(head)
        elif not self._confirms.hold_fetches(head.curr_offset):
            self._took(fetched, options)

    def _took(self, fetched: Fetched[GetMessageResponseB2C], options: FetchOptions) -> None:
        head = fetched.head
        if head.next_offset is None and not self._wanted:  # a Java Broker does not report expired messages
            self._skip_report.record_gap(self.marks.start, head, asyncio.get_running_loop().time())
        self._told()
        found = self._unpacker.read(fetched.records, fetched.damaged, start=head.curr_offset, end=head.next_offset)
        span = (None, None) if self._wanted else (head.curr_offset, head.next_offset)
        skipped = found.left_out(*span)
        if skipped:
            bad = found.unreadable[0] if found.unreadable else LOST_THERE
            self._keeper.counted(skipped=skipped)
            self._keeper.emit(Skipped(self.partition, skipped, bad.reason, bad.offset))
            logger.error("%s: %d messages left out: %s", self.partition, skipped, bad.reason)
        if not fetched.records and not fetched.damaged:
            self.marks.skipped(head.next_offset, head.max_offset)
            return
        self.marks.saw_newest(head.max_offset)
        self._fetched_in = self._registrations
        if found.messages:
            self._bring(Portions(found.messages, found.malformed, head.curr_offset, head.next_offset), options)
            return
        # Nothing of it is for us, so there is nothing to handle: pass it by.
        ticket = self.marks.took(head.curr_offset, head.next_offset, head.max_offset)
        self._held_messages = 0
        self.marks.handed_out()
        passing = asyncio.get_running_loop().create_task(self._pass_by(ticket))
        self._passing.add(passing)
        passing.add_done_callback(self._passing.discard)

    async def _pass_by(self, ticket: int) -> None:
        with contextlib.suppress(TubeError):
            await self.confirm(ticket)

    def _bring(self, portions: Portions, options: FetchOptions) -> None:
        """Have the next messages ready for the user."""
        portion = portions.take(options.max_messages, options.max_bytes)
        self._rest = portions if portions else None
        ticket = self.marks.took(portion.start, portion.end, None)
        self._held_messages = len(portion.messages)
        self._keeper.counted(fetched=len(portion.messages))
        self._keeper.brought(
            self, Batch(self.partition, portion.messages, portion.start, portion.end, holder=self, ticket=ticket)
        )

    def _not_served(self, head: GetMessageResponseB2C) -> None:
        code = head.err_code
        self.marks.saw_newest(head.max_offset)
        if code == Code.NOT_FOUND and self.marks.hold is Hold.NOTHING:
            self.marks.skipped(head.next_offset, head.max_offset)  # a filter may have passed over what there was
        if self._connection is not None and ends_registration(self._connection, code):
            self.registration_lost()
        elif code not in (Code.NOT_FOUND, Code.SERVER_CONSUME_SPEED_LIMIT):
            logger.info("%s: fetch: %d %s", self.partition, code, head.err_msg)

    # --- settling -------------------------------------------------------------------------------------------

    def hand_out(self, batch: Batch) -> bool:
        """The user takes the batch; False if it is not there any more."""
        ticket = batch.ticket
        if self._outcomes.over is not None or self.marks.hold is not Hold.FETCHED or self.marks.ticket != ticket:
            return False
        self.marks.handed_out()
        timeout_s = self._keeper.options.confirm_timeout_s
        if timeout_s is not None:
            self._timer = asyncio.get_running_loop().call_later(timeout_s, self._expire, ticket, timeout_s)
        return True

    def holds(self, ticket: int) -> bool:
        """See `Batch.held`."""
        return self._outcomes.over is None and self.marks.holds(ticket)

    async def confirm(self, ticket: int, *, up_to: int | None = None, messages: int | None = None) -> None:
        """See `Batch.confirm`."""
        if up_to is not None and self._connection is not None:
            check_takes_parts(self._connection, self.partition)
        self._claim(ticket)
        if up_to is not None and up_to != self.marks.fetched:
            self.marks.fetched, self._rest = up_to, None  # the Broker goes on there
        if messages is not None:
            self._held_messages = messages
        one = Confirm(ticket, end=self.marks.fetched, messages=self._held_messages, fetched_in=self._fetched_in)
        self.marks.settling()
        self._outcomes.record(ticket, UNDER_WAY)
        try:
            await self._confirms.make(one)
        except BaseException as error:
            self._confirm_failed(one, error)
            raise
        self._backoff.record_success()
        self._keeper.counted(confirmed=one.messages)
        if self._outcomes.is_last(ticket):
            self._outcomes.record(ticket, "it was confirmed before")
        self.marks.settled(ticket)
        self._settled.set()
        self.wake()

    # --- its confirms call these ----------------------------------------------------------------------------

    def settles(self, ticket: int) -> bool:
        """True if the confirm of this batch still counts."""
        return self._outcomes.over is None and self.marks.settles(ticket)

    def stale(self, ticket: int) -> StaleBatchError:
        """Why a batch cannot be settled."""
        return self._outcomes.stale(ticket, confirm_timeout_s=self._keeper.options.confirm_timeout_s)

    async def for_confirm(self) -> tuple[RpcConnection, int]:
        """A registration to confirm in: its connection and its number; waits for one.

        Raises:
            StaleBatchError: the partition was revoked meanwhile.
        """
        while not self.registered:
            if self._outcomes.over is not None:
                raise StaleBatchError(f"this batch of {self.partition} is not held any more: {self._outcomes.over}")
            self._registered_again.clear()
            self.wake()
            await self._registered_again.wait()
        assert self._connection is not None
        return self._connection, self._registrations

    def went_on(self, ticket: int) -> None:
        """A confirm was sent that the next fetch can follow at once: it leaves with it."""
        self.marks.went_on(ticket)
        self._go_on()
        self.wake()

    def confirm_answered(self, answer: CommitOffsetResponseB2C, *, by_offset: bool) -> None:
        """The Broker has taken a confirm."""
        self._told()
        self.marks.saw_newest(answer.max_offset)
        if not by_offset and self.marks.fetched is None and answer.curr_offset is not None:
            self.marks.fetched = answer.curr_offset  # a Java Broker tells the position only here

    def _confirm_failed(self, one: Confirm, error: BaseException) -> None:
        """A confirm has no effect, or nobody knows: its batch comes again, and what was fetched behind it."""
        ticket, newest = one.ticket, self.marks.ticket
        if not self.marks.refused(ticket):
            self._settled.set()
            self.wake()  # its place was left meanwhile, and the next fetch may have waited for it
            return
        if newest != ticket:
            self._outcomes.record(newest, "the confirm of the batch before it failed")
        elif self._outcomes.is_last(ticket):
            self._outcomes.record(ticket, "its confirm failed")
        if isinstance(error, TubeError) and not isinstance(error, StaleBatchError):
            now_s = asyncio.get_running_loop().time()
            self._backoff.record_failure(error, messages=one.messages, now_s=now_s, emit=self._keeper.emit)
        self._stop_timer()
        self._rest = None
        self._forget_fetch()
        self._settled.set()
        self.wake()

    async def reject(self, ticket: int) -> None:
        """See `Batch.reject`. The next fetch makes the Broker hand the same messages out again."""
        self._claim(ticket)
        self._give_back("it was rejected")

    def _claim(self, ticket: int) -> None:
        self._cluster.check_usable()
        if self.holds(ticket):
            self._stop_timer()
            return
        raise self.stale(ticket)

    def _expire(self, ticket: int, held_s: float) -> None:
        if self.marks.holds(ticket):
            self._give_back(f"it was given back after {held_s:g} s without confirm")
            self._keeper.emit(SlowConsumer(self.partition, self._held_messages, held_s))

    def _give_back(self, reason: str) -> None:
        self._stop_timer()
        self._outcomes.record(self.marks.ticket, reason)
        self._rest = None
        self.marks.give_back()
        self._settled.set()
        self.wake()

    def _told(self) -> None:
        self.told_ms = time.time_ns() // 1_000_000

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
