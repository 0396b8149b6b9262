"""Messages that were submitted together, as record batches that are built once, before they are queued.

The invariants: all messages of a send go to one partition, in their order; its future ends when each message has a
receipt or an error, and not before; once one of its batches has been sent, none moves to another partition.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from pytubemq.client.producer.messages.record_batch import Header, RecordBatch
from pytubemq.client.producer.receipts import AcceptedSpan, Receipts
from pytubemq.errors import PartialSendError, TubeError
from pytubemq.model.ids import Partition
from pytubemq.wire.batch.record_batch import read_columns

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from pytubemq.client.producer.messages.batch_encoding import EncodedBatches
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
        """`route` is None (any partition), a key, or the requested partition."""
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

    def _count_down(self, count: int) -> None:
        self._left -= count
        # The last batch's result ends the send, unless somebody has cancelled it.
        if self._left or self.future.done():
            return
        if not self._failed:
            self.future.set_result(Receipts(self.partition, self._spans))
            return
        first = next(iter(self._failed.values()))
        # The usual failure is of all for one reason, which is raised as it is.
        if not self._spans and all(error is first for error in self._failed.values()):
            self.future.set_exception(first)
            return
        # Only now an object for each message, since somebody has to look which are missing.
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


class BuiltBatch(RecordBatch):
    """One record batch of a send; `at` is the position of its first message in the send."""

    __slots__ = ("_columns", "at", "batch_send")

    def __init__(
        self, batch_send: BatchSend, at: int, columns: bytes, count: int, size_bytes: int, deadline_s: float, order: int
    ) -> None:
        super().__init__(batch_send.partition, deadline_s, order, count, size_bytes)
        self.batch_send = batch_send
        self.at = at
        self._columns = columns

    # --- where it may go ----------------------------------------------------------------------------------------

    @property
    def may_move(self) -> bool:
        return self.batch_send.route is None and not self.batch_send.started

    @property
    def may_leave_topic_partition(self) -> bool:
        return not self.batch_send.started and not isinstance(self.batch_send.route, Partition)

    @property
    def key(self) -> bytes | None:
        route = self.batch_send.route
        return None if isinstance(route, Partition) else route

    def move_to(self, partition: Partition) -> None:
        super().move_to(partition)
        self.batch_send.partition = partition

    # --- what is sent -------------------------------------------------------------------------------------------

    def columns(self) -> bytes:
        return self._columns

    def payloads_and_headers(self) -> tuple[Sequence[bytes], Sequence[Header] | None]:
        columns, send = read_columns(self._columns, check=False), self.batch_send
        payloads = [self._columns[start:end] for start, end in pairwise(columns.bounds())]
        # A send has one flag, type and time for all its messages.
        return payloads, [(columns.flag, send.msg_type, send.msg_time)] * self.count

    def mark_sent(self) -> None:
        self.batch_send.started = True

    def part(self, start: int, stop: int) -> BuiltBatch:
        columns = read_columns(self._columns, check=False)
        part = BuiltBatch(
            self.batch_send,
            self.at + start,
            # With a check of its own, as that of the whole does not cover a part.
            columns.part(start, stop),
            stop - start,
            sum(columns.lengths[start:stop]),
            self.deadline_s,
            self.order + start,
        )
        part._copy_state(self, start)
        return part

    def bytes_between(self, start: int, stop: int) -> int:
        if stop - start == self.count:
            return self.size_bytes
        return sum(read_columns(self._columns, check=False).lengths[start:stop])

    # --- results ------------------------------------------------------------------------------------------------

    @property
    def is_unwanted(self) -> bool:
        return self.batch_send.future.done()

    @property
    def is_partly_unwanted(self) -> bool:
        return self.batch_send.future.done()

    def fail(self, error: TubeError) -> int:
        waited_for = 0 if self.batch_send.future.done() else self.count
        self.batch_send.record_failed(self.at, self.count, error)
        return waited_for

    def deliver(
        self,
        start: int,
        count: int,
        message_id: int,
        offset: int | None,
        time_ms: int | None,
        *,
        repeated: bool = False,
    ) -> None:
        self.batch_send.record_accepted(AcceptedSpan(self.at + start, count, offset, message_id, time_ms, repeated))
