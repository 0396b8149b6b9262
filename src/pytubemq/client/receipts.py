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


class Stretch(NamedTuple):
    """So many messages from position `at` on that were taken one after the other; not told: `offset` None, id 0."""

    at: int
    messages: int
    offset: int | None
    message_id: int
    appended_at_ms: int | None
    repeated: bool

    def receipt(self, partition: Partition, number: int) -> Receipt:
        """Of its message `number`, from 0."""
        offset = None if self.offset is None else self.offset + number * OFFSET_UNIT
        message_id = self.message_id and self.message_id + number
        return Receipt(partition, message_id, offset, self.appended_at_ms, self.repeated)


class Receipts(Sequence[Receipt]):
    """The receipts of all messages of a `send_many`, in their order; one is made when it is looked at."""

    __slots__ = ("_starts", "_stretches", "partition")

    def __init__(self, partition: Partition, stretches: Sequence[Stretch]) -> None:
        self.partition = partition
        """Where all of the messages are."""
        self._stretches = sorted(stretches)
        self._starts = [stretch.at for stretch in self._stretches]

    @property
    def first_offset(self) -> int | None:
        """The offset of the first message; None where the Broker does not tell it."""
        return self._stretches[0].offset if self._stretches else None

    @property
    def repeated(self) -> int:
        """How many had been taken before, an answer having been lost."""
        return sum(stretch.messages for stretch in self._stretches if stretch.repeated)

    def __len__(self) -> int:
        return self._stretches[-1].at + self._stretches[-1].messages if self._stretches else 0

    @overload
    def __getitem__(self, index: int) -> Receipt: ...
    @overload
    def __getitem__(self, index: slice) -> list[Receipt]: ...
    def __getitem__(self, index: int | slice) -> Receipt | list[Receipt]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        number = index + len(self) if index < 0 else index
        if not 0 <= number < len(self):
            raise IndexError(f"receipt {index} of {len(self)}")
        stretch = self._stretches[bisect_right(self._starts, number) - 1]
        return stretch.receipt(self.partition, number - stretch.at)

    def __iter__(self) -> Iterator[Receipt]:
        for stretch in self._stretches:
            for number in range(stretch.messages):
                yield stretch.receipt(self.partition, number)

    def __repr__(self) -> str:
        return f"Receipts({self.partition}, {len(self)} from offset {self.first_offset})"
