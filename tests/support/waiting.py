"""Waiting for something that tells nobody when it happens."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, TypeVarTuple

if TYPE_CHECKING:
    from collections.abc import Callable

Given = TypeVarTuple("Given")


async def until(condition: Callable[[*Given], object], *given: *Given, timeout_s: float = 30.0) -> None:
    """Let the loop turn until `condition(*given)` holds; TimeoutError is a bug, not slowness: the bound is generous."""
    async with asyncio.timeout(timeout_s):
        while not condition(*given):  # noqa: ASYNC110 - what is looked at has no event of its own
            await asyncio.sleep(0.001)


def until_seen(condition: Callable[[], object], *, timeout_s: float = 30.0) -> None:
    """The same for programs without a loop.

    Raises:
        TimeoutError: it did not come true.
    """
    end_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > end_s:
            raise TimeoutError
        time.sleep(0.001)
