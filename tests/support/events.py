"""The events of a client."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytubemq.client.session.events import Event
    from pytubemq.client.tube import Tube


async def event_of(tube: Tube, kind: type[Event]) -> Any:
    """The next event of a kind."""
    async with asyncio.timeout(10):
        async for event in tube.events():
            if isinstance(event, kind):
                return event
    raise AssertionError("the connection was closed")
