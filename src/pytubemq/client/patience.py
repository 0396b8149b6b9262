"""Trying again for a while: reads and look-ups that change nothing, so a repeat is harmless.

The invariant: what cannot mend by itself is raised at once; what can is tried until the time is over, and then raised
with its own error.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from pytubemq.core.retry import Backoff, Rng, Verdict, verdict
from pytubemq.errors import TubeError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

PAUSES = Backoff(first_s=0.05, most_s=1.0)


async def patiently(attempt: Callable[[], Awaitable[T]], *, for_s: float, rng: Rng) -> T:
    """The result of `attempt`, tried again after retriable failures for up to `for_s`."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + for_s
    tries = 0
    while True:
        try:
            return await attempt()
        except TubeError as error:
            tries += 1
            pause_s = PAUSES.delay_s(tries, rng)
            if verdict(error) is not Verdict.RETRY or loop.time() + pause_s > until_s:
                raise
            await asyncio.sleep(pause_s)
