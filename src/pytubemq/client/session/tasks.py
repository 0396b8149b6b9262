"""The tasks of one producer, consumer or connection, with an owner.

The invariants: a task that dies takes its owner with it, with the reason; after `close` none runs.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

logger = logging.getLogger(__name__)


class Tasks:
    """Runs tasks, reports their failures, ends them."""

    def __init__(self, on_failure: Callable[[BaseException], None]) -> None:
        """`on_failure` is called once, with the first failure."""
        self._on_failure = on_failure
        self._running: set[asyncio.Task[None]] = set()
        self._closed = False
        self._failed = False

    def spawn(self, coroutine: Coroutine[Any, Any, None], *, name: str) -> asyncio.Task[None]:
        """Start a task. After `close` it is not started at all."""
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        if self._closed:
            task.cancel()
        self._running.add(task)
        task.add_done_callback(self._handle_end)
        return task

    async def close(self, *, grace_s: float = 0.0) -> None:
        """Give the tasks `grace_s` to end on their own, then cancel them. Idempotent."""
        self._closed = True
        here = asyncio.current_task()
        running = {task for task in self._running if task is not here}
        if running and grace_s > 0:
            await asyncio.wait(running, timeout=grace_s)
        for task in running:
            task.cancel()
        if running:
            await asyncio.gather(*running, return_exceptions=True)

    def _handle_end(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is None or self._closed:
            return
        logger.debug("task %s failed", task.get_name(), exc_info=error)
        if not self._failed:
            self._failed = True
            self._on_failure(error)
