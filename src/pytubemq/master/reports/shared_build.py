"""A long view that several callers want at the same time: built once for all who asked before its build began.

The invariants: nobody gets a view whose build began before they asked; one build runs and at most one waits, however
many callers there are.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")


class SharedBuild(Generic[T]):
    """The builds of one view."""

    def __init__(self, build: Callable[[], Awaitable[T]]) -> None:
        self._build = build
        self._turn = asyncio.Lock()
        self._next: asyncio.Task[T] | None = None
        """The build that has not begun."""

    async def get(self) -> T:
        """Return the view. A caller that is cancelled leaves the build to the others."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_task(self._run())
            self._next.add_done_callback(_look_at)
        return await asyncio.shield(self._next)

    async def _run(self) -> T:
        async with self._turn:
            self._next = None
            return await self._build()


def _look_at(build: asyncio.Task[T]) -> None:
    """Look at the failure of a build, which its callers raise; they may all have gone."""
    if not build.cancelled():
        build.exception()
