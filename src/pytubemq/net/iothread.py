"""An event loop on a thread of its own, for callers that do not run one.

The invariants: heartbeats continue while the caller is busy; a wait can be interrupted by Ctrl-C; a caller that waits
when the loop is closed, or comes too late for it, gets an error; so does a forked child, which has no loop.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from pytubemq.errors import ClosedError, ForkedError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")


class IoThread:
    """Runs coroutines for another thread."""

    def __init__(self, *, name: str = "pytubemq-io") -> None:
        self._loop = asyncio.new_event_loop()
        self._pid = os.getpid()
        self._closed = False
        self._gate = threading.RLock()
        """Held during a handover, so that nothing is queued after the loop's end, whatever a signal handler does."""
        self._waited_for: set[concurrent.futures.Future[Any]] = set()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def closed(self) -> bool:
        """True if `close` was called."""
        return self._closed

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run to the end and return the result; cancelled when the waiting thread is interrupted.

        Raises:
            ClosedError: another thread closed the loop before there was a result.
        """
        future = self._begin(coroutine)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            if self._closed:
                raise _closed() from None
            raise
        except KeyboardInterrupt:
            future.cancel()
            with contextlib.suppress(concurrent.futures.CancelledError, concurrent.futures.TimeoutError, Exception):
                future.result(timeout=1.0)
            raise
        finally:
            self._waited_for.discard(future)

    def _begin(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        def begin() -> concurrent.futures.Future[T]:
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
            self._waited_for.add(future)
            return future

        try:
            return self._hand_over(begin)
        except BaseException:
            coroutine.close()
            raise

    def _hand_over(self, how: Callable[[], T]) -> T:
        self._check()  # before the lock: a forked child may find it held for ever
        with self._gate:
            if self._closed:
                raise _closed()
            return how()

    def call(self, function: Callable[[], T]) -> T:
        """Run a plain function on the loop's thread and return its result."""

        async def on_loop() -> T:
            return function()

        return self.run(on_loop())

    def post(self, function: Callable[[], object]) -> None:
        """Schedule a plain function, without waiting for it."""
        self._hand_over(lambda: self._loop.call_soon_threadsafe(function))

    def close(self) -> None:
        """Stop the loop and the thread. Idempotent; a forked child only forgets them."""
        if os.getpid() != self._pid:
            self._closed = True  # the lock may have been held when the child was forked
            return
        with self._gate:
            if self._closed:
                return
            self._closed = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=5.0)

    def _check(self) -> None:
        if os.getpid() != self._pid:
            raise ForkedError(
                "this connection was made in the parent process and cannot be used in a forked child",
                hint="connect again in the child",
            )
        if self._closed:
            raise _closed()
        if threading.current_thread() is self._thread:
            raise RuntimeError("the sync API was called from its own I/O thread; use the async API there")

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            for task in asyncio.all_tasks(self._loop):
                task.cancel()
            self._loop.run_until_complete(asyncio.sleep(0))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()
            for future in tuple(self._waited_for):
                future.cancel()


def _closed() -> ClosedError:
    return ClosedError("the connection is closed")
