"""Record batches of a producer until their results: their Broker, their retries, their end.

The invariant: every message ends with a receipt or an error; one that a Broker may have goes nowhere else if that
Broker detects duplicates.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pytubemq.client.producer.broker_sender import BrokerSender
from pytubemq.client.producer.messages.delivery_errors import final_error
from pytubemq.client.producer.partition_choice import is_partitions_own
from pytubemq.client.session.events import Connected, Lost
from pytubemq.core.retry import may_retry, refused_since_s
from pytubemq.errors import TubeError
from pytubemq.model.limits import UNANSWERED_BROKER_S

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytubemq.client.producer.messages.record_batch import RecordBatch
    from pytubemq.client.producer.partition_choice import PartitionChoice
    from pytubemq.client.producer.send_results import SendResults
    from pytubemq.client.producer.sender_context import SenderContext
    from pytubemq.model.ids import Partition

SWEEP_S = 0.5
OVERDUE_CHECK_S = UNANSWERED_BROKER_S / 10
"""Period in seconds of the check for Brokers that have not answered."""


class Delivery:
    """The senders of a producer, and the decisions about what they report."""

    def __init__(self, context: SenderContext, choice: PartitionChoice, *, timeout_s: float) -> None:
        """`timeout_s` is the time from submit to result."""
        self.delivered = 0
        self.failed = 0
        self.retried = 0
        self.uncertain = 0
        """Number of failed messages that a Broker may have all the same."""
        self.timeout_s = timeout_s
        self._context = context
        self._choice = choice
        self._senders: dict[int, BrokerSender] = {}
        self._touched: dict[int, BrokerSender] = {}
        """Senders with batches that were queued since the last flush."""
        self._lost: set[int] = set()
        """Brokers that could not be reached or did not serve, until they accept a message."""
        self._next_check_s = 0.0
        """Time of the next check for Brokers that do not respond."""
        self._sweeper: asyncio.TimerHandle | None = None

    @property
    def requests(self) -> int:
        """Number of requests sent."""
        return sum(sender.requests for sender in self._senders.values())

    def sender_of(self, broker_id: int) -> BrokerSender:
        """Return the sender to a Broker."""
        sender = self._senders.get(broker_id)
        if sender is None:
            sender = self._senders[broker_id] = BrokerSender(broker_id, self._context, self._handle)
        return sender

    # --- on the way to the Broker ---------------------------------------------------------------------------------

    def put(self, batch: RecordBatch) -> None:
        """Queue a batch at the sender to its Broker until the next `flush`."""
        sender = self.sender_of(batch.partition.broker_id)
        self._touched[sender.broker_id] = sender
        sender.put(batch)
        if self._sweeper is None:
            self._arm_sweeper()

    def flush(self) -> None:
        """Send what has been queued."""
        # Swapped first, as what is reported while sending may queue more.
        touched, self._touched = self._touched, {}
        for sender in touched.values():
            self._flush(sender)

    def check_overdue(self, now_s: float) -> None:
        """Skip Brokers that do not respond. What is queued for them stays there, to keep its order."""
        if now_s < self._next_check_s:
            return
        self._next_check_s = now_s + OVERDUE_CHECK_S
        awaited = {
            sender.broker_id: since_s for sender in self._senders.values() if (since_s := sender.awaited_since_s)
        }
        self._choice.pass_over_silent(awaited, now_s)

    def leave(self, gone: frozenset[Partition]) -> None:
        """Move what is queued for partitions that are gone, and retry what waits."""
        for sender in list(self._senders.values()) if gone else ():
            self._reroute(sender.take_homeless(gone))
        for sender in self._senders.values():
            sender.retry_now()

    def abandon(self, error: TubeError) -> None:
        """Fail everything that has no result."""
        for sender in self._senders.values():
            for batch in sender.abandon():
                self._fail(batch, error)
        # Who waits for room learns that there will be none.
        self._context.buffer.wake()

    def close(self) -> None:
        """Stop checking deadlines."""
        if self._sweeper is not None:
            self._sweeper.cancel()

    def _flush(self, sender: BrokerSender) -> None:
        if sender.queued:
            sender.flush()
            if sender.link.takes_batches and not sender.queued:
                self._choice.filling = None  # all that was gathered has been sent

    def _reroute(self, batches: Iterable[RecordBatch]) -> None:
        loop = asyncio.get_running_loop()
        for batch in batches:
            # Each key has a partition of its own among those that are left.
            for part in batch.split_by_key():
                part.move_to(self._choice.again(part.key, part.partition, loop.time()))
                self.put(part)
        if self._touched:
            loop.call_soon(self.flush)

    # --- results --------------------------------------------------------------------------------------------------

    def _handle(self, sender: BrokerSender, results: SendResults | TubeError) -> None:
        """Decide about what a sender reports."""
        # There was no connection, so nothing was sent: only where it goes next has to be decided.
        if isinstance(results, TubeError):
            self._report_lost(sender, results)
            self._record_failure(sender, results)
            return
        now_s = asyncio.get_running_loop().time()
        if results.accepted:
            self._report_regained(sender)
            self._choice.record_response(sender.broker_id, now_s)
            self.delivered += results.accepted
            self._context.buffer.remove(results.accepted, results.accepted_bytes)
        # The others have ended, with their error, in `_is_sent_again`.
        again = [(batch, error) for batch, error in results.failed if self._is_sent_again(batch, error, now_s)]
        if again:
            self._report_lost(sender, again[0][1])
            sender.retry(batch for batch, _ in again)
        # None as long as anything is in flight: others of the partition may still fail, and all go back in order.
        cause = sender.requeue_failed()
        if cause is not None:
            self._record_failure(sender, cause)
            sender.back_off()
        else:
            self._flush(sender)

    def _is_sent_again(self, batch: RecordBatch, error: TubeError, now_s: float) -> bool:
        """Return True if a batch is sent again after `error`; otherwise it has ended."""
        # Since the submit, whatever the number of tries: that is what the user's timeout is about.
        age_s = now_s - (batch.deadline_s - self.timeout_s)
        batch.refused_since_s = since_s = refused_since_s(error, now_s, batch.refused_since_s)
        refused_s = 0.0 if since_s is None else now_s - since_s
        if batch.is_unwanted or not may_retry(error, age_s=age_s, limit_s=self.timeout_s, refused_s=refused_s):
            self._fail(batch, final_error(batch, error))
            return False
        self.retried += batch.count
        if is_partitions_own(error):
            self._choice.record_partition_failure(batch.partition, now_s)
        return True

    def _record_failure(self, sender: BrokerSender, error: TubeError) -> None:
        """Leave the Broker out for a while and move its messages to other Brokers if there are any; or only those of a
        partition that it cannot serve."""
        if is_partitions_own(error):
            self._choice.filling = None
            # The Broker serves otherwise, so only what was for this partition leaves.
            self._reroute(sender.take_movable(lambda batch: self._choice.is_left_out(batch.partition)))
            return
        now_s = asyncio.get_running_loop().time()
        if self._choice.record_broker_failure(sender.broker_id, error, now_s):
            self._reroute(sender.take_movable())

    def _report_lost(self, sender: BrokerSender, error: TubeError) -> None:
        # One event for each loss, whatever the number of messages.
        if sender.broker_id not in self._lost:
            self._lost.add(sender.broker_id)
            self._context.cluster.emit(Lost(self._context.client_id, error, sender.link.address))

    def _report_regained(self, sender: BrokerSender) -> None:
        if sender.broker_id in self._lost:
            self._lost.remove(sender.broker_id)
            self._context.cluster.emit(Connected(self._context.client_id, sender.link.address))

    # --- ends -----------------------------------------------------------------------------------------------------

    def _arm_sweeper(self) -> None:
        period_s = min(SWEEP_S, self.timeout_s / 4)
        self._sweeper = asyncio.get_running_loop().call_later(period_s, self._sweep)

    def _sweep(self) -> None:
        """End queued messages that are past their deadline."""
        self._sweeper = None
        now_s = asyncio.get_running_loop().time()
        for sender in self._senders.values():
            for batch in sender.expire(now_s):
                self._fail(batch, final_error(batch, batch.cause))
        # No timer while nothing can expire.
        if self._context.buffer.messages:
            self._arm_sweeper()

    def _fail(self, batch: RecordBatch, error: TubeError) -> None:
        """End the messages of a batch with an error; nobody may wait for them any more."""
        failed = batch.fail(error)
        self.failed += failed
        if batch.uncertain:
            self.uncertain += failed
        self._context.buffer.remove(batch.count, batch.size_bytes)
