"""Messages that were submitted one by one and gathered for one partition.

The invariants: each message has a future of its own; all of a batch may go to any partition, or all have keys, or all
are for this partition only.
"""

from __future__ import annotations

import asyncio
from enum import Enum
from functools import lru_cache
from itertools import groupby, repeat
from typing import TYPE_CHECKING, Final

from pytubemq.client.producer.messages.record_batch import PLAIN, Header, RecordBatch
from pytubemq.model.filters import NO_FILTER_CODE, filter_code
from pytubemq.model.message import Receipt
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.wire.batch.record_batch import encode_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.errors import TubeError
    from pytubemq.model.ids import Partition

MERGE_WITHIN_S: Final = 0.05
"""Batches are merged whose deadlines differ by no more than this; the earlier one holds for both."""
# The method itself, for `map`: it is called for every message that leaves.
_is_done: Final = asyncio.Future.done


class Route(Enum):
    """The way in which messages got their partition."""

    ANY = "any partition"
    KEY = "by key"
    FIXED = "the requested partition"


class GatheredBatch(RecordBatch):
    """Messages with a future each. `count` and `size_bytes` are set by `complete`, until which messages are added."""

    __slots__ = ("futures", "headers", "keys", "max_messages", "payloads", "room_bytes", "route")

    def __init__(
        self, partition: Partition, route: Route, deadline_s: float, order: int, *, max_messages: int, room_bytes: int
    ) -> None:
        """`deadline_s` is that of the first message; the others come within the same loop turn or linger time."""
        super().__init__(partition, deadline_s, order, 0, 0)
        self.route = route
        self.payloads: list[bytes] = []
        self.futures: list[asyncio.Future[Receipt]] = []
        self.headers: list[Header] | None = None
        """None as long as all messages are `PLAIN`."""
        self.keys: list[bytes] = []
        """The keys of messages with `Route.KEY`."""
        self.max_messages = max_messages
        """Number of messages that fit."""
        self.room_bytes = room_bytes
        """Number of bytes that still fit."""

    def add(self, payload: bytes, header: Header, key: bytes | None, future: asyncio.Future[Receipt]) -> None:
        """Add a message."""
        if self.headers is not None:
            self.headers.append(header)
        elif header != PLAIN:
            # Made with the first message that needs one; most producers send plain messages only.
            self.headers = [*repeat(PLAIN, len(self.payloads)), header]
        if key is not None:
            self.keys.append(key)
        self.payloads.append(payload)
        self.futures.append(future)
        self.room_bytes -= len(payload)

    def complete(self) -> None:
        """Set the counts, because no message is added any more."""
        self.count = len(self.payloads)
        self.size_bytes = sum(map(len, self.payloads))

    # --- where it may go ----------------------------------------------------------------------------------------

    @property
    def may_move(self) -> bool:
        return self.route is Route.ANY

    @property
    def may_leave_topic_partition(self) -> bool:
        return self.route is not Route.FIXED

    @property
    def key(self) -> bytes | None:
        return self.keys[0] if self.keys else None

    def split_by_key(self) -> Sequence[RecordBatch]:
        if not self.keys:
            return (self,)
        return self._split([key for key, _ in enumerate(self.keys)])

    # --- what is sent -------------------------------------------------------------------------------------------

    def columns(self) -> bytes:
        if self.headers is None:
            return encode_columns(self.payloads, 0, NO_FILTER_CODE)
        flags = [flag for flag, _, _ in self.headers]
        types = [msg_type for _, msg_type, _ in self.headers]
        return encode_columns(
            self.payloads,
            # One value for all where they agree; a column only where they differ.
            flags[0] if len(set(flags)) == 1 else flags,
            _code(types[0]) if len(set(types)) == 1 else [_code(one) for one in types],
        )

    def payloads_and_headers(self) -> tuple[Sequence[bytes], Sequence[Header] | None]:
        return self.payloads, self.headers

    def part(self, start: int, stop: int) -> GatheredBatch:
        part = GatheredBatch(
            self.partition, self.route, self.deadline_s, self.order + start, max_messages=0, room_bytes=0
        )
        part.payloads, part.futures = self.payloads[start:stop], self.futures[start:stop]
        part.headers = None if self.headers is None else self.headers[start:stop]
        part.keys = self.keys[start:stop]
        part.complete()
        part._copy_state(self, start)
        return part

    def merge(self, following: RecordBatch) -> bool:
        if not isinstance(following, GatheredBatch) or not self._is_followed_by(following):
            return False
        if self.headers is not None or following.headers is not None:
            self.headers = [*self._all_headers(), *following._all_headers()]
        self.payloads += following.payloads
        self.futures += following.futures
        self.keys += following.keys
        self.count += following.count
        self.size_bytes += following.size_bytes
        self.deadline_s = min(self.deadline_s, following.deadline_s)
        return True

    def bytes_between(self, start: int, stop: int) -> int:
        return self.size_bytes if stop - start == self.count else sum(map(len, self.payloads[start:stop]))

    # --- results ------------------------------------------------------------------------------------------------

    @property
    def is_unwanted(self) -> bool:
        return all(map(_is_done, self.futures))

    @property
    def is_partly_unwanted(self) -> bool:
        return True in map(_is_done, self.futures)

    def split_by_wanted(self) -> Sequence[RecordBatch]:
        starts = [next(group)[0] for _, group in groupby(enumerate(map(_is_done, self.futures)), lambda item: item[1])]
        return self._split(starts)

    def fail(self, error: TubeError) -> int:
        waited_for = [future for future in self.futures if not future.done()]
        for future in waited_for:
            future.set_exception(error)
        return len(waited_for)

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
        futures = self.futures if count == self.count else self.futures[start : start + count]
        ids = range(message_id, message_id + count) if message_id else repeat(0, count)
        offsets = repeat(None, count) if offset is None else range(offset, offset + count * OFFSET_UNIT, OFFSET_UNIT)
        receipts = zip(repeat(self.partition), ids, offsets, repeat(time_ms), repeat(repeated))
        # half the time of calling the class
        for future, receipt in zip(futures, map(tuple.__new__, repeat(Receipt), receipts), strict=True):
            # Cancelled while it was in flight.
            if not future.done():
                future.set_result(receipt)

    # --- inside -------------------------------------------------------------------------------------------------

    def _is_followed_by(self, other: GatheredBatch) -> bool:
        """True if the other one may be sent as the end of this one, without a difference but in the deadline."""
        follows = None if self.sequence is None else self.sequence + self.count
        return (
            self.route is other.route
            and follows == other.sequence
            # What the Broker may have must stay apart from what it cannot have.
            and (self.tries, self.uncertain) == (other.tries, other.uncertain)
            and abs(self.deadline_s - other.deadline_s) <= MERGE_WITHIN_S
        )

    def _all_headers(self) -> Sequence[Header]:
        return (PLAIN,) * self.count if self.headers is None else self.headers

    def _split(self, starts: list[int]) -> list[RecordBatch]:
        """Return the parts that begin at these numbers, of which the first is 0."""
        return [self.part(start, stop) for start, stop in zip(starts, [*starts[1:], self.count], strict=True)]


def _code(msg_type: str | None) -> int:
    return NO_FILTER_CODE if not msg_type or msg_type.isspace() else _code_of(msg_type)


_code_of = lru_cache(maxsize=1024)(filter_code)
