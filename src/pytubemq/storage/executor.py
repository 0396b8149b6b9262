"""Where blocking calls run: a thread in production, inline in simulation and in tests.

The invariant: calls given to one executor run one after the other, in the order given, and every result or error
reaches the future that was handed out.
"""

from __future__ import annotations

from concurrent.futures import Future
from queue import Full, Queue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Protocol, TypeVar

from pytubemq.errors import ClosedError, ServerOverflowError

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")

MAX_QUEUED_CALLS: Final = 4096
"""Calls waiting for the thread; beyond it `run` refuses at once rather than let work pile up."""


class Executor(Protocol):
    """Runs blocking calls."""

    def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run `call` and tell its outcome by the future. Raises ServerOverflowError if too many wait."""
        ...

    def close(self) -> None:
        """Run what waits, then stop. Further calls raise ClosedError."""
        ...


class InlineExecutor:
    """Runs each call before `run` returns."""

    def __init__(self) -> None:
        self._closed = False

    def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        if self._closed:
            raise ClosedError("the executor is closed")
        future: Future[T] = Future()
        _settle(future, call, args, kwargs)
        return future

    def close(self) -> None:
        self._closed = True


class ThreadExecutor:
    """One worker thread with a bounded queue."""

    def __init__(self, name: str, *, max_queued: int = MAX_QUEUED_CALLS) -> None:
        self._queue: Queue[tuple[Future[Any], Callable[..., Any], tuple[Any, ...], dict[str, Any]] | None]
        self._queue = Queue(max_queued)
        self._lock = Lock()
        self._closed = False
        self._thread = Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        with self._lock:  # so that nothing is queued behind the end mark
            if self._closed:
                raise ClosedError(f"the executor {self._thread.name} is closed")
            try:
                self._queue.put_nowait((future, call, args, kwargs))
            except Full:
                raise ServerOverflowError(
                    f"{self._queue.maxsize} calls wait for the thread {self._thread.name}", hint="try again later"
                ) from None
        return future

    def close(self) -> None:
        with self._lock:
            closing, self._closed = not self._closed, True
        if closing:
            self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (job := self._queue.get()) is not None:
            _settle(*job)
            del job  # a future's result must not live on here while the queue is empty


def _settle(future: Future[Any], call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call(*args, **kwargs)
    except BaseException as error:  # the thread must live; the error goes to whoever asked
        future.set_exception(error)
    else:
        future.set_result(result)
