"""The reason why a producer makes no progress, printed once it has made none for a while.

The invariant: it only prints, once for each stall; sending and its time limits are the producer's matter.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from pytubemq.cli.output.words import count_of
from pytubemq.client.session.events import Connected, Lost

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pytubemq.cli.options import GlobalOptions
    from pytubemq.client.producer.producer import Producer
    from pytubemq.client.session.event_log import EventQueue
    from pytubemq.errors import TubeError
    from pytubemq.model.ids import Address

QUIET_S = 3.0
"""The time that messages may be in flight before the reason is printed."""
LOOKS = 6
"""The number of checks within that time."""


class Stall:
    """Watches one producer; `events` are those of its connection."""

    def __init__(
        self, options: GlobalOptions, producer: Producer, events: EventQueue, *, quiet_s: float = QUIET_S
    ) -> None:
        self._options = options
        self._producer = producer
        self._events = events
        self._quiet_s = quiet_s
        self._reasons: dict[Address | None, TubeError] = {}
        """The reason why each server does not accept messages."""

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Watch for as long as the block lasts."""
        tasks = [asyncio.create_task(self._listen()), asyncio.create_task(self._watch())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _listen(self) -> None:
        async for event in self._events:
            if isinstance(event, Lost):
                self._reasons[event.peer] = event.reason
            elif isinstance(event, Connected):
                self._reasons.pop(event.peer, None)

    async def _watch(self) -> None:
        done, looks = -1, 0
        while True:
            await asyncio.sleep(self._quiet_s / LOOKS)
            stats = self._producer.stats
            ended = stats.delivered + stats.failed
            looks = looks + 1 if stats.buffered_messages and ended == done else 0
            done = ended
            if looks == LOOKS:
                self._tell(stats.buffered_messages)

    def _tell(self, waiting: int) -> None:
        why = "; ".join(dict.fromkeys(reason.message for reason in self._reasons.values())) or "no response yet"
        under_way = count_of(waiting, "message")
        self._options.say(f"waiting: {under_way} under way, none accepted for {self._quiet_s:g} s: {why}")
