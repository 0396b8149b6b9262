"""Long answers: others have their turn while one is made, and they are made one after the other.

The invariants: nobody waits for more than so many rows of a long answer, however many are asked for; the rows of only
one are held while they become more; so many may wait for that, and none is made for a peer that has gone.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeVar

from pytubemq.admin.webapi.params import CallError
from pytubemq.model.limits import MAX_LONG_ANSWERS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

ROWS_A_TURN = 500
UNAVAILABLE = 503

T = TypeVar("T")


class _Place:
    """The place of one answer among the long ones of its server; taken when it has turned out to be long."""

    def __init__(self, line: LongAnswers, gone: Callable[[], Awaitable[bool]]) -> None:
        self._line = line
        self._gone = gone
        self._taken = False

    async def take(self) -> None:
        """Wait for the place, or go on in it. Raises CallError: too many wait, or nobody waits for this answer."""
        if not self._taken:
            await self._line.enter()
            self._taken = True
        await self.check()

    async def check(self) -> None:
        """Raises CallError: nobody waits for this answer."""
        if await self._gone():
            raise CallError("the caller no longer waits for this response")

    def leave(self) -> None:
        if self._taken:
            self._line.leave()


_place: ContextVar[_Place | None] = ContextVar("place", default=None)


class LongAnswers:
    """The long answers of one server: one is made, some may wait."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._waiting = 0

    @asynccontextmanager
    async def answer(self, gone: Callable[[], Awaitable[bool]]) -> AsyncIterator[None]:
        """One answer, which may become long; `gone` tells whether its peer has left."""
        place = _Place(self, gone)
        await place.check()
        before = _place.set(place)
        try:
            yield
        finally:
            _place.reset(before)
            place.leave()

    async def enter(self) -> None:
        """Wait for the ones before. Raises CallError: too many wait."""
        if self._waiting >= MAX_LONG_ANSWERS:
            raise CallError(
                f"{MAX_LONG_ANSWERS} long responses are already queued: retry later, or ask for fewer names",
                code=UNAVAILABLE,
            )
        self._waiting += 1
        try:
            await self._lock.acquire()
        finally:
            self._waiting -= 1

    def leave(self) -> None:
        """Let the next one in."""
        self._lock.release()


class Turns:
    """Lets others have their turn after every so many rows of one long answer."""

    def __init__(self) -> None:
        self._made = 0

    async def took(self, made: int) -> None:
        """So many rows have been made, or looked at."""
        self._made += made
        if self._made >= ROWS_A_TURN:
            self._made = 0
            if (place := _place.get()) is not None:
                await place.take()
            await asyncio.sleep(0)

    async def all(self, data: Iterable[T]) -> list[T]:
        """A list of `data`, which must not change by what others do meanwhile."""
        found = []
        for row in data:
            found.append(row)
            await self.took(1)
        return found
