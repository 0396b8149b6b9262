"""The queue of a sender, with the number of its messages and their bytes.

The invariant: the two counts are those of what is in the queue, and units leave it in order, except those that
`take_all` selects.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from pytubemq.client.producer.messages.pending_message import PendingMessage
from pytubemq.client.producer.messages.plain_batch import PlainBatch
from pytubemq.client.producer.messages.record_batch import RecordBatch
from pytubemq.model.limits import MAX_BATCH_BYTES, MAX_BATCH_MESSAGES, MAX_PACK_BYTES, MAX_PACK_MESSAGES

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator, Sequence

    from pytubemq.client.producer.messages.send_unit import SendUnit

_OVERHEAD_BYTES = 32
"""Approximate size of an entry of a SEND_BATCH request besides its payload."""


class SendQueue:
    """Units that wait to be sent, in order."""

    __slots__ = ("_loop", "messages", "size_bytes", "units")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.units: deque[SendUnit] = deque()
        self.messages = 0
        self.size_bytes = 0
        self._loop = loop

    def __bool__(self) -> bool:
        return bool(self.units)

    def __iter__(self) -> Iterator[SendUnit]:
        return iter(self.units)

    def append(self, unit: SendUnit) -> None:
        """Add a unit at the end."""
        self.units.append(unit)
        self.messages += unit.count
        self.size_bytes += unit.size_bytes

    def put_back(self, units: Sequence[SendUnit]) -> None:
        """Put units back in front, in the order given."""
        self.units.extendleft(reversed(units))
        for unit in units:
            self.messages += unit.count
            self.size_bytes += unit.size_bytes

    def clear(self) -> list[SendUnit]:
        """Remove and return all units."""
        left, self.units = list(self.units), deque()
        self.messages = self.size_bytes = 0
        return left

    def take_all(self, wanted: Callable[[SendUnit], bool]) -> list[SendUnit]:
        """Remove and return the units that `wanted` selects."""
        ready: list[SendUnit] = []
        kept: deque[SendUnit] = deque()
        for unit in self.units:
            if isinstance(unit, PlainBatch) and unit.is_partly_unwanted:
                for one in unit.messages():
                    (ready if wanted(one) else kept).append(one)
            else:
                (ready if wanted(unit) else kept).append(unit)
        if ready:
            self.units = kept
            self._subtract(ready)
        return ready

    def take_for_batches(self) -> tuple[list[SendUnit], list[SendUnit]]:
        """Remove what fits into one request of record batches; return the units to send and those that nobody waits
        for."""
        units = self.units
        ready: list[SendUnit] = []
        dropped: list[SendUnit] = []
        messages = size_bytes = 0
        while units:
            unit = units[0]
            if isinstance(unit, PlainBatch):
                if unit.is_partly_unwanted:
                    units.popleft()
                    units.extendleft(reversed(unit.messages()))
                    continue
            elif unit.unwanted:
                dropped.append(units.popleft())
                continue
            messages += unit.count
            size_bytes += unit.size_bytes
            if ready and (size_bytes > MAX_PACK_BYTES or messages > MAX_PACK_MESSAGES):
                break
            ready.append(units.popleft())
        self._subtract(ready)
        self._subtract(dropped)
        return ready, dropped

    def take_for_send_batch(self) -> tuple[list[PendingMessage], list[PendingMessage]]:
        """Remove what fits into one SEND_BATCH request; return the messages to send and those that nobody waits for."""
        ready: list[PendingMessage] = []
        dropped: list[PendingMessage] = []
        size_bytes = 0
        while self.units and len(ready) < MAX_BATCH_MESSAGES:
            one = self._open_first(MAX_BATCH_MESSAGES)
            size_bytes += one.size_bytes + _OVERHEAD_BYTES
            if ready and size_bytes > MAX_BATCH_BYTES:
                break
            self.units.popleft()
            (dropped if one.future.done() else ready).append(one)
        self._subtract(ready)
        self._subtract(dropped)
        return ready, dropped

    def take_one(self) -> PendingMessage:
        """Remove and return the first message."""
        one = self._open_first(1)
        self.units.popleft()
        self.messages -= 1
        self.size_bytes -= one.size_bytes
        return one

    def take_singles(self, max_messages: int) -> tuple[list[PendingMessage | PlainBatch], list[PendingMessage]]:
        """Remove the first messages, at most `max_messages`; return those to send and those that nobody waits for."""
        units = self.units
        ready: list[PendingMessage | PlainBatch] = []
        dropped: list[PendingMessage] = []
        messages = size_bytes = 0
        while units and messages < max_messages:
            one = units[0]
            if isinstance(one, PlainBatch) and not one.is_partly_unwanted:
                if one.count > max_messages - messages:
                    one = one.split(max_messages - messages)
                else:
                    units.popleft()
                messages += one.count
                size_bytes += one.size_bytes
                ready.append(one)
                continue
            if not isinstance(one, PendingMessage):
                one = self._open_first(max_messages - messages)
            units.popleft()
            messages += 1
            size_bytes += one.size_bytes
            (dropped if one.future.done() else ready).append(one)
        self.messages -= messages
        self.size_bytes -= size_bytes
        return ready, dropped

    def _open_first(self, max_messages: int) -> PendingMessage:
        """Return the first message. A batch in its place is split into at most `max_messages` messages and a batch of
        the rest."""
        first = self.units[0]
        if isinstance(first, PendingMessage):
            return first
        opened: list[PendingMessage]
        if isinstance(first, PlainBatch):
            if first.count > max_messages:
                opened = first.split(max_messages).messages()
            else:
                self.units.popleft()
                opened = first.messages()
            self.units.extendleft(reversed(opened))
            return opened[0]
        assert isinstance(first, RecordBatch)
        self.units.popleft()
        first.batch_send.started = True
        if first.count > max_messages:
            self.units.appendleft(first.part(max_messages, first.count))
        opened = first.messages(self._loop, max_messages)
        self.units.extendleft(reversed(opened))
        return opened[0]

    def _subtract(self, units: Sequence[SendUnit]) -> None:
        for unit in units:
            self.messages -= unit.count
            self.size_bytes -= unit.size_bytes
