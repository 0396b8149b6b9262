"""The settlement of one partition's batches: confirmed, rejected, or given back when their time is over.

The invariants: at most one batch is with the user, and at most one before it has a confirm in flight; if that fails,
both come again, and what was fetched behind them is void; the user's batch can still be confirmed after its
registration was lost, if the Broker takes confirms by offset.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from typing import TYPE_CHECKING, Protocol

from pytubemq.client.consumer.confirm_outcomes import UNDER_WAY, ConfirmOutcomes
from pytubemq.client.consumer.confirms import Confirm, ConfirmBackoff, Confirms, check_takes_parts
from pytubemq.client.session.events import SlowConsumer
from pytubemq.core.offsets import BatchState
from pytubemq.errors import StaleBatchError, TubeError
from pytubemq.model.limits import WARNING_PERIOD_S

if TYPE_CHECKING:
    from pytubemq.client.consumer.partition_fetcher import PartitionFetcher
    from pytubemq.client.consumer.partition_owner import PartitionOwner
    from pytubemq.client.consumer.partition_registration import PartitionRegistration
    from pytubemq.core.offsets import Watermarks
    from pytubemq.model.ids import Partition
    from pytubemq.net.client.connection import RpcConnection
    from pytubemq.wire.protocol.messages.broker import CommitOffsetResponseB2C


logger = logging.getLogger(__name__)


class FetchLoop(Protocol):
    """The part of a partition's fetch loop that the settlement of its batches needs."""

    partition: Partition
    marks: Watermarks

    def wake(self) -> None:
        """Wake the loop after a change."""

    def fetch_next(self) -> float | None:
        """Fetch the next batch, if one is due."""
        ...

    def lose_registration(self) -> None:
        """Register again: the Broker does not know the registration any more."""


