"""The calls of a push consumer's handler, on the loop or in threads.

The invariants: a plain function never runs on the loop's thread, and one hand-over to a thread is enough for all
messages of a batch; whatever leaves a handler is returned, not raised, so that it ends neither a loop nor a thread;
only a cancellation from outside is raised.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from pytubemq.client.options import Handler
    from pytubemq.client.received.batch import Batch


class HandledBatch:
    """A batch, and how much of it the handler has done: message by message, or as a whole."""

    __slots__ = ("batch", "handled", "items")

    def __init__(self, batch: Batch, *, by_message: bool) -> None:
        self.batch = batch
        self.items: Sequence[object] = batch.messages if by_message else (batch,)
        self.handled = 0
        """Items that the handler has returned from, or that were skipped, from the first on."""

    @property
    def is_complete(self) -> bool:
        """True if nothing of it is left."""
        return self.handled == len(self.items)


class _Begun(NamedTuple):
    """The end of a row of calls: an error, something to await, or neither."""

    error: BaseException | None = None
    awaitable: Awaitable[Any] | None = None
    """The result of the last call, which has to be awaited on the loop."""


class HandlerCalls:
    """Calls a handler with one item of a batch after the other."""

    def __init__(self, handler: Handler, *, workers: int) -> None:
        self._handler = handler
        self._workers = workers
        self._threads: ThreadPoolExecutor | None = None

    def open(self) -> None:
        """Start the threads, if the handler needs any."""
        if not _is_async(self._handler):
            self._threads = ThreadPoolExecutor(self._workers, thread_name_prefix="pytubemq-push")

    def close(self) -> None:
        """Begin no more calls. What runs in a thread runs to its end."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def run(self, batch: HandledBatch, goes_on: Callable[[], bool]) -> BaseException | None:
        """Call the handler with the rest of a batch for as long as `goes_on()`; return what left it, if anything did.

        `goes_on` is asked before each item, perhaps in another thread.
        """
        while not batch.is_complete and goes_on():
            begun = await self._begin(batch, goes_on)
            error = begun.error
            if begun.awaitable is not None:
                error = await _outcome(begun.awaitable)
                batch.handled += error is None
            if error is not None:
                return error
        return None

    async def _begin(self, batch: HandledBatch, goes_on: Callable[[], bool]) -> _Begun:
        if self._threads is None:
            return self._call(batch, lambda: True, self._handler)
        context = contextvars.copy_context()
        call = functools.partial(self._call, batch, goes_on, lambda item: context.copy().run(self._handler, item))
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    def _call(self, batch: HandledBatch, goes_on: Callable[[], bool], handler: Callable[[Any], Any]) -> _Begun:
        """Call the handler until something is to be awaited, it fails, or nothing is left."""
        items = batch.items
        try:
            while batch.handled < len(items) and goes_on():
                result = handler(items[batch.handled])
                if result is not None and inspect.isawaitable(result):
                    return _Begun(awaitable=result)
                batch.handled += 1
        except BaseException as error:
            return _Begun(error)
        return _Begun()


async def _outcome(awaitable: Awaitable[Any]) -> BaseException | None:
    task = asyncio.current_task()
    assert task is not None
    try:
        await awaitable
    except GeneratorExit:
        raise
    except asyncio.CancelledError as error:
        if task.cancelling():
            raise
        return error  # of something that the handler waited for
    except BaseException as error:
        return error
    return None


def _is_async(handler: Handler) -> bool:
    """True if a call returns an awaitable, so that it needs no thread."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)
