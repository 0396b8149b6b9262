"""The consumer of one assigned partition: it keeps the partition registered and hands out batch after batch.

The invariants: the next batch is fetched when the user may get it, never earlier; where reading continues elsewhere,
because somebody moved the group or the user asked for it, what was fetched before is void.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING

from pytubemq.client.consumer.batch_settlement import BatchSettlement
from pytubemq.client.consumer.confirms import ends_registration
from pytubemq.client.consumer.partition_fetcher import PartitionFetcher
from pytubemq.client.consumer.partition_registration import PartitionRegistration
from pytubemq.client.received.batch import Batch
from pytubemq.client.received.unpacker import Portions
from pytubemq.client.session.events import PositionMoved
from pytubemq.core.offsets import BatchState, Watermarks
from pytubemq.errors import Code, TransportError

if TYPE_CHECKING:
    from pytubemq.client.consumer.partition_fetcher import Fetch
    from pytubemq.client.consumer.partition_owner import PartitionOwner
    from pytubemq.client.options import FetchOptions
    from pytubemq.client.received.unpacker import Unpacked
    from pytubemq.errors import TubeError
    from pytubemq.model.ids import Address, Partition
    from pytubemq.wire.batch.fetch_batches import Fetched
    from pytubemq.wire.protocol.messages.broker import GetMessageResponseB2C

logger = logging.getLogger(__name__)


class PartitionConsumer:
    """The fetch loop of one partition, and its place in it."""

    def __init__(self, owner: PartitionOwner, partition: Partition, *, offset: int | None = None) -> None:
        """`offset`: the offset to begin at instead of the group's position; None begins at the group's position."""
        self.partition = partition
        self.marks = Watermarks()
        self._owner = owner
        self._changed = asyncio.Event()
        self.registration = PartitionRegistration(owner, partition, self._changed, offset=offset)
        self._fetcher = PartitionFetcher(owner, partition)
        self._settlement = BatchSettlement(owner, self, self.registration, self._fetcher)

    @property
    def address(self) -> Address:
        """The last known address of its Broker, not the one when the partition was assigned."""
        return self._owner.cluster.address_of(self.partition.broker_id)

    @property
    def registered(self) -> bool:
        """True if the Broker knows the registration, as far as this client knows."""
        return self.registration.stands

    async def run(self) -> None:
        """Keep the registration, and fetch whenever the user may get another batch."""
        while True:
            if not self.registration.stands and not await self._register_again():
                return
            wait_s = self.fetch_next()
            if self._fetcher.in_flight is not None:
                await self._receive(self._fetcher.in_flight)
            else:
                await self._wait_for_change(wait_s)

    def wake(self) -> None:
        """Wake the fetch loop after a change."""
        self._changed.set()

    async def _wait_for_change(self, wait_s: float | None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._changed.wait()
        self._changed.clear()

    # --- fetching -------------------------------------------------------------------------------------------

    def fetch_next(self) -> float | None:
        """Make the next batch ready or fetch it, if one is due; return how long to wait if not, None to wait for a
        change."""
        options, connection = self._owner.fetch_options, self.registration.connection
        fetcher, settlement = self._fetcher, self._settlement
        if options is None or connection is None or fetcher.in_flight is not None:
            return None
        if self.marks.hold is not BatchState.NOTHING or not settlement.confirms.allows_fetch(self.registration.number):
            return None
        if fetcher.remaining is not None:
            self._make_ready(fetcher.remaining, options)
            return None
        now_s = asyncio.get_running_loop().time()
        wait_s = max(fetcher.wait_s(now_s), settlement.backoff.wait_s(now_s))
        if wait_s > 0:
            return wait_s
        fetcher.send(connection, options)
        return None

    async def _receive(self, fetch: Fetch) -> None:
        """Wait for a fetch and make its messages ready."""
        try:
            fetched = await self._fetcher.receive(fetch, expected=self.marks.start)
        except TransportError as error:
            logger.info("%s: fetch: %s", self.partition, error.message)
            self.lose_registration()
            return
        if fetched is None:
            return
        head = fetched.head
        if head.err_code != Code.SUCCESS:
            self._handle_refusal(head)
        elif not self._settlement.confirms.blocks_fetch(head.curr_offset):
            found = self._fetcher.unpack(fetched, expected=self.marks.start)
            self._accept(fetched, found, fetch.options)

    def _accept(self, fetched: Fetched[GetMessageResponseB2C], found: Unpacked, options: FetchOptions) -> None:
        """Make the messages of a fetch ready, or pass by what holds none for the user."""
        head = fetched.head
        self._record_report_time()
        if not fetched.records and not fetched.damaged:
            self.marks.record_skip(head.next_offset, head.max_offset)
            return
        self.marks.record_newest(head.max_offset)
        self._fetcher.fetched_in = self.registration.number
        if found.messages:
            self._fetcher.record_start(head.curr_offset, len(found.messages))
            self._make_ready(Portions(found.messages, found.malformed, head.curr_offset, head.next_offset), options)
        else:
            ticket = self.marks.record_fetch(head.curr_offset, head.next_offset, head.max_offset)
            self._settlement.confirm_unseen(ticket)

    def _make_ready(self, portions: Portions, options: FetchOptions) -> None:
        """Make the next messages ready for the user."""
        portion = portions.take(options.max_messages, options.max_bytes)
        self._fetcher.remaining = portions if portions else None
        ticket = self.marks.record_fetch(portion.start, portion.end, None)
        settlement, messages = self._settlement, portion.messages
        settlement.batch_messages = len(messages)
        self._owner.count(fetched=len(messages))
        batch = Batch(self.partition, messages, portion.start, portion.end, holder=settlement, ticket=ticket)
        self._owner.add_ready(self, batch)

    def hand_out(self, batch: Batch) -> bool:
        """Hand the batch to the user; return False if it is no longer valid."""
        return self._settlement.hand_out(batch.ticket)

    def _handle_refusal(self, head: GetMessageResponseB2C) -> None:
        code, connection = head.err_code, self.registration.connection
        self.marks.record_newest(head.max_offset)
        if code == Code.NOT_FOUND and self.marks.hold is BatchState.NOTHING:
            self.marks.record_skip(head.next_offset, head.max_offset)  # a filter may have skipped what there was
        if connection is not None and ends_registration(connection, code):
            self.lose_registration()
        elif code not in (Code.NOT_FOUND, Code.SERVER_CONSUME_SPEED_LIMIT):
            logger.info("%s: fetch: %d %s", self.partition, code, head.err_msg)

    # --- registration and position --------------------------------------------------------------------------

    async def _register_again(self) -> bool:
        """Register until the Broker accepts; return False if the partition was given up."""
        error = await self.registration.keep_trying(self)
        if error is None:
            return True
        self._end(f"its partition was given up: {error.message}")
        self.registration.tried.set()
        self._owner.give_up(self, error)
        return False

    async def register(self) -> None:
        """Register once.

        Raises:
            TubeError: the Broker refuses, or cannot be reached.
        """
        response = await self.registration.register()
        self._record_report_time()
        if self.registration.shows_move(response):
            self._handle_move(response.curr_offset)
        self.marks.record_registration(response.curr_offset, response.max_offset)
        if self.marks.hold is BatchState.NOTHING:
            # what remains is behind a batch that nobody has taken, which the Broker hands out again
            self._fetcher.remaining = None

    def lose_registration(self) -> None:
        """Register again: the Broker does not know the registration any more, and begins at what is confirmed."""
        self._fetcher.forget()
        self.registration.lose()

    def _handle_move(self, offset: int | None) -> None:
        """Void the batches, because somebody has moved the group since the last registration."""
        self.marks.confirmed = None
        self._settlement.leave("its group was moved to another offset")
        logger.info("%s: the group was moved to offset %s", self.partition, offset)
        self._owner.emit(PositionMoved(self.partition, offset))

    def go_to_newest(self) -> None:
        """Register again at the partition's end. The user's batch cannot be confirmed any more."""
        self.registration.begin_at_newest()
        self._settlement.leave("its group was sent to the newest messages")
        self.lose_registration()

    async def seek(self, offset: int) -> int | None:
        """Register again at an offset and return the Broker's. The user's batch cannot be confirmed any more.

        Raises:
            StaleBatchError: the partition was revoked meanwhile.
        """
        while self._settlement.is_confirming:
            await self._settlement.wait_settled()
        self.registration.begin_at(offset)
        self._fetcher.forget_confirms()
        self.marks.confirmed = None
        self._settlement.leave("the consumer was sent to another offset")
        self.lose_registration()
        await self._settlement.wait_registered()
        return self.marks.start

    async def release(self, *, wait_s: float, timeout_s: float, reason: str | None = None) -> None:
        """Wait at most `wait_s` for the user to settle a batch, then unregister. Never confirms.

        Args:
            reason: why a batch in hand cannot be confirmed any more; None if the Master revoked the partition.
        """
        if wait_s > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    while self._settlement.is_in_use:
                        await self._settlement.wait_settled()
        self._end(reason or self._revoked_reason)
        await self.registration.give_back(timeout_s=timeout_s)

    @property
    def _revoked_reason(self) -> str:
        if self.registered:
            return "the Master reassigned its partition"
        return "its Broker could not be reached, and the Master has taken the partition back meanwhile"

    def fail(self, error: TubeError) -> None:
        """End what waits for a registration with the error that ended the consumer."""
        self.registration.fail(error)

    def _end(self, reason: str) -> None:
        """End the consumption of the partition, and wake everything that waits for it."""
        self._settlement.end(reason)
        self._fetcher.forget()
        self.registration.end()

    def _record_report_time(self) -> None:
        self.marks.reported_ms = time.time_ns() // 1_000_000
