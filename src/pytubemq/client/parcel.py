"""Messages that were submitted together, as packs that are built once.

The invariants: all messages of a lot go to one partition, in their order; a lot's future ends when each of its messages
has a receipt or an error, and not before; once one of its packs has left, none of it moves to another partition.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from pytubemq.client.pending import Pending
from pytubemq.client.receipts import Receipts, Stretch
from pytubemq.errors import ClosedError, PartialSendError, TubeError
from pytubemq.wire.pack import read_columns

if TYPE_CHECKING:
    import asyncio

    from pytubemq.client.many import EncodedMany
    from pytubemq.model.ids import Partition
    from pytubemq.model.message import Receipt


class Lot:
    """What has become of messages that were submitted together."""

    __slots__ = (
        "_failed",
        "_left",
        "_stretches",
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
        encoded: EncodedMany,
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
        """Whether some of it has left."""
        self._left = count
        self._stretches: list[Stretch] = []
        self._failed: dict[int, TubeError] = {}

    def took(self, stretch: Stretch) -> None:
        """These have been taken."""
        self._stretches.append(stretch)
        self._less(stretch.messages)

    def lost(self, at: int, count: int, error: TubeError) -> None:
        """These end with an error."""
        for position in range(at, at + count):
            self._failed[position] = error
        self._less(count)

    def heard(self, at: int, future: asyncio.Future[Receipt]) -> None:
        """The message at a position, sent by itself, has its result."""
        error = None if future.cancelled() else future.exception()
        if future.cancelled():
            self.lost(at, 1, ClosedError("the message was dropped"))
        elif isinstance(error, TubeError):
            self.lost(at, 1, error)
        else:
            _, message_id, offset, time_ms, repeated = future.result()
            self.took(Stretch(at, 1, offset, message_id, time_ms, repeated))

    def _less(self, count: int) -> None:
        self._left -= count
        if self._left or self.future.done():
            return
        if not self._failed:
            self.future.set_result(Receipts(self.partition, self._stretches))
            return
        first = next(iter(self._failed.values()))
        if not self._stretches and all(error is first for error in self._failed.values()):
            self.future.set_exception(first)
            return
        receipts: list[Receipt | None] = [None] * self.count
        for stretch in self._stretches:
            for number in range(stretch.messages):
                receipts[stretch.at + number] = stretch.receipt(self.partition, number)
        self.future.set_exception(
            PartialSendError(
                f"{len(self._failed):,} of {self.count:,} messages were not delivered to {self.partition}: "
                f"{first.message}",
                receipts=receipts,
                failed=dict(sorted(self._failed.items())),
            )
        )


class Parcel:
    """A pack of a lot on its way; `at` is the position of its first message in the lot."""

    __slots__ = (
        "at",
        "cause",
        "columns",
        "count",
        "deadline_s",
        "lot",
        "order",
        "sequence",
        "size_bytes",
        "tries",
        "uncertain",
    )

    def __init__(
        self, lot: Lot, at: int, columns: bytes, count: int, size_bytes: int, deadline_s: float, order: int
    ) -> None:
        self.lot = lot
        self.at = at
        self.columns = columns
        self.count = count
        self.size_bytes = size_bytes
        """Of the messages, without what a pack adds."""
        self.deadline_s = deadline_s
        self.order = order
        self.sequence: int | None = None
        """Of its first message; those after it follow."""
        self.tries = 0
        self.cause: BaseException | None = None
        self.uncertain = False

    @property
    def partition(self) -> Partition:
        """Where its lot goes."""
        return self.lot.partition

    @property
    def may_move(self) -> bool:
        """Whether any partition will do."""
        return self.lot.route is None and not self.lot.started

    @property
    def unwanted(self) -> bool:
        """Whether nobody waits for its messages any more."""
        return self.lot.future.done()

    def fail(self, error: TubeError) -> int:
        """Its messages end with `error`; returns how many were waited for."""
        waited_for = 0 if self.lot.future.done() else self.count
        self.lot.lost(self.at, self.count, error)
        return waited_for

    def bytes_between(self, start: int, stop: int) -> int:
        """Of its messages from number `start` to before `stop`."""
        return sum(read_columns(self.columns, check=False).lengths[start:stop])

    def part(self, start: int, stop: int) -> Parcel:
        """Its messages from number `start` to before `stop`, as a parcel of the same standing."""
        columns = read_columns(self.columns, check=False)
        made = Parcel(
            self.lot,
            self.at + start,
            columns.part(start, stop),
            stop - start,
            sum(columns.lengths[start:stop]),
            self.deadline_s,
            self.order + start,
        )
        made.sequence = None if self.sequence is None else self.sequence + start
        made.tries, made.cause, made.uncertain = self.tries, self.cause, self.uncertain
        return made

    def messages(self, loop: asyncio.AbstractEventLoop, stop: int) -> list[Pending]:
        """Its first messages, before number `stop`, one by one: for a Broker that knows no packs (yet)."""
        columns = read_columns(self.columns, check=False)
        made: list[Pending] = []
        bounds = columns.bounds()[: stop + 1]
        for number, (start_at, end_at) in enumerate(pairwise(bounds)):
            payload = self.columns[start_at:end_at]
            future: asyncio.Future[Receipt] = loop.create_future()
            future.add_done_callback(partial(self.lot.heard, self.at + number))
            encoded = (payload, columns.flag, self.lot.msg_type, self.lot.msg_time)
            one = Pending(encoded, future, self.partition, self.partition, self.deadline_s, self.order + number)
            one.sequence = None if self.sequence is None else self.sequence + number
            one.tries, one.cause, one.uncertain = self.tries, self.cause, self.uncertain
            made.append(one)
        return made