class BatchSettlement:
    """Settles the batches of one partition, one after the other."""

    def __init__(
        self, owner: PartitionOwner, loop: FetchLoop, registration: PartitionRegistration, fetcher: PartitionFetcher
    ) -> None:
        self.partition = loop.partition
        self.confirms = Confirms(owner, self)
        self.backoff = ConfirmBackoff(loop.partition, rng=owner.cluster.rng)
        self.batch_messages = 0
        """Messages of the current batch."""
        self._owner = owner
        self._loop = loop
        self._marks = loop.marks
        self._registration = registration
        self._fetcher = fetcher
        self._outcomes = ConfirmOutcomes(loop.partition)
        self._timer: asyncio.TimerHandle | None = None
        self._forgotten_logged_s = -math.inf
        self._settled = asyncio.Event()
        self._skip_confirms: set[asyncio.Task[None]] = set()
        """Tasks that confirm fetches without a message for the user."""

    # --- the user's batch -----------------------------------------------------------------------------------

    def hand_out(self, ticket: int) -> bool:
        """Record that the user gets the batch; return False if it is no longer valid."""
        marks = self._marks
        if self._outcomes.end_reason is not None or marks.hold is not BatchState.FETCHED or marks.ticket != ticket:
            return False
        marks.record_delivery()
        timeout_s = self._owner.options.confirm_timeout_s
        if timeout_s is not None:
            self._timer = asyncio.get_running_loop().call_later(timeout_s, self._expire, ticket, timeout_s)
        return True

    def holds(self, ticket: int) -> bool:
        """See `Batch.held`."""
        return self._outcomes.end_reason is None and self._marks.holds(ticket)

    async def confirm(self, ticket: int, *, up_to: int | None = None, messages: int | None = None) -> None:
        """See `Batch.confirm`."""
        if up_to is not None and self._registration.connection is not None:
            check_takes_parts(self._registration.connection, self.partition)
        self._claim(ticket)
        if up_to is not None and up_to != self._marks.fetched:
            self._marks.fetched, self._fetcher.remaining = up_to, None  # the Broker goes on there
        if messages is not None:
            self.batch_messages = messages
        one = Confirm(
            ticket,
            start=self._marks.start,
            end=self._marks.fetched,
            messages=self.batch_messages,
            fetched_in=self._fetcher.fetched_in,
        )
        self._marks.begin_confirm()
        self._outcomes.record(ticket, UNDER_WAY)
        try:
            await self.confirms.confirm(one)
        except BaseException as error:
            self._handle_failed_confirm(one, error)
            raise
        self.backoff.record_success()
        self._fetcher.record_confirm(one.start, one.end)
        self._owner.count(confirmed=one.messages)
        if self._outcomes.is_last(ticket):
            self._outcomes.record(ticket, "it was confirmed before")
        self._marks.record_confirm(ticket)
        self._handle_settled()

    async def reject(self, ticket: int) -> None:
        """See `Batch.reject`. The next fetch makes the Broker hand the same messages out again."""
        self._claim(ticket)
        self.give_back("it was rejected")

    def confirm_unseen(self, ticket: int) -> None:
        """Confirm a fetch without a message for the user, in the background."""
        self.batch_messages = 0
        self._marks.record_delivery()
        task = asyncio.get_running_loop().create_task(self._confirm_unseen(ticket))
        self._skip_confirms.add(task)
        task.add_done_callback(self._skip_confirms.discard)

    async def _confirm_unseen(self, ticket: int) -> None:
        with contextlib.suppress(TubeError):
            await self.confirm(ticket)

    # --- its end --------------------------------------------------------------------------------------------

    def give_back(self, reason: str) -> None:
        """Give back the current batch, and say why; it comes again."""
        self._stop_timer()
        self._outcomes.record(self._marks.ticket, reason)
        self._fetcher.remaining = None
        self._marks.give_back()
        self._handle_settled()

    def leave(self, reason: str) -> None:
        """Void the current batch and a confirm in flight, because reading continues elsewhere."""
        self._outcomes.record_left(self._marks.ticket, reason)
        if self._marks.hold is not BatchState.NOTHING:
            self.give_back(reason)
        self._marks.leave()

    def end(self, reason: str) -> None:
        """Void all batches, because the partition is not consumed any more."""
        self._outcomes.end_reason = reason
        for task in self._skip_confirms:
            task.cancel()
        self._stop_timer()

    @property
    def is_in_use(self) -> bool:
        """True if the user has a batch, or a confirm is in flight."""
        return self._marks.hold is BatchState.HANDED_OUT or self.is_confirming

    @property
    def is_confirming(self) -> bool:
        """True if a confirm is in flight, or waits for one."""
        return self._marks.hold is BatchState.SETTLING or self.confirms.under_way is not None

    async def wait_settled(self) -> None:
        """Wait until a batch is settled."""
        self._settled.clear()
        await self._settled.wait()

    # --- its confirms call these ----------------------------------------------------------------------------

    def is_settling(self, ticket: int) -> bool:
        """True if the confirm of this batch still counts."""
        return self._outcomes.end_reason is None and self._marks.awaits_confirm(ticket)

    def stale_error(self, ticket: int) -> StaleBatchError:
        """Return the error that says why a batch cannot be settled."""
        return self._outcomes.stale_error(ticket, confirm_timeout_s=self._owner.options.confirm_timeout_s)

    async def wait_registered(self) -> tuple[RpcConnection, int]:
        """Wait for a registration to confirm in; return its connection and its number.

        Raises:
            StaleBatchError: the partition was revoked meanwhile.
            TubeError: the consumer has failed, so that nobody registers again.
        """
        registration = self._registration
        while not registration.stands:
            if self._outcomes.end_reason is not None:
                raise StaleBatchError(
                    f"this batch of {self.partition} can no longer be settled: {self._outcomes.end_reason}"
                )
            if registration.failure is not None:
                raise registration.failure
            await registration.wait_for_next()
        assert registration.connection is not None
        return registration.connection, registration.number

    def follow_confirm(self, ticket: int) -> None:
        """Send the next fetch at once behind a confirm that was sent."""
        self._marks.move_ahead(ticket)
        self._loop.fetch_next()
        self._loop.wake()

    def lose_registration(self) -> None:
        """Register again: the Broker does not know the registration any more."""
        self._loop.lose_registration()

    def record_confirm_response(self, response: CommitOffsetResponseB2C, *, by_offset: bool) -> None:
        """Record the offsets that the Broker reports with an accepted confirm."""
        marks = self._marks
        marks.reported_ms = time.time_ns() // 1_000_000
        marks.record_newest(response.max_offset)
        if not by_offset and marks.fetched is None and response.curr_offset is not None:
            marks.fetched = response.curr_offset  # a Java Broker gives the position only here

    # --- inside ---------------------------------------------------------------------------------------------

    def _handle_failed_confirm(self, one: Confirm, error: BaseException) -> None:
        """Have the batch of a failed confirm fetched again, and what was fetched behind it."""
        ticket, newest = one.ticket, self._marks.ticket
        if not self._marks.undo_confirm(ticket):
            self._handle_settled()  # its place was left meanwhile, and the next fetch may have waited for it
            return
        if newest != ticket:
            self._outcomes.record(newest, "the confirm of the batch before it failed")
        elif self._outcomes.is_last(ticket):
            self._outcomes.record(ticket, "its confirm failed")
        if isinstance(error, TubeError) and not isinstance(error, StaleBatchError):
            now_s = asyncio.get_running_loop().time()
            self.backoff.record_failure(error, messages=one.messages, now_s=now_s, emit=self._owner.emit)
        self._stop_timer()
        self._fetcher.forget()
        self._handle_settled()

    def _claim(self, ticket: int) -> None:
        self._owner.cluster.check_usable()
        if self.holds(ticket):
            self._stop_timer()
            return
        raise self.stale_error(ticket)

    def _expire(self, ticket: int, held_s: float) -> None:
        if self._marks.holds(ticket):
            self.give_back(f"it was given back after {held_s:g} s without confirm")
            self._warn_forgotten(held_s)
            self._owner.emit(SlowConsumer(self.partition, self.batch_messages, held_s))

    def _warn_forgotten(self, held_s: float) -> None:
        now_s = asyncio.get_running_loop().time()
        if now_s - self._forgotten_logged_s < WARNING_PERIOD_S:
            return
        self._forgotten_logged_s = now_s
        logger.warning(
            "%s: a batch of %s was neither confirmed nor rejected within %g s, so it comes again; confirm each batch "
            "when it is handled, or raise confirm_timeout_s",
            self._owner.options.group,
            self.partition,
            held_s,
        )

    def _handle_settled(self) -> None:
        self._settled.set()
        self._loop.wake()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
