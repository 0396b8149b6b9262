"""Plain messages that were submitted one behind the other, and go to one partition together.

The invariants: they are in the order in which they were submitted; each has a future of its own; whatever befalls them
but success befalls each by itself, as messages by themselves (`messages`), so that only the usual way is shared.
"""

from __future__ import annotations

import asyncio
from itertools import repeat
from typing import TYPE_CHECKING, Final

from pytubemq.client.pending import Pending
from pytubemq.model.message import Receipt

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytubemq.client.parcel import Parcel
    from pytubemq.client.pending import Unit
    from pytubemq.errors import TubeError
    from pytubemq.model.ids import Partition


_is_done: Final = asyncio.Future.done


class Bunch:
    """Messages without key, attributes, type and time, of one partition. `order` is that of the first."""

    __slots__ = (
        "cause",
        "deadline_s",
        "futures",
        "most",
        "order",
        "partition",
        "payloads",
        "room_bytes",
        "sequence",
        "size_bytes",
        "tries",
        "uncertain",
    )

    def __init__(self, partition: Partition, deadline_s: float, order: int, *, most: int, room_bytes: int) -> None:
        self.partition = partition
        self.payloads: list[bytes] = []
        self.futures: list[asyncio.Future[Receipt]] = []
        self.deadline_s = deadline_s
        """Of the first message; the others came within the same turn of the loop, or the same linger time."""
        self.order = order
        self.most = most
        """So many messages fit."""
        self.room_bytes = room_bytes
        """So many more bytes fit."""
        self.size_bytes = 0
        """From when it is queued."""
        self.sequence: int | None = None
        """Of its first message; those after it follow."""
        self.tries = 0
        self.cause: BaseException | None = None
        self.uncertain = False

    @property
    def count(self) -> int:
        """Messages."""
        return len(self.payloads)

    @property
    def may_move(self) -> bool:
        """Whether any partition will do."""
        return True

    @property
    def unwanted(self) -> bool:
        """Whether nobody waits for any of them any more."""
        return all(map(_is_done, self.futures))

    @property
    def thinned(self) -> bool:
        """Whether nobody waits for one of them any more."""
        return True in map(_is_done, self.futures)

    def fail(self, error: TubeError) -> int:
        """They end with `error`; returns how many were waited for."""
        waited_for = [future for future in self.futures if not future.done()]
        for future in waited_for:
            future.set_exception(error)
        return len(waited_for)

    def took(
        self,
        message_ids: Iterable[int],
        offsets: Iterable[int | None],
        appended_at_ms: int | None,
        *,
        repeated: bool = False,
        start: int = 0,
        stop: int | None = None,
    ) -> None:
        """Its messages from number `start` to before `stop` have been taken."""
        futures = self.futures if start == 0 and stop is None else self.futures[start:stop]
        told = zip(repeat(self.partition), message_ids, offsets, repeat(appended_at_ms), repeat(repeated))
        # half the time of calling the class
        for future, receipt in zip(futures, map(tuple.__new__, repeat(Receipt), told), strict=True):
            if not future.done():
                future.set_result(receipt)

    def bytes_between(self, start: int, stop: int) -> int:
        """Of its messages from number `start` to before `stop`."""
        return self.size_bytes if stop - start == self.count else sum(map(len, self.payloads[start:stop]))

    def split(self, count: int) -> Bunch:
        """Take its first messages out; both are then of the same standing."""
        first = Bunch(self.partition, self.deadline_s, self.order, most=count, room_bytes=0)
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

    def message(self, number: int) -> Pending:
        """One of its messages by itself."""
        encoded = (self.payloads[number], 0, None, None)
        one = Pending(encoded, self.futures[number], self.partition, None, self.deadline_s, self.order + number)
        one.sequence = None if self.sequence is None else self.sequence + number
        one.tries, one.cause, one.uncertain = self.tries, self.cause, self.uncertain
        return one

    def messages(self) -> list[Pending]:
        """All of its messages, one by one."""
        return [self.message(number) for number in range(self.count)]


def one_by_one(units: Iterable[Unit]) -> Iterator[Pending | Parcel]:
    """The same with the messages of bunches by themselves."""
    for unit in units:
        if isinstance(unit, Bunch):
            yield from unit.messages()
        else:
            yield unit
