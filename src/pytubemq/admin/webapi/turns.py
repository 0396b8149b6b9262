"""Long answers: others have their turn while one is made, and they are made one after the other.

The invariants: nobody waits for more than so many rows of a long answer, however many are asked for; the rows of only
one are held while they become more.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

ROWS_A_TURN = 500

T = TypeVar("T")


class _Place:
    """The place of one answer among the long ones of its server; taken when it has turned out to be long."""

    def __init__(self, lock: asyncio.Lock) -> None:
        self._lock = lock
        self._taken = False

    async def take(self) -> None:
        if not self._taken:
            await self._lock.acquire()
            self._taken = True

    def leave(self) -> None:
        if self._taken:
            self._lock.release()


_place: ContextVar[_Place | None] = ContextVar("place", default=None)


class LongAnswers:
    """The long answers of one server."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def answer(self) -> AsyncIterator[None]:
        """One answer, which may become long."""
        place = _Place(self._lock)
        before = _place.set(place)
        try:
            yield
        finally:
            _place.reset(before)
            place.leave()


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
