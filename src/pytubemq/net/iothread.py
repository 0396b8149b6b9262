"""An event loop on a thread of its own, for callers that do not run one.

The invariants: heartbeats continue while the caller is busy; a wait can be interrupted by any exception, and what it
waited for is cancelled then; what a coroutine raises reaches its caller and never ends the loop; a caller that waits
when the loop is closed, or comes too late for it, gets an error; so does a forked child, which has no loop.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import logging
import os
import threading
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from pytubemq.errors import ClosedError, ForkedError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

logger = logging.getLogger(__name__)

T = TypeVar("T")

CANCEL_WAIT_S: Final = 1.0
"""The longest time that an interrupted caller waits for the cancelled coroutine to end, in seconds."""


class _Run(Generic[T]):
    """One run of a coroutine for another thread."""

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine
        self._task: asyncio.Task[Any] | None = None
        self._given_up = False
        self.queued = False
        self.future: concurrent.futures.Future[None] | None = None
        self.ended = threading.Event()
        self.results: list[T] = []
        """The result, once there is one."""
        self.error: BaseException | None = None
        """The exception that the coroutine raised."""

    async def run(self) -> None:
        """Run the coroutine on the loop; keep an error that would end the loop if its task raised it."""
        self._task = asyncio.current_task()
        try:
            if not self._given_up:
                self.results.append(await self._coroutine)
        except BaseException as error:
            self.error = error
            if not isinstance(error, SystemExit | KeyboardInterrupt):
                raise
        finally:
            self.ended.set()

    def give_up(self) -> None:
        """Keep it from beginning, if it has not begun. The caller has been interrupted."""
        self._given_up = True

    def cancel(self) -> None:
        """Cancel it, on the loop."""
        if self._task is not None:
            self._task.cancel()

    def close(self) -> None:
        """Close the coroutine, if it was never begun."""
        if inspect.getcoroutinestate(self._coroutine) == inspect.CORO_CREATED:
            self._coroutine.close()


class IoThread:
    """Runs coroutines for another thread."""

    def __init__(self, *, name: str = "pytubemq-io") -> None:
        self._loop = asyncio.new_event_loop()
        self._pid = os.getpid()
        self._closed = False
        self._gate = threading.RLock()
        """Held during a handover, so that nothing is queued after the loop's end, whatever a signal handler does."""
        self._waited_for: set[_Run[Any]] = set()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def closed(self) -> bool:
        """True if `close` was called, or this is a forked child: then there is nothing to close."""
        return self._closed or os.getpid() != self._pid

    def run(
        self, coroutine: Coroutine[Any, Any, T], *, give_back: Callable[[T], Coroutine[Any, Any, Any]] | None = None
    ) -> T:
        """Run to the end and return the result; cancelled when anything interrupts the waiting thread.

        A result that comes all the same while the caller is interrupted goes to `give_back`.

        Raises:
            ClosedError: another thread closed the loop before there was a result.
        """
        run = _Run(coroutine)
        try:
            self._begin(run).result()
        except concurrent.futures.CancelledError:
            if self._closed:
                raise _closed() from None
            raise
        except BaseException as error:
            if run.queued and error is not run.error:
                self._give_up(run, give_back)
            raise
        finally:
            self._waited_for.discard(run)
            run.close()
        if run.error is not None:
            raise run.error
        return run.results[0]

    def _begin(self, run: _Run[T]) -> concurrent.futures.Future[None]:
        def begin() -> concurrent.futures.Future[None]:
            self._waited_for.add(run)
            run.queued = True
            run.future = asyncio.run_coroutine_threadsafe(run.run(), self._loop)
            return run.future

        return self._hand_over(begin)

    def _give_up(self, run: _Run[T], give_back: Callable[[T], Coroutine[Any, Any, Any]] | None) -> None:
        """Cancel what an interrupted caller waited for, wait a moment for its end, and give back what it brought."""
        run.give_up()
        try:
            self.post(run.cancel)
            run.ended.wait(CANCEL_WAIT_S)
            if run.results and give_back is not None:
                self._hand_over(lambda: asyncio.run_coroutine_threadsafe(give_back(run.results[0]), self._loop))
        except ClosedError:
            return  # which has cancelled all

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
        if self.closed:
            return  # before the lock, which may have been held when the child was forked
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
            self._run_until_stopped()
        finally:
            for task in asyncio.all_tasks(self._loop):
                task.cancel()
            self._loop.run_until_complete(asyncio.sleep(0))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()
            for run in tuple(self._waited_for):
                if run.future is not None:
                    run.future.cancel()

    def _run_until_stopped(self) -> None:
        while True:
            try:
                self._loop.run_forever()
            except (SystemExit, KeyboardInterrupt) as error:
                # out of a task that nobody waits for; the others have done nothing wrong
                logger.error("a task of the thread %s ended with %r", threading.current_thread().name, error)
            if self._closed:
                return


def _closed() -> ClosedError:
    return ClosedError("the connection is closed")
