"""Why a producer makes no headway, said once it has made none for a while.

The invariant: it only talks, once for each stall; what is sent, and how long it is tried, is the producer's matter.
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
    from pytubemq.client.session.events import EventQueue
    from pytubemq.errors import TubeError
    from pytubemq.model.ids import Address

QUIET_S = 3.0
"""Messages may be under way for so long before it is said why."""
LOOKS = 6
"""How often it is looked within that time."""


class Stall:
    """Watches one producer; `events` are those of its connection, which nobody else reads."""

    def __init__(
        self, options: GlobalOptions, producer: Producer, events: EventQueue, *, quiet_s: float = QUIET_S
    ) -> None:
        self._options = options
        self._producer = producer
        self._events = events
        self._quiet_s = quiet_s
        self._reasons: dict[Address | None, TubeError] = {}
        """Why each server does not take what it is given."""

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
        why = "; ".join(dict.fromkeys(reason.message for reason in self._reasons.values())) or "no answer yet"
        under_way = count_of(waiting, "message")
        self._options.say(f"waiting: {under_way} under way, none taken for {self._quiet_s:g} s: {why}")
