"""What was made of a `Tube`: it ends with it at the latest.

The invariants: closing is bounded in time; a failure of one leaves no other open.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

CLOSE_MARGIN_S: Final = 5.0
"""For what closing does besides delivering messages: goodbyes, and the end of tasks."""


class Belonging(Protocol):
    """A producer, a consumer of any kind, a reader."""

    @property
    def ended(self) -> bool:
        """Whether it was closed."""
        ...

    async def close(self) -> None:
        """End it. Idempotent."""
        ...


B = TypeVar("B", bound=Belonging)


class Belongings:
    """All that was made and has not ended."""

    def __init__(self) -> None:
        self._made: list[Belonging] = []
        self._close_within_s = 0.0
        """The longest time that any of what was made has for closing."""

    def add(self, one: B, *, close_timeout_s: float = 0.0) -> B:
        """One more, which may take so long to close."""
        self._close_within_s = max(self._close_within_s, close_timeout_s)
        self._made = [made for made in self._made if not made.ended]
        self._made.append(one)
        return one

    async def close(self) -> Sequence[BaseException]:
        """Close all of them at once; the failures. What is still open when the time is over is left so."""
        made, self._made = self._made, []
        ended: Sequence[BaseException | None] = ()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._close_within_s + CLOSE_MARGIN_S):
                ended = await asyncio.gather(*(one.close() for one in made), return_exceptions=True)
        return [error for error in ended if error is not None]
