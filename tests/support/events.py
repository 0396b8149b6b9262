"""The events of a client."""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytubemq.client.session.event_log import EventQueue
    from pytubemq.client.session.events import Event
    from pytubemq.client.tube import Tube


_listeners: weakref.WeakKeyDictionary[Tube, EventQueue] = weakref.WeakKeyDictionary()


def events_of(tube: Tube) -> EventQueue:
    """The one listener of the tests to a connection."""
    return _listeners.setdefault(tube, tube.events())


def kept_events(tube: Tube) -> list[Event]:
    """The events so far."""
    return list(tube._open().events.kept)


async def event_of(tube: Tube, kind: type[Event]) -> Any:
    """The next event of a kind, behind the one of the last call."""
    async with asyncio.timeout(10):
        async for event in events_of(tube):
            if isinstance(event, kind):
                return event
    raise AssertionError("the connection was closed")
