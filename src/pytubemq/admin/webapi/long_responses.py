"""Long responses: other tasks run while one is built, and they are built one after the other.

The invariants: nobody waits for more than a bounded number of rows of a long response, however many are requested; only
one grows in memory at a time; the number of waiting ones is bounded, and none is built for a peer that is gone.
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
    """One response's place among the long ones of its server; used once it has turned out to be long."""

    def __init__(self, line: LongResponses, gone: Callable[[], Awaitable[bool]]) -> None:
        self._line = line
        self._gone = gone
        self._taken = False

    async def take(self) -> None:
        """Wait for the place, or continue in it. Raises CallError: too many wait, or nobody waits for this response."""
        if not self._taken:
            await self._line.enter()
            self._taken = True
        await self.check()

    async def check(self) -> None:
        """Raise CallError if nobody waits for this response."""
        if await self._gone():
            raise CallError("the caller no longer waits for this response")

    def leave(self) -> None:
        if self._taken:
            self._line.leave()


_place: ContextVar[_Place | None] = ContextVar("place", default=None)


class LongResponses:
    """The long responses of one server: one is built, some may wait."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._waiting = 0

    @asynccontextmanager
    async def answer(self, gone: Callable[[], Awaitable[bool]]) -> AsyncIterator[None]:
        """Serve one response, which may become long; `gone` returns True if its peer has left."""
        place = _Place(self, gone)
        await place.check()
        before = _place.set(place)
        try:
            yield
        finally:
            _place.reset(before)
            place.leave()

    async def enter(self) -> None:
        """Wait for the earlier ones. Raises CallError: too many wait."""
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
    """Lets other tasks run after a number of rows of one long response."""

    def __init__(self) -> None:
        self._made = 0

    async def took(self, made: int) -> None:
        """Count rows that were built or checked, and let others run if there were many."""
        self._made += made
        if self._made >= ROWS_A_TURN:
            self._made = 0
            if (place := _place.get()) is not None:
                await place.take()
            await asyncio.sleep(0)

    async def all(self, data: Iterable[T]) -> list[T]:
        """Return a list of `data`, which must not depend on what others change meanwhile."""
        found = []
        for row in data:
            found.append(row)
            await self.took(1)
        return found
