"""Kills of the Broker during work, with restarts.

The invariant: every kill that was planned happens, at a count of rows that is reached before the work is done; when the
Broker does not start again the demo fails.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from pytubemq.server.cluster import EmbeddedCluster


class Chaos:
    """SIGKILL for the Broker at chosen counts of rows."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.kills = 0
        self._cluster = cluster

    @contextlib.asynccontextmanager
    async def during(self, thresholds: Sequence[int]) -> AsyncIterator[Callable[[int], None]]:
        """Kill the Broker during a block of work, which calls the yielded function with its count of rows."""
        reached = [asyncio.Event() for _ in thresholds]

        def report_rows(rows: int) -> None:
            for threshold, event in zip(thresholds, reached, strict=True):
                if rows >= threshold:
                    event.set()

        async with asyncio.TaskGroup() as group:
            killer = group.create_task(self._kill_at(reached))
            yield report_rows
            if not all(event.is_set() for event in reached):
                killer.cancel()

    async def _kill_at(self, reached: Sequence[asyncio.Event]) -> None:
        for event in reached:
            await event.wait()
            await self._cluster.kill_broker()
            self.kills += 1
            await self._cluster.restart_broker()
