"""What waits in a lane for its turn, in order, with its number of messages and their bytes.

The invariant: the two counts are those of what is in the queue, and everything leaves it in the order it came, but for
what somebody takes out by name.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from pytubemq.client.bunch import Bunch
from pytubemq.client.parcel import Parcel
from pytubemq.client.pending import Pending
from pytubemq.model.limits import MAX_BATCH_BYTES, MAX_BATCH_MESSAGES, MAX_PACK_BYTES, MAX_PACK_MESSAGES

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator, Sequence

    from pytubemq.client.pending import Unit

_OVERHEAD_BYTES = 32
"""What an entry of a batch takes beyond its payload, roughly."""


class UnitQueue:
    """Messages and packs in a row."""

    __slots__ = ("_loop", "messages", "size_bytes", "units")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.units: deque[Unit] = deque()
        self.messages = 0
        self.size_bytes = 0
        self._loop = loop

    def __bool__(self) -> bool:
        return bool(self.units)

    def __iter__(self) -> Iterator[Unit]:
        return iter(self.units)

    def append(self, unit: Unit) -> None:
        """Behind all others."""
        self.units.append(unit)
        self.messages += unit.count
        self.size_bytes += unit.size_bytes

    def put_back(self, units: Sequence[Unit]) -> None:
        """In front of all others, in the order given."""
        self.units.extendleft(reversed(units))
        for unit in units:
            self.messages += unit.count
            self.size_bytes += unit.size_bytes

    def clear(self) -> list[Unit]:
        """Take everything."""
        left, self.units = list(self.units), deque()
        self.messages = self.size_bytes = 0
        return left

    def take_all(self, wanted: Callable[[Unit], bool]) -> list[Unit]:
        """Take those that `wanted` says."""
        taken: list[Unit] = []
        kept: deque[Unit] = deque()
        for unit in self.units:
            if isinstance(unit, Bunch) and unit.thinned:
                for one in unit.messages():
                    (taken if wanted(one) else kept).append(one)
            else:
                (taken if wanted(unit) else kept).append(unit)
        if taken:
            self.units = kept
            self._less(taken)
        return taken

    def take_for_packs(self) -> tuple[list[Unit], list[Unit]]:
        """What fits into one request of packs: those to send, and those nobody waits for any more."""
        units = self.units
        taken: list[Unit] = []
        dropped: list[Unit] = []
        messages = size_bytes = 0
        while units:
            unit = units[0]
            if isinstance(unit, Bunch):
                if unit.thinned:
                    units.popleft()
                    units.extendleft(reversed(unit.messages()))
                    continue
            elif unit.unwanted:
                dropped.append(units.popleft())
                continue
            messages += unit.count
            size_bytes += unit.size_bytes
            if taken and (size_bytes > MAX_PACK_BYTES or messages > MAX_PACK_MESSAGES):
                break
            taken.append(units.popleft())
        self._less(taken)
        self._less(dropped)
        return taken, dropped

    def take_for_batch(self) -> tuple[list[Pending], list[Pending]]:
        """The same for a request of single messages."""
        taken: list[Pending] = []
        dropped: list[Pending] = []
        size_bytes = 0
        while self.units and len(taken) < MAX_BATCH_MESSAGES:
            one = self._first(MAX_BATCH_MESSAGES)
            size_bytes += one.size_bytes + _OVERHEAD_BYTES
            if taken and size_bytes > MAX_BATCH_BYTES:
                break
            self.units.popleft()
            (dropped if one.future.done() else taken).append(one)
        self._less(taken)
        self._less(dropped)
        return taken, dropped

    def take_one(self) -> Pending:
        """The first message."""
        one = self._first(1)
        self.units.popleft()
        self.messages -= 1
        self.size_bytes -= one.size_bytes
        return one

    def take_singles(self, most: int) -> tuple[list[Pending | Bunch], list[Pending]]:
        """The first messages, `most` at most: those to send, and those nobody waits for any more."""
        units = self.units
        taken: list[Pending | Bunch] = []
        dropped: list[Pending] = []
        messages = size_bytes = 0
        while units and messages < most:
            one = units[0]
            if isinstance(one, Bunch) and not one.thinned:
                if one.count > most - messages:
                    one = one.split(most - messages)
                else:
                    units.popleft()
                messages += one.count
                size_bytes += one.size_bytes
                taken.append(one)
                continue
            if not isinstance(one, Pending):
                one = self._first(most - messages)
            units.popleft()
            messages += 1
            size_bytes += one.size_bytes
            (dropped if one.future.done() else taken).append(one)
        self.messages -= messages
        self.size_bytes -= size_bytes
        return taken, dropped

    def _first(self, most: int) -> Pending:
        """The first message; a pack in its place is opened for `most` of its messages, and a pack of the others; so is
        a bunch."""
        first = self.units[0]
        if isinstance(first, Pending):
            return first
        opened: list[Pending]
        if isinstance(first, Bunch):
            if first.count > most:
                opened = first.split(most).messages()
            else:
                self.units.popleft()
                opened = first.messages()
            self.units.extendleft(reversed(opened))
            return opened[0]
        assert isinstance(first, Parcel)
        self.units.popleft()
        first.lot.started = True
        if first.count > most:
            self.units.appendleft(first.part(most, first.count))
        opened = first.messages(self._loop, most)
        self.units.extendleft(reversed(opened))
        return opened[0]

    def _less(self, units: Sequence[Unit]) -> None:
        for unit in units:
            self.messages -= unit.count
            self.size_bytes -= unit.size_bytes
