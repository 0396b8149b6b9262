"""The consumer of one assigned partition: its registration, fetches, position and confirms.

The invariants: at most one batch is with the user, and at most one before it has a confirm in flight; if that fails,
both come again, and what was fetched behind them is void; a fetch never confirms anything, only `confirm` does; a lost
registration is made again automatically, and the user's batch can still be confirmed afterwards if the Broker takes
confirms by offset.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING

from pytubemq.client.consumer.confirm_outcomes import UNDER_WAY, ConfirmOutcomes
from pytubemq.client.consumer.confirms import Confirm, ConfirmBackoff, Confirms, check_takes_parts, ends_registration
from pytubemq.client.consumer.fetch import Fetch, payload_bytes
from pytubemq.client.consumer.fetch_throttle import FetchThrottle
from pytubemq.client.consumer.skip_report import SkipReport
from pytubemq.client.received.batch import Batch
from pytubemq.client.received.unpacker import LOST_THERE, Portions, Unpacker
from pytubemq.client.session.cluster import is_refusal
from pytubemq.client.session.events import PositionMoved, Skipped, SlowConsumer
from pytubemq.client.session.registration import UNREGISTER_TIMEOUT_S, Registration
from pytubemq.client.start_position import Start
from pytubemq.core.offsets import Hold, Watermarks
from pytubemq.core.retry import BRIEF_S, Backoff, Verdict, verdict
from pytubemq.errors import Code, StaleBatchError, TransportError, TubeError
from pytubemq.wire.batch.fetch_batches import Pack, decode_get_message

if TYPE_CHECKING:
    from pytubemq.client.consumer.partition_owner import PartitionOwner
    from pytubemq.client.options import FetchOptions
    from pytubemq.model.ids import Address, Partition
    from pytubemq.net.client.connection import RpcConnection
    from pytubemq.wire.batch.fetch_batches import Fetched
    from pytubemq.wire.protocol.messages.broker import CommitOffsetResponseB2C, GetMessageResponseB2C

logger = logging.getLogger(__name__)

RETRY = Backoff(first_s=0.05, most_s=1.0)


class PartitionConsumer:
    """The registration, the fetch loop and the confirms of one partition."""

    def __init__(self, owner: PartitionOwner, partition: Partition, *, offset: int | None = None) -> None:
        """`offset`: the offset to begin at instead of the group's position; None begins at the group's position."""
        self.partition = partition
        self.marks = Watermarks()
        self.tried = asyncio.Event()
        """Set after the first registration, successful or not."""
        self.registered_s = float("-inf")
        """When the Broker last accepted a registration, by the loop's clock."""
        self.reported_ms = 0
        """When the Broker last reported offsets, milliseconds since 1970."""
        self._owner = owner
        self._cluster = owner.cluster
        self._offset = offset
        self._at_newest = False
        self._wanted = owner.options.filters.get(partition.topic)
        self._unpacker = Unpacker(partition, self._wanted)
        self._remaining: Portions | None = None
        """Fetched messages beyond the current batch."""
        self._throttle = FetchThrottle(partition, owner.options, owner.flow, owner.rates, rng=owner.cluster.rng)
        self._skip_report = SkipReport(owner, partition)
        self._registration = Registration(owner, partition)
        self._connection: RpcConnection | None = None
        self._registrations = self._fetched_in = 0
        self._fetch: Fetch | None = None
        self._confirms = Confirms(owner, self)
        self._backoff = ConfirmBackoff(partition, rng=owner.cluster.rng)
        self._skip_confirms: set[asyncio.Task[None]] = set()
        """Tasks that confirm fetches without a message for the user."""
        self._changed = asyncio.Event()
        self._settled = asyncio.Event()
        self._registered_again = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._batch_messages = 0
        self._outcomes = ConfirmOutcomes(partition)

    @property
    def address(self) -> Address:
        """The last known address of its Broker, not the one when the partition was assigned."""
        return self._cluster.address_of(self.partition.broker_id)

    @property
    def registered(self) -> bool:
        """True if the Broker knows the registration, as far as this client knows."""
        return self._connection is not None and not self._connection.closed

    async def run(self) -> None:
        """Keep the registration, and fetch whenever the user may get another batch."""
        while True:
            if not self.registered and not await self._keep_registered():
                return
            wait_s = self._fetch_next()
            if self._fetch is not None:
                await self._receive(self._fetch)
            else:
                await self._wait_for_change(wait_s)

    def _fetch_next(self) -> float | None:
        """Make the next batch ready or fetch it, if one is due; return how long to wait if not, None to wait for a
        change."""
        options = self._owner.fetch_options
        connection = self._connection
        if options is None or connection is None or self._fetch is not None:
            return None
        if self.marks.hold is not Hold.NOTHING or not self._confirms.allows_fetch(self._registrations):
            return None
        if self._remaining is not None:
            self._make_ready(self._remaining, options)
            return None
        now_s = asyncio.get_running_loop().time()
        wait_s = max(self._throttle.wait_s(now_s), self._backoff.wait_s(now_s))
        if wait_s > 0:
            return wait_s
        self._send_fetch(connection, options)
        return None

    def wake(self) -> None:
        """Wake the fetch loop after a change."""
        self._changed.set()

    async def _wait_for_change(self, wait_s: float | None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._changed.wait()
        self._changed.clear()

    def lose_registration(self) -> None:
        """Register again: the Broker does not know the registration any more."""
        self._connection = None
        self._remaining = None  # the Broker begins anew at what is confirmed
        self._forget_fetch()
        self._registered_again.clear()
        self.wake()

    # --- registration ---------------------------------------------------------------------------------------

    async def _keep_registered(self) -> bool:
        """Register, with retries; return False if the partition was given up."""
        loop = asyncio.get_running_loop()
        began_s, attempt = loop.time(), 0
        while True:
            try:
                await self.register()
            except TubeError as error:
                attempt += 1
                occupied_s = loop.time() - began_s if is_refusal(error, Code.PARTITION_OCCUPIED) else 0.0
                if occupied_s > self._owner.occupied_for_s or verdict(error) is Verdict.GIVE_UP:
                    await self._registration.give_back(timeout_s=UNREGISTER_TIMEOUT_S)  # an earlier one may stand
                    self._finish(f"its partition was given up: {error.message}")
                    self.tried.set()
                    self._owner.give_up(self, error)
                    return False
                logger.debug("%s: register: %s", self.partition, error.message)
                self.tried.set()
                if isinstance(error, TransportError):
                    await self._owner.report_unreachable(self, error, again=attempt > 1)
                elif not is_refusal(error, Code.PARTITION_OCCUPIED) and loop.time() - began_s > BRIEF_S:
                    await self._owner.report_unreachable(self, error, again=False)  # tried on, but no longer in silence
                await asyncio.sleep(RETRY.delay_s(attempt, self._cluster.rng))
            else:
                self.tried.set()
                self._owner.report_reached(self)
                return True

    async def register(self) -> None:
        """Register once.

        Raises:
            TubeError: the Broker refuses, or cannot be reached.
        """
        at_newest, offset = self._at_newest, self._offset
        connection, response = await self._registration.ask(
            read_status=self._read_status(), filters=self._wanted or (), offset=offset
        )
        self._registrations += 1
        self.registered_s = asyncio.get_running_loop().time()
        self._owner.registered_before.add(self.partition)
        self._offset = None if self._offset == offset else self._offset
        self._at_newest = self._at_newest and not at_newest
        self._record_report_time()
        if self._registration.shows_move(response):
            self._handle_move(response.curr_offset)
        self.marks.record_registration(response.curr_offset, response.max_offset)
        if self.marks.hold is Hold.NOTHING:
            self._remaining = None  # it lies behind a batch that nobody has taken, which the Broker hands out again
        if self._at_newest or self._offset is not None:
            return  # asked for meanwhile, so once more
        self._connection = connection
        connection.lost.add_done_callback(lambda _: self.wake())
        self._registered_again.set()

    def _handle_move(self, offset: int | None) -> None:
        """Void the batches, because somebody has moved the group since the last registration."""
        self.marks.confirmed = None
        self._leave("its group was moved to another offset")
        logger.info("%s: the group was moved to offset %s", self.partition, offset)
        self._owner.emit(PositionMoved(self.partition, offset))

    def _read_status(self) -> int:
        if self._at_newest:
            return Start.ALWAYS_LATEST.read_status
        known = self._offset is not None or self.partition in self._owner.registered_before
        return Start.EARLIEST.read_status if known else self._owner.options.start.read_status

    def go_to_newest(self) -> None:
        """Register again at the partition's end. The user's batch cannot be confirmed any more."""
        self._at_newest = True
        self._leave("its group was sent to the newest messages")
        self.lose_registration()

    async def seek(self, offset: int) -> int | None:
        """Register again at an offset and return the Broker's. The user's batch cannot be confirmed any more.

        Raises:
            StaleBatchError: the partition was revoked meanwhile.
        """
        while self.marks.hold is Hold.SETTLING or self._confirms.under_way is not None:
            self._settled.clear()
            await self._settled.wait()
        self._offset = offset
        self.marks.confirmed = None
        self._leave("the consumer was sent to another offset")
        self.lose_registration()
        await self.wait_registered()
        return self.marks.start

    def _leave(self, reason: str) -> None:
        """Void the current batch and a confirm in flight, because reading continues elsewhere."""
        self._outcomes.record_left(self.marks.ticket, reason)
        if self.marks.hold is not Hold.NOTHING:
            self._give_back(reason)
        self.marks.leave()

    async def release(self, *, wait_s: float, timeout_s: float, reason: str | None = None) -> None:
        """Wait at most `wait_s` for the user to settle a batch, then unregister. Never confirms.

        Args:
            reason: why a batch in hand cannot be confirmed any more; None if the Master revoked the partition.
        """
        if wait_s > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    while self._in_use:
                        self._settled.clear()
                        await self._settled.wait()
        self._finish(reason or self._revoked_reason)
        await self._registration.give_back(timeout_s=timeout_s)

    @property
    def _revoked_reason(self) -> str:
        if self.registered:
            return "the Master reassigned its partition"
        return "its Broker could not be reached, and the Master has taken the partition back meanwhile"

    @property
    def _in_use(self) -> bool:
        """True if the user has a batch, or a confirm is in flight."""
        return self.marks.hold in (Hold.HANDED_OUT, Hold.SETTLING) or self._confirms.under_way is not None

    def _finish(self, reason: str) -> None:
        """End the consumption of the partition, and wake everything that waits for it."""
        self._outcomes.end_reason = reason
        self._connection = None
        self._forget_fetch()
        for task in self._skip_confirms:
            task.cancel()
        self._stop_timer()
        self._registered_again.set()

    # --- fetching -------------------------------------------------------------------------------------------

    def _send_fetch(self, connection: RpcConnection, options: FetchOptions) -> None:
        """Send a fetch."""
        self._fetch = Fetch.send(self._owner, self.partition, connection, options, escapes=self._throttle.escapes)

    def _forget_fetch(self) -> None:
        """Give up the fetch in flight: the Broker hands its messages out again."""
        fetch, self._fetch = self._fetch, None
        if fetch is not None:
            fetch.give_up()

    async def _receive(self, fetch: Fetch) -> None:
        """Wait for a fetch and make its messages ready."""
        loop = asyncio.get_running_loop()
        error: TubeError | None = None
        try:
            fetched = decode_get_message((await fetch.response).body)
        except TubeError as problem:
            error = problem
        if self._fetch is not fetch:
            return  # it was given up
        self._fetch = None
        if isinstance(error, TransportError):
            logger.info("%s: fetch: %s", self.partition, error.message)
            self.lose_registration()
            return
        if error is not None:
            logger.warning("%s: fetch: %s", self.partition, error.message)
            self._throttle.record_failure(loop.time())
            return
        options = fetch.options
        now_s = loop.time()
        head = fetched.head
        self._throttle.record_response(
            head,
            messages=sum([one.columns.count if isinstance(one, Pack) else 1 for one in fetched.records]),
            size_bytes=payload_bytes(fetched) if self._throttle.counts_bytes else 0,
            held=fetch.limits and now_s - fetch.began_s >= options.max_wait_s / 2 > 0,
            now_s=now_s,
            emit=self._owner.emit,
        )
        self._skip_report.record_expired(head, now_s)
        if head.err_code != Code.SUCCESS:
            self._handle_fetch_refusal(head)
        elif not self._confirms.blocks_fetch(head.curr_offset):
            self._unpack(fetched, options)

    def _unpack(self, fetched: Fetched[GetMessageResponseB2C], options: FetchOptions) -> None:
        head = fetched.head
        if head.next_offset is None and not self._wanted:  # a Java Broker does not report expired messages
            self._skip_report.record_gap(self.marks.start, head, asyncio.get_running_loop().time())
        self._record_report_time()
        found = self._unpacker.read(fetched.records, fetched.damaged, start=head.curr_offset, end=head.next_offset)
        span = (None, None) if self._wanted else (head.curr_offset, head.next_offset)
        skipped = found.left_out(*span)
        if skipped:
            bad = found.unreadable[0] if found.unreadable else LOST_THERE
            self._owner.count(skipped=skipped)
            self._owner.emit(Skipped(self.partition, skipped, bad.reason, bad.offset))
            logger.error("%s: %d messages left out: %s", self.partition, skipped, bad.reason)
        if not fetched.records and not fetched.damaged:
            self.marks.record_skip(head.next_offset, head.max_offset)
            return
        self.marks.record_newest(head.max_offset)
        self._fetched_in = self._registrations
        if found.messages:
            self._make_ready(Portions(found.messages, found.malformed, head.curr_offset, head.next_offset), options)
            return
        # Nothing of it is for us, so there is nothing to handle: pass it by.
        ticket = self.marks.record_fetch(head.curr_offset, head.next_offset, head.max_offset)
        self._batch_messages = 0
        self.marks.record_delivery()
        task = asyncio.get_running_loop().create_task(self._confirm_skipped(ticket))
        self._skip_confirms.add(task)
        task.add_done_callback(self._skip_confirms.discard)

    async def _confirm_skipped(self, ticket: int) -> None:
        with contextlib.suppress(TubeError):
            await self.confirm(ticket)

    def _make_ready(self, portions: Portions, options: FetchOptions) -> None:
        """Make the next messages ready for the user."""
        portion = portions.take(options.max_messages, options.max_bytes)
        self._remaining = portions if portions else None
        ticket = self.marks.record_fetch(portion.start, portion.end, None)
        self._batch_messages = len(portion.messages)
        self._owner.count(fetched=len(portion.messages))
        self._owner.add_ready(
            self, Batch(self.partition, portion.messages, portion.start, portion.end, holder=self, ticket=ticket)
        )

    def _handle_fetch_refusal(self, head: GetMessageResponseB2C) -> None:
        code = head.err_code
        self.marks.record_newest(head.max_offset)
        if code == Code.NOT_FOUND and self.marks.hold is Hold.NOTHING:
            self.marks.record_skip(head.next_offset, head.max_offset)  # a filter may have skipped what there was
        if self._connection is not None and ends_registration(self._connection, code):
            self.lose_registration()
        elif code not in (Code.NOT_FOUND, Code.SERVER_CONSUME_SPEED_LIMIT):
            logger.info("%s: fetch: %d %s", self.partition, code, head.err_msg)

    # --- settling -------------------------------------------------------------------------------------------

    def hand_out(self, batch: Batch) -> bool:
        """Hand the batch to the user; return False if it is no longer valid."""
        ticket = batch.ticket
        if self._outcomes.end_reason is not None or self.marks.hold is not Hold.FETCHED or self.marks.ticket != ticket:
            return False
        self.marks.record_delivery()
        timeout_s = self._owner.options.confirm_timeout_s
        if timeout_s is not None:
            self._timer = asyncio.get_running_loop().call_later(timeout_s, self._expire, ticket, timeout_s)
        return True

    def holds(self, ticket: int) -> bool:
        """See `Batch.held`."""
        return self._outcomes.end_reason is None and self.marks.holds(ticket)

    async def confirm(self, ticket: int, *, up_to: int | None = None, messages: int | None = None) -> None:
        """See `Batch.confirm`."""
        if up_to is not None and self._connection is not None:
            check_takes_parts(self._connection, self.partition)
        self._claim(ticket)
        if up_to is not None and up_to != self.marks.fetched:
            self.marks.fetched, self._remaining = up_to, None  # the Broker goes on there
        if messages is not None:
            self._batch_messages = messages
        one = Confirm(ticket, end=self.marks.fetched, messages=self._batch_messages, fetched_in=self._fetched_in)
        self.marks.begin_confirm()
        self._outcomes.record(ticket, UNDER_WAY)
        try:
            await self._confirms.confirm(one)
        except BaseException as error:
            self._handle_failed_confirm(one, error)
            raise
        self._backoff.record_success()
        self._owner.count(confirmed=one.messages)
        if self._outcomes.is_last(ticket):
            self._outcomes.record(ticket, "it was confirmed before")
        self.marks.record_confirm(ticket)
        self._settled.set()
        self.wake()

    # --- its confirms call these ----------------------------------------------------------------------------

    def is_settling(self, ticket: int) -> bool:
        """True if the confirm of this batch still counts."""
        return self._outcomes.end_reason is None and self.marks.awaits_confirm(ticket)

    def stale_error(self, ticket: int) -> StaleBatchError:
        """Return the error that says why a batch cannot be settled."""
        return self._outcomes.stale_error(ticket, confirm_timeout_s=self._owner.options.confirm_timeout_s)

    async def wait_registered(self) -> tuple[RpcConnection, int]:
        """Wait for a registration to confirm in; return its connection and its number.

        Raises:
            StaleBatchError: the partition was revoked meanwhile.
        """
        while not self.registered:
            if self._outcomes.end_reason is not None:
                raise StaleBatchError(
                    f"this batch of {self.partition} is not held any more: {self._outcomes.end_reason}"
                )
            self._registered_again.clear()
            self.wake()
            await self._registered_again.wait()
        assert self._connection is not None
        return self._connection, self._registrations

    def follow_confirm(self, ticket: int) -> None:
        """Send the next fetch at once behind a confirm that was sent."""
        self.marks.move_ahead(ticket)
        self._fetch_next()
        self.wake()

    def record_confirm_response(self, response: CommitOffsetResponseB2C, *, by_offset: bool) -> None:
        """Record the offsets that the Broker reports with an accepted confirm."""
        self._record_report_time()
        self.marks.record_newest(response.max_offset)
        if not by_offset and self.marks.fetched is None and response.curr_offset is not None:
            self.marks.fetched = response.curr_offset  # a Java Broker tells the position only here

    def _handle_failed_confirm(self, one: Confirm, error: BaseException) -> None:
        """Have the batch of a failed confirm fetched again, and what was fetched behind it."""
        ticket, newest = one.ticket, self.marks.ticket
        if not self.marks.undo_confirm(ticket):
            self._settled.set()
            self.wake()  # its place was left meanwhile, and the next fetch may have waited for it
            return
        if newest != ticket:
            self._outcomes.record(newest, "the confirm of the batch before it failed")
        elif self._outcomes.is_last(ticket):
            self._outcomes.record(ticket, "its confirm failed")
        if isinstance(error, TubeError) and not isinstance(error, StaleBatchError):
            now_s = asyncio.get_running_loop().time()
            self._backoff.record_failure(error, messages=one.messages, now_s=now_s, emit=self._owner.emit)
        self._stop_timer()
        self._remaining = None
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
        raise self.stale_error(ticket)

    def _expire(self, ticket: int, held_s: float) -> None:
        if self.marks.holds(ticket):
            self._give_back(f"it was given back after {held_s:g} s without confirm")
            self._owner.emit(SlowConsumer(self.partition, self._batch_messages, held_s))

    def _give_back(self, reason: str) -> None:
        self._stop_timer()
        self._outcomes.record(self.marks.ticket, reason)
        self._remaining = None
        self.marks.give_back()
        self._settled.set()
        self.wake()

    def _record_report_time(self) -> None:
        self.reported_ms = time.time_ns() // 1_000_000

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
