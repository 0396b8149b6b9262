"""A consumer that calls a handler with what comes.

The invariants: the messages of a partition are handled in order, one batch at a time; a batch is confirmed after its
handler has returned, never before; no more handlers run than there are workers; none is called while paused, nor with
what is known to be taken away; a handler that raises is reported and logged, and what becomes of its batch is what
`on_error` says; a failure in the background is raised to whoever waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import inspect
import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytubemq.client.session.events import HandlerFailed
from pytubemq.client.session.tasks import Tasks
from pytubemq.core.retry import Backoff
from pytubemq.errors import ClosedError, ConfigError, StaleBatchError, TubeError

if TYPE_CHECKING:
    from datetime import datetime
    from types import TracebackType

    from pytubemq.client.consumer.consumer import Consumer
    from pytubemq.client.consumer.consumer_base import ConsumerStats
    from pytubemq.client.options import Handler, PushOptions
    from pytubemq.client.received.batch import Batch
    from pytubemq.model.ids import Partition

logger = logging.getLogger(__name__)

AGAIN: Final = Backoff(first_s=0.1, most_s=30.0)
"""Before a batch whose handler raised is fetched again, longer after each failure in a row."""


@dataclass(frozen=True, slots=True)
class PushStats:
    """Counters since the consumer was entered, and what it does now."""

    handled: int
    """Messages whose batch was handled and confirmed."""
    failed: int
    """Calls of the handler that raised."""
    running: int
    """Batches that are being handled now."""
    consumer: ConsumerStats


class PushConsumer:
    """Calls a handler with the batches of a group. Made by `Tube.push_consumer`; use it with `async with`."""

    def __init__(self, consumer: Consumer, handler: Handler, options: PushOptions) -> None:
        if not callable(handler):
            raise ConfigError(
                f"the handler is {handler!r}", hint="give a function that takes a Batch: handler=my_function"
            )
        self.options = options
        self._consumer = consumer
        self._handler = handler
        self._async = _is_async(handler)
        self._threads: ThreadPoolExecutor | None = None
        self._tasks = Tasks(self._fail)
        self._paused = False
        self._go_on = asyncio.Event()
        """Set when a pause ends, or the consumer does."""
        self._busy: set[asyncio.Task[None]] = set()
        self._failures: dict[Partition, int] = {}
        """Failures in a row."""
        self._handled = self._failed = 0
        self._closing = False
        self._ended = asyncio.Event()
        self._failure: BaseException | None = None
        self._raised = False

    def __repr__(self) -> str:
        return f"Push{self._consumer!r}"

    # --- life -----------------------------------------------------------------------------------------------

    async def __aenter__(self) -> PushConsumer:
        """Register, and begin to call the handler; errors as in `Consumer`."""
        await self._consumer.__aenter__()
        options = self.options
        if not self._async:
            self._threads = ThreadPoolExecutor(options.workers, thread_name_prefix="pytubemq-push")
        self._consumer.fetch_with(options.fetch)
        for number in range(options.workers):
            self._tasks.spawn(self._work(), name=f"push-{self._consumer.options.group}-{number}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
        if kind is None:
            self._raise_failure()

    async def wait(self, *, timeout_s: float | None = None) -> bool:
        """Wait until it is closed (True) or `timeout_s` is over (False).

        Raises:
            TubeError: the consumer failed in the background.
            Exception: what the handler raised, with `on_error="stop"`.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._ended.wait()
        self._raise_failure()
        return self._ended.is_set()

    async def close(self) -> None:
        """Take no more, wait for running handlers for at most `close_timeout_s`, then leave the group. Idempotent.

        With `by_message` that is for all of a batch that was begun, unless it is paused. A handler in a thread that
        takes longer runs to its end, but its batch is not confirmed and comes again. So does the batch of a handler
        that calls this.
        """
        if self._closing:
            return
        self._closing = True
        self._go_on.set()
        others = {task for task in self._busy if task is not asyncio.current_task()}
        if others:
            await asyncio.wait(others, timeout=self._consumer.options.close_timeout_s)
        await self._tasks.close()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
        await self._consumer.close()
        self._ended.set()

    def pause(self) -> None:
        """Call the handler with nothing more until `resume`; partitions stay with this consumer."""
        self._paused = True
        self._go_on.clear()

    def resume(self) -> None:
        """Go on after `pause`."""
        self._paused = False
        self._go_on.set()

    # --- looking --------------------------------------------------------------------------------------------

    @property
    def ended(self) -> bool:
        """True if it was closed."""
        return self._closing

    @property
    def assignment(self) -> tuple[Partition, ...]:
        """The partitions of this consumer, sorted."""
        return self._consumer.assignment

    def lag(self) -> dict[Partition, int | None]:
        """Return the unconfirmed messages of each partition; None while unknown."""
        return self._consumer.lag()

    async def seek(self, partition: Partition | str, offset: int | datetime) -> int | None:
        """Read an assigned partition from another offset or time on; as `Consumer.seek`."""
        return await self._consumer.seek(partition, offset)

    @property
    def stats(self) -> PushStats:
        """The counters so far."""
        return PushStats(
            handled=self._handled, failed=self._failed, running=len(self._busy), consumer=self._consumer.stats
        )

    # --- working --------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        while not self._over:
            batch = await self._consumer.next_batch()
            if batch is None or self._over:
                return  # not handled, so not confirmed: it comes again
            if self._paused:
                await _reject(batch)  # so it is in nobody's hands when its partition is taken away meanwhile
                await self._pause_over()
                continue
            self._busy.add(task)
            try:
                await self._handle(batch)
            finally:
                self._busy.discard(task)

    async def _handle(self, batch: Batch) -> None:
        try:
            if not self.options.by_message:
                await self._call(batch)
            elif not await self._each(batch):
                logger.info("%s: stopped handling %s before its last message", self._consumer.options.group, batch)
                return
        except Exception as error:
            self._report_failure(batch, len(batch), error)
            await self._give_up(batch, error)
            return
        self._failures.pop(batch.partition, None)
        await self._confirm(batch)

    async def _each(self, batch: Batch) -> bool:
        """Return True if the batch was handled to its end; False if it is void or this consumer has ended."""
        for message in batch.messages:
            await self._pause_over()
            if self._paused or not batch.held or self._failure is not None:
                return False
            try:
                await self._call(message)
            except Exception as error:
                if self.options.on_error != "skip":
                    raise
                self._report_failure(batch, 1, error)
        return True

    async def _pause_over(self) -> None:
        while self._paused and not self._closing:
            await self._go_on.wait()

    async def _call(self, what: object) -> None:
        if self._threads is None:
            result = self._handler(what)
        else:
            call = functools.partial(contextvars.copy_context().run, self._handler, what)
            result = await asyncio.get_running_loop().run_in_executor(self._threads, call)
        if inspect.isawaitable(result):
            await result

    async def _give_up(self, batch: Batch, error: Exception) -> None:
        match self.options.on_error:
            case "skip":
                await self._confirm(batch)
            case "stop":
                await _reject(batch)
                raise error
            case _:
                failures = self._failures[batch.partition] = self._failures.get(batch.partition, 0) + 1
                pause_s = AGAIN.delay_s(failures, self._consumer.cluster.rng)
                # Not here: the worker is free for other partitions meanwhile.
                self._tasks.spawn(_reject_after(batch, pause_s), name=f"push-again-{batch.partition}")

    async def _confirm(self, batch: Batch) -> None:
        if not batch.settled:
            try:
                await batch.confirm()
            except ClosedError:
                raise
            except StaleBatchError as error:
                logger.info("%s: %s", self._consumer.options.group, error.message)
                return
            except TubeError as error:
                # an event and a line in the log say so, at a bounded rate
                logger.info("%s: a batch that was handled comes again: %s", self._consumer.options.group, error)
                return
        self._handled += len(batch)

    def _report_failure(self, batch: Batch, messages: int, error: Exception) -> None:
        self._failed += 1
        group, then = self._consumer.options.group, self.options.on_error
        if then == "stop":  # whoever waits for this consumer is raised the first one with its traceback
            logger.error("%s: the handler failed at %s, %s: %r", group, batch, _THEN[then], error)
        else:
            logger.error("%s: the handler failed at %s, %s", group, batch, _THEN[then], exc_info=error)
        self._consumer.emit(HandlerFailed(group, batch.partition, messages, error, then))

    @property
    def _over(self) -> bool:
        return self._closing or self._failure is not None

    def _fail(self, error: BaseException) -> None:
        self._failure = error
        self._ended.set()

    def _raise_failure(self) -> None:
        if self._failure is not None and not self._raised:
            self._raised = True
            raise self._failure


_THEN: Final = {"retry": "which comes again", "skip": "which is skipped", "stop": "which ends this consumer"}


async def _reject(batch: Batch) -> None:
    if not batch.settled:
        with contextlib.suppress(StaleBatchError):
            await batch.reject()


async def _reject_after(batch: Batch, pause_s: float) -> None:
    await asyncio.sleep(pause_s)
    await _reject(batch)


def _is_async(handler: Handler) -> bool:
    """True if a call returns an awaitable, so that it needs no thread."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)
