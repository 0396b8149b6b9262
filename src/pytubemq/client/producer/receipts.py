"""The receipts of messages that were sent together, without an object for each of them.

The invariant: they are in the order of the messages, and a receipt is made when it is looked at.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, overload

from pytubemq.model.message import Receipt
from pytubemq.model.offset import OFFSET_UNIT

if TYPE_CHECKING:
    from pytubemq.model.ids import Partition


class AcceptedSpan(NamedTuple):
    """Messages from position `at` on that were accepted one after the other. If the Broker does not report them,
    `offset` is None and the id 0."""

    at: int
    messages: int
    offset: int | None
    message_id: int
    appended_at_ms: int | None
    repeated: bool

    def receipt(self, partition: Partition, number: int) -> Receipt:
        """Return the receipt of message `number`, counted from 0."""
        offset = None if self.offset is None else self.offset + number * OFFSET_UNIT
        # 0 stays 0: the Broker has not reported it.
        message_id = self.message_id and self.message_id + number
        return Receipt(partition, message_id, offset, self.appended_at_ms, self.repeated)


class Receipts(Sequence[Receipt]):
    """The receipts of all messages of a `send_many`, in their order; one is made when it is looked at."""

    __slots__ = ("_spans", "_starts", "partition")

    def __init__(self, partition: Partition, spans: Sequence[AcceptedSpan]) -> None:
        self.partition = partition
        """The partition of all of the messages."""
        # Batches of a send get their responses in any order.
        self._spans = sorted(spans)
        # To find one receipt by bisection without making the others.
        self._starts = [span.at for span in self._spans]

    @property
    def first_offset(self) -> int | None:
        """The offset of the first message; None if the Broker does not report it."""
        return self._spans[0].offset if self._spans else None

    @property
    def repeated(self) -> int:
        """Number of messages that had been accepted before, because a response was lost."""
        return sum(span.messages for span in self._spans if span.repeated)

    def __len__(self) -> int:
        return self._spans[-1].at + self._spans[-1].messages if self._spans else 0

    @overload
    def __getitem__(self, index: int) -> Receipt: ...
    @overload
    def __getitem__(self, index: slice) -> list[Receipt]: ...
    def __getitem__(self, index: int | slice) -> Receipt | list[Receipt]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        number = index + len(self) if index < 0 else index
        if not 0 <= number < len(self):
            raise IndexError(f"receipt {index} does not exist: there are {len(self)}")
        span = self._spans[bisect_right(self._starts, number) - 1]
        return span.receipt(self.partition, number - span.at)

    def __iter__(self) -> Iterator[Receipt]:
        for span in self._spans:
            for number in range(span.messages):
                yield span.receipt(self.partition, number)

    def __repr__(self) -> str:
        return f"Receipts({self.partition}, {len(self)} from offset {self.first_offset})"
