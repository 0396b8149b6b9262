"""Plain messages that were submitted one after the other and go to one partition together.

The invariants: they are in the order of their submission; each has a future of its own; only success is handled for all
at once, any other outcome for each message (`messages`).
"""

from __future__ import annotations

import asyncio
from itertools import repeat
from typing import TYPE_CHECKING, Final

from pytubemq.client.producer.messages.pending_message import PendingMessage
from pytubemq.model.message import Receipt

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytubemq.errors import TubeError
    from pytubemq.model.ids import Partition


_is_done: Final = asyncio.Future.done


class PlainBatch:
    """Messages of one partition without key, attributes, type and time. `order` is that of the first."""

    __slots__ = (
        "cause",
        "deadline_s",
        "futures",
        "max_messages",
        "order",
        "partition",
        "payloads",
        "room_bytes",
        "sequence",
        "size_bytes",
        "tries",
        "uncertain",
    )

    def __init__(
        self, partition: Partition, deadline_s: float, order: int, *, max_messages: int, room_bytes: int
    ) -> None:
        self.partition = partition
        self.payloads: list[bytes] = []
        self.futures: list[asyncio.Future[Receipt]] = []
        self.deadline_s = deadline_s
        """The deadline of the first message; the others came within the same loop turn, or the same linger time."""
        self.order = order
        self.max_messages = max_messages
        """Number of messages that fit."""
        self.room_bytes = room_bytes
        """Number of bytes that still fit."""
        self.size_bytes = 0
        """Set when the batch is queued."""
        self.sequence: int | None = None
        """The sequence number of its first message; the others are consecutive."""
        self.tries = 0
        self.cause: BaseException | None = None
        self.uncertain = False

    @property
    def count(self) -> int:
        """Number of messages."""
        return len(self.payloads)

    @property
    def may_move(self) -> bool:
        """True if it may go to any partition."""
        return True

    @property
    def unwanted(self) -> bool:
        """True if nobody waits for any of the results."""
        return all(map(_is_done, self.futures))

    @property
    def is_partly_unwanted(self) -> bool:
        """True if nobody waits for one or more of the results."""
        return True in map(_is_done, self.futures)

    def fail(self, error: TubeError) -> int:
        """Fail all messages with `error`; return how many were waited for."""
        waited_for = [future for future in self.futures if not future.done()]
        for future in waited_for:
            future.set_exception(error)
        return len(waited_for)

    def deliver(
        self,
        message_ids: Iterable[int],
        offsets: Iterable[int | None],
        appended_at_ms: int | None,
        *,
        repeated: bool = False,
        start: int = 0,
        stop: int | None = None,
    ) -> None:
        """Deliver the receipts of the messages from number `start` to before `stop`."""
        futures = self.futures if start == 0 and stop is None else self.futures[start:stop]
        receipts = zip(repeat(self.partition), message_ids, offsets, repeat(appended_at_ms), repeat(repeated))
        # half the time of calling the class
        for future, receipt in zip(futures, map(tuple.__new__, repeat(Receipt), receipts), strict=True):
            if not future.done():
                future.set_result(receipt)

    def bytes_between(self, start: int, stop: int) -> int:
        """Return the bytes of the messages from number `start` to before `stop`."""
        return self.size_bytes if stop - start == self.count else sum(map(len, self.payloads[start:stop]))

    def split(self, count: int) -> PlainBatch:
        """Remove and return the first messages, as a batch with the same state."""
        first = PlainBatch(self.partition, self.deadline_s, self.order, max_messages=count, room_bytes=0)
        first.payloads, self.payloads = self.payloads[:count], self.payloads[count:]
        first.futures, self.futures = self.futures[:count], self.futures[count:]
        first.sequence, first.tries = self.sequence, self.tries
        first.cause, first.uncertain = self.cause, self.uncertain
        first.size_bytes = sum(map(len, first.payloads))
        self.size_bytes -= first.size_bytes
        self.order += count
        if self.sequence is not None:
            self.sequence += count
        return first

    def message(self, number: int) -> PendingMessage:
        """Return one message on its own."""
        encoded = (self.payloads[number], 0, None, None)
        one = PendingMessage(encoded, self.futures[number], self.partition, None, self.deadline_s, self.order + number)
        one.sequence = None if self.sequence is None else self.sequence + number
        one.tries, one.cause, one.uncertain = self.tries, self.cause, self.uncertain
        return one

    def messages(self) -> list[PendingMessage]:
        """Return all messages, each on its own."""
        return [self.message(number) for number in range(self.count)]
