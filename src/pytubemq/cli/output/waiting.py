"""The message of a command that waits for a Master.

The invariant: it only prints, once, and not at all if the response comes soon.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pytubemq.cli.options import GlobalOptions

SAID_AFTER_S: Final = 2.0


@contextlib.asynccontextmanager
async def asking(
    options: GlobalOptions, master: str, topic: str, *, said_after_s: float = SAID_AFTER_S
) -> AsyncIterator[None]:
    """Print a message if the requests to the Masters (`host:port[,...]`) in this block take long."""
    text = (
        f"waiting for the Master at {master} to name a running Broker of topic {topic!r}, "
        f"up to {options.timeout_s:g} s (--timeout)"
    )
    handle = asyncio.get_running_loop().call_later(said_after_s, options.say, text)
    try:
        yield
    finally:
        handle.cancel()
