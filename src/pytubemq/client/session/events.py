"""Events that a client emits while it runs.

The invariant: nobody has to listen. A queue nobody reads drops its oldest events and counts them; it never grows
without bound and never stops the client.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from pytubemq.errors import ClosedError, TubeError

if TYPE_CHECKING:
    from pytubemq.model.ids import Address, Partition

EVENT_QUEUE_LENGTH = 1000
"""Events kept for a listener that is behind."""


@dataclass(frozen=True, slots=True)
class Connected:
    """A client is registered at the Master (again), or a Broker answers again."""

    client_id: str
    peer: Address | None = None


@dataclass(frozen=True, slots=True)
class Lost:
    """The Master or a Broker cannot be reached, or has forgotten a client; it is tried again on its own."""

    client_id: str
    reason: TubeError
    peer: Address | None = None


@dataclass(frozen=True, slots=True)
class Rebalanced:
    """A consumer got or gave partitions."""

    group: str
    gained: tuple[Partition, ...] = ()
    given: tuple[Partition, ...] = ()
    assignment: tuple[Partition, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Throttled:
    """A Broker or a flow-control rule makes this client wait."""

    reason: str
    wait_s: float
    partition: Partition | None = None


@dataclass(frozen=True, slots=True)
class SlowConsumer:
    """A batch was neither confirmed nor rejected in time; it was given back and comes again."""

    partition: Partition
    messages: int
    held_s: float


@dataclass(frozen=True, slots=True)
class ConfirmFailed:
    """A failed confirm: its batch is fetched again after a pause that grows with each failure."""

    partition: Partition
    messages: int
    reason: TubeError
    wait_s: float
    failures: int
    """Number of confirms of this partition that failed in a row."""


@dataclass(frozen=True, slots=True)
class PositionMoved:
    """A move of the group in a partition by somebody else: reading goes on at `offset`, and fetched messages are void.

    The confirm of a batch from before the move raises `StaleBatchError`.
    """

    partition: Partition
    offset: int | None


@dataclass(frozen=True, slots=True)
class Skipped:
    """Skipped messages: they could not be read (their checksum failed, or damage destroyed them), or retention removed
    them before the group confirmed them; `reason` says which. `offset` is the first one that could not be read, or
    where reading goes on behind those that retention removed."""

    partition: Partition
    messages: int
    reason: str
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class HandlerFailed:
    """The handler of a push consumer raised."""

    group: str
    partition: Partition
    messages: int
    """How many it was called with."""
    reason: BaseException
    then: str
    """What becomes of them: "retry", "skip" or "stop"."""


Event: TypeAlias = (
    Connected | Lost | Rebalanced | Throttled | SlowConsumer | ConfirmFailed | PositionMoved | Skipped | HandlerFailed
)


class EventQueue:
    """The last events, and an iterator over them. Several listeners share one queue: each event goes to one."""

    def __init__(self, *, length: int = EVENT_QUEUE_LENGTH) -> None:
        self.dropped = 0
        """Events that nobody fetched in time."""
        self._events: deque[Event] = deque()
        self._length = length
        self._arrived = asyncio.Event()
        self._closed = False

    def put(self, event: Event) -> None:
        """Add an event."""
        if self._closed:
            return
        if len(self._events) >= self._length:
            self._events.popleft()
            self.dropped += 1
        self._events.append(event)
        self._arrived.set()

    def close(self) -> None:
        """End every iteration once the queue is empty."""
        self._closed = True
        self._arrived.set()

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
        while not self._events:
            if self._closed:
                raise ClosedError("the connection is closed")
            self._arrived.clear()
            await self._arrived.wait()
        return self._events.popleft()
