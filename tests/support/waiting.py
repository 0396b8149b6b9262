"""Waiting for something that tells nobody when it happens. Where there is an event, wait for that."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

Given = TypeVarTuple("Given")
Answer = TypeVar("Answer")


async def until(condition: Callable[[*Given], object], *given: *Given, timeout_s: float = 30.0) -> None:
    """Let the loop turn until `condition(*given)` holds; TimeoutError is a bug, not slowness: the bound is generous."""
    async with asyncio.timeout(timeout_s):
        while not condition(*given):  # noqa: ASYNC110 - what is looked at has no event of its own
            await asyncio.sleep(0.001)


async def until_answer(
    ask: Callable[[], Awaitable[Answer]],
    fits: Callable[[Answer], object] = bool,
    *,
    timeout_s: float = 30.0,
    every_s: float = 0.05,
) -> Answer:
    """Ask a server or another process again until its answer fits, and return that answer."""
    async with asyncio.timeout(timeout_s):
        while not fits(found := await ask()):  # noqa: ASYNC110 - whoever is asked tells nothing by itself
            await asyncio.sleep(every_s)
    return found


def until_seen(
    condition: Callable[[], object],
    *,
    timeout_s: float = 30.0,
    every_s: float = 0.001,
    why: Callable[[], str] = lambda: "it did not come to pass",
) -> None:
    """Wait without a loop until `condition()` holds.

    Raises:
        TimeoutError: it did not come true; `why()` is the text.
    """
    end_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > end_s:
            raise TimeoutError(why())
        time.sleep(every_s)
