"""Messages that were submitted together, as record batches that are built once.

The invariants: all messages of a send go to one partition, in their order; its future ends when each message has a
receipt or an error, and not before; once one of its batches has been sent, none moves to another partition.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from pytubemq.client.producer.messages.pending_message import PendingMessage
from pytubemq.client.producer.receipts import AcceptedSpan, Receipts
from pytubemq.errors import ClosedError, PartialSendError, TubeError
from pytubemq.wire.batch.record_batch import read_columns

if TYPE_CHECKING:
    import asyncio

    from pytubemq.client.producer.messages.batch_encoding import EncodedBatches
    from pytubemq.model.ids import Partition
    from pytubemq.model.message import Receipt


class BatchSend:
    """The results of messages that were submitted together."""

    __slots__ = (
        "_failed",
        "_left",
        "_spans",
        "count",
        "future",
        "msg_time",
        "msg_type",
        "partition",
        "route",
        "started",
    )

    def __init__(
        self,
        encoded: EncodedBatches,
        future: asyncio.Future[Receipts],
        partition: Partition,
        route: bytes | Partition | None,
    ) -> None:
        self.count = count = encoded.messages
        self.msg_type = encoded.msg_type
        self.msg_time = encoded.msg_time
        self.future = future
        self.partition = partition
        self.route = route
        self.started = False
        """True if part of it has been sent."""
        self._left = count
        self._spans: list[AcceptedSpan] = []
        self._failed: dict[int, TubeError] = {}

    def record_accepted(self, span: AcceptedSpan) -> None:
        """Record messages that were accepted."""
        self._spans.append(span)
        self._count_down(span.messages)

    def record_failed(self, at: int, count: int, error: TubeError) -> None:
        """Record messages that failed."""
        for position in range(at, at + count):
            self._failed[position] = error
        self._count_down(count)

    def record_result(self, at: int, future: asyncio.Future[Receipt]) -> None:
        """Record the result of a message that was sent on its own."""
        error = None if future.cancelled() else future.exception()
        if future.cancelled():
            self.record_failed(at, 1, ClosedError("the message was dropped"))
        elif isinstance(error, TubeError):
            self.record_failed(at, 1, error)
        else:
            _, message_id, offset, time_ms, repeated = future.result()
            self.record_accepted(AcceptedSpan(at, 1, offset, message_id, time_ms, repeated))

    def _count_down(self, count: int) -> None:
        self._left -= count
        if self._left or self.future.done():
            return
        if not self._failed:
            self.future.set_result(Receipts(self.partition, self._spans))
            return
        first = next(iter(self._failed.values()))
        if not self._spans and all(error is first for error in self._failed.values()):
            self.future.set_exception(first)
            return
        receipts: list[Receipt | None] = [None] * self.count
        for span in self._spans:
            for number in range(span.messages):
                receipts[span.at + number] = span.receipt(self.partition, number)
        self.future.set_exception(
            PartialSendError(
                f"{len(self._failed):,} of {self.count:,} messages were not delivered to {self.partition}: "
                f"{first.message}",
                receipts=receipts,
                failed=dict(sorted(self._failed.items())),
            )
        )


class RecordBatch:
    """One record batch of a send; `at` is the position of its first message in the send."""

    __slots__ = (
        "at",
        "batch_send",
        "cause",
        "columns",
        "count",
        "deadline_s",
        "order",
        "sequence",
        "size_bytes",
        "tries",
        "uncertain",
    )

    def __init__(
        self, batch_send: BatchSend, at: int, columns: bytes, count: int, size_bytes: int, deadline_s: float, order: int
    ) -> None:
        self.batch_send = batch_send
        self.at = at
        self.columns = columns
        self.count = count
        self.size_bytes = size_bytes
        """Bytes of the messages, without those that the batch adds."""
        self.deadline_s = deadline_s
        self.order = order
        self.sequence: int | None = None
        """The sequence number of its first message; the others are consecutive."""
        self.tries = 0
        self.cause: BaseException | None = None
        self.uncertain = False

    @property
    def partition(self) -> Partition:
        """The partition of its send."""
        return self.batch_send.partition

    @property
    def may_move(self) -> bool:
        """True if it may go to any partition."""
        return self.batch_send.route is None and not self.batch_send.started

    @property
    def unwanted(self) -> bool:
        """True if nobody waits for its results."""
        return self.batch_send.future.done()

    def fail(self, error: TubeError) -> int:
        """Fail all messages with `error`; return how many were waited for."""
        waited_for = 0 if self.batch_send.future.done() else self.count
        self.batch_send.record_failed(self.at, self.count, error)
        return waited_for

    def bytes_between(self, start: int, stop: int) -> int:
        """Return the bytes of the messages from number `start` to before `stop`."""
        return sum(read_columns(self.columns, check=False).lengths[start:stop])

    def part(self, start: int, stop: int) -> RecordBatch:
        """Return the messages from number `start` to before `stop`, as a batch with the same state."""
        columns = read_columns(self.columns, check=False)
        part = RecordBatch(
            self.batch_send,
            self.at + start,
            columns.part(start, stop),
            stop - start,
            sum(columns.lengths[start:stop]),
            self.deadline_s,
            self.order + start,
        )
        part.sequence = None if self.sequence is None else self.sequence + start
        part.tries, part.cause, part.uncertain = self.tries, self.cause, self.uncertain
        return part

    def messages(self, loop: asyncio.AbstractEventLoop, stop: int) -> list[PendingMessage]:
        """Return the messages before number `stop`, each on its own, for a Broker that is not known to take record
        batches."""
        columns = read_columns(self.columns, check=False)
        part: list[PendingMessage] = []
        bounds = columns.bounds()[: stop + 1]
        for number, (start_at, end_at) in enumerate(pairwise(bounds)):
            payload = self.columns[start_at:end_at]
            future: asyncio.Future[Receipt] = loop.create_future()
            future.add_done_callback(partial(self.batch_send.record_result, self.at + number))
            encoded = (payload, columns.flag, self.batch_send.msg_type, self.batch_send.msg_time)
            one = PendingMessage(encoded, future, self.partition, self.partition, self.deadline_s, self.order + number)
            one.sequence = None if self.sequence is None else self.sequence + number
            one.tries, one.cause, one.uncertain = self.tries, self.cause, self.uncertain
            part.append(one)
        return part
