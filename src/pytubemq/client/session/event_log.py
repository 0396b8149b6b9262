"""The last events of a connection, for any number of listeners.

The invariants: nobody has to listen, and a listener that is behind or has gone stops nobody; each gets every event that
is kept when its turn comes, in order, and counts those that it missed; the log never grows without bound.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from pytubemq.errors import ClosedError

if TYPE_CHECKING:
    from pytubemq.client.session.events import Event

KEPT_EVENTS: Final = 1000
"""Events kept for listeners that are behind or that begin later."""


class EventLog:
    """Keeps the last events."""

    def __init__(self, *, length: int = KEPT_EVENTS) -> None:
        self.end = 0
        """The number of events so far."""
        self.closed = False
        self._events: deque[Event] = deque(maxlen=length)
        self._waiting: dict[asyncio.Event, None] = {}
        """The waiters, in the order in which they began to wait."""

    @property
    def begin(self) -> int:
        """The number of the first event that is kept."""
        return self.end - len(self._events)

    @property
    def kept(self) -> tuple[Event, ...]:
        """The events that are kept, the oldest first."""
        return tuple(self._events)

    def put(self, event: Event) -> None:
        """Add an event."""
        if not self.closed:
            self._events.append(event)
            self.end += 1
            self._wake()

    def close(self) -> None:
        """End every listener once it has received the events that are kept."""
        self.closed = True
        self._wake()

    def listen(self) -> EventQueue:
        """Return a listener that begins with the events that are kept."""
        return EventQueue(self)

    def get(self, number: int) -> Event:
        """Return a kept event by its number."""
        return self._events[number - self.begin]

    async def wait(self) -> None:
        """Wait until something is added, or the log is closed."""
        arrived = asyncio.Event()
        self._waiting[arrived] = None
        try:
            await arrived.wait()
        finally:
            del self._waiting[arrived]

    def _wake(self) -> None:
        for arrived in self._waiting:
            arrived.set()


class EventQueue:
    """One listener to the events of a connection, and an iterator over them."""

    def __init__(self, log: EventLog) -> None:
        self.dropped = 0
        """Events that this listener missed because it was too far behind."""
        self._log = log
        self._next = log.begin

    def __aiter__(self) -> EventQueue:
        return self

    async def __anext__(self) -> Event:
        try:
            return await self.get()
        except ClosedError:
            raise StopAsyncIteration from None

    async def get(self) -> Event:
        """Return the next event.

        Raises:
            ClosedError: there will be no more.
        """
        log = self._log
        while self._next >= log.end:
            if log.closed:
                raise ClosedError("the connection is closed")
            await log.wait()
        if self._next < log.begin:
            self.dropped += log.begin - self._next
            self._next = log.begin
        event = log.get(self._next)
        self._next += 1
        return event
