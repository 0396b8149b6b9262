"""A consumer that calls a handler with each batch or message.

The invariants: the messages of a partition are handled in order, one batch at a time; what is confirmed was handled
before, and what was handled of a batch is confirmed, also where the rest is not handled; no more handlers run than
there are workers; none is called while paused, nor with what is known to be taken away; whatever leaves a handler is
reported and logged, and what becomes of its batch is what `on_error` says; a failure in the background is raised to
whoever waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytubemq.client.push.handler_calls import HandledBatch, HandlerCalls
from pytubemq.client.session.events import HandlerFailed
from pytubemq.client.session.registration_requests import UNREGISTER_TIMEOUT_S
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
        self._calls = HandlerCalls(handler, workers=options.workers)
        self._tasks = Tasks(self._fail)
        self._paused = False
        self._go_on = asyncio.Event()
        """Set when a pause ends, or the consumer does."""
        self._running: dict[asyncio.Task[None], HandledBatch] = {}
        self._not_before_s: dict[Partition, float] = {}
        """When a partition's next batch is handled, by the loop's clock; it begins with what a handler failed at."""
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
        self._calls.open()
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
            BaseException: what the handler raised, with `on_error="stop"`; `SystemExit` and the like with any.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._ended.wait()
        self._raise_failure()
        return self._ended.is_set()

    async def close(self) -> None:
        """Fetch no more, wait for running handlers for at most `close_timeout_s`, then leave the group. Idempotent.

        With `by_message` that is for the message that is being handled; those before it are confirmed, the rest of the
        batch comes again. A handler that takes longer is cancelled, or in a thread runs to its end, but is not
        confirmed: what it has comes again. So does the batch of a handler that calls this.
        """
        if self._closing or self._consumer.cluster.is_inherited:
            return
        self._closing = True
        self._go_on.set()
        here = asyncio.current_task()
        others = {task for task in self._running if task is not here}
        if others:
            await asyncio.wait(others, timeout=self._consumer.options.close_timeout_s)
        unfinished = [batch for task, batch in self._running.items() if task is not here]
        await self._tasks.close()
        self._calls.close()
        if unfinished:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(UNREGISTER_TIMEOUT_S):
                    await asyncio.gather(*map(self._confirm_part, unfinished))
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
            handled=self._handled, failed=self._failed, running=len(self._running), consumer=self._consumer.stats
        )

    # --- working --------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            while not self._over:
                batch = await self._consumer.next_batch()
                if batch is None or self._over:
                    return  # not handled, so not confirmed: it comes again
                if self._paused:
                    await _reject(batch)  # so it is in nobody's hands when its partition is taken away meanwhile
                    await self._pause_over()
                elif (wait_s := self._wait_s(batch.partition)) > 0:
                    self._reject_later(batch, wait_s)
                else:
                    self._running[task] = handled = HandledBatch(batch, by_message=self.options.by_message)
                    try:
                        await self._handle(handled)
                    finally:
                        del self._running[task]
        except asyncio.CancelledError as error:
            if not self._closing:  # by the handler itself, which was the only one to see it
                failure = TubeError(
                    "a worker of this consumer was cancelled", hint="let the handler cancel no task but its own"
                )
                failure.__cause__ = error
                self._fail(failure)
            raise

    async def _handle(self, handled: HandledBatch) -> None:
        error = await self._call(handled)
        if error is not None:
            self._report_failure(handled.batch, 1 if self.options.by_message else len(handled.batch), error)
            await self._give_up(handled, error)
        elif handled.is_complete:
            self._failures.pop(handled.batch.partition, None)
            await self._confirm(handled.batch)
        else:
            logger.info("%s: stopped handling %s before its last message", self._consumer.options.group, handled.batch)
            await self._confirm_part(handled)

    async def _call(self, handled: HandledBatch) -> BaseException | None:
        """Call the handler with a batch, until it is handled, void, or this consumer has ended; return what left it."""
        batch = handled.batch

        def goes_on() -> bool:
            return not (self._paused or self._over) and batch.held

        while True:
            await self._pause_over()
            error = await self._calls.run(handled, goes_on)
            if error is None:
                if handled.is_complete or not self._paused or self._over:
                    return None
            elif self.options.by_message and self.options.on_error == "skip" and not _is_fatal(error):
                self._report_failure(batch, 1, error)
                handled.handled += 1
            else:
                return error

    async def _pause_over(self) -> None:
        while self._paused and not self._closing:
            await self._go_on.wait()

    async def _give_up(self, handled: HandledBatch, error: BaseException) -> None:
        batch = handled.batch
        if self.options.on_error == "stop" or _is_fatal(error):
            self._fail(_as_failure(error))  # not raised: some of them would end the loop
            await self._confirm_part(handled)
        elif self.options.on_error == "skip":
            await self._confirm(batch)
        else:
            failures = 1 if handled.handled else self._failures.get(batch.partition, 0) + 1
            self._failures[batch.partition] = failures
            pause_s = AGAIN.delay_s(failures, self._consumer.cluster.rng)
            if await self._confirm_part(handled):
                self._not_before_s[batch.partition] = asyncio.get_running_loop().time() + pause_s
            else:
                self._reject_later(batch, pause_s)

    async def _confirm_part(self, handled: HandledBatch) -> bool:
        """Confirm what was handled of a batch; return False if that is nothing, or its Broker takes no parts."""
        batch, count = handled.batch, handled.handled
        if not self.options.by_message or not 0 < count < len(batch):
            return False
        up_to = batch.messages[count].offset
        if up_to is None or batch.next_offset is None:
            return False
        try:
            return await self._confirm(batch, up_to=up_to, messages=count)
        except ConfigError:
            return False

    def _wait_s(self, partition: Partition) -> float:
        """Return how long a batch has to wait, since its handler failed at its first message a moment ago."""
        until_s = self._not_before_s.pop(partition, None)
        return 0.0 if until_s is None else until_s - asyncio.get_running_loop().time()

    def _reject_later(self, batch: Batch, pause_s: float) -> None:
        # Not here: the worker is free for other partitions meanwhile.
        self._tasks.spawn(_reject_after(batch, pause_s), name=f"push-again-{batch.partition}")

    async def _confirm(self, batch: Batch, *, up_to: int | None = None, messages: int | None = None) -> bool:
        """Confirm a batch, or only its messages below an offset; return False if it comes again."""
        if not batch.settled:
            try:
                await batch.confirm(up_to=up_to)
            except (ClosedError, ConfigError):
                raise
            except StaleBatchError as error:
                logger.info("%s: %s", self._consumer.options.group, error.message)
                return False
            except TubeError as error:
                # an event and a line in the log say so, at a bounded rate
                logger.info("%s: a batch that was handled comes again: %s", self._consumer.options.group, error)
                return False
        self._handled += len(batch) if messages is None else messages
        return True

    def _report_failure(self, batch: Batch, messages: int, error: BaseException) -> None:
        self._failed += 1
        group, then = self._consumer.options.group, self.options.on_error
        if _is_fatal(error):
            then = "stop"
        if then == "stop":  # whoever waits for this consumer is raised the first one with its traceback
            logger.error("%s: the handler failed at %s, %s: %r", group, batch, _THEN[then], error)
        else:
            logger.error("%s: the handler failed at %s, %s", group, batch, _THEN[then], exc_info=error)
        self._consumer.emit(HandlerFailed(group, batch.partition, messages, error, then))

    @property
    def _over(self) -> bool:
        return self._closing or self._failure is not None

    def _fail(self, error: BaseException) -> None:
        if self._failure is None:
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


def _is_fatal(error: BaseException) -> bool:
    """True for what ends a program, as `SystemExit`: then the consumer ends, whatever `on_error` says."""
    return not isinstance(error, Exception | asyncio.CancelledError)


def _as_failure(error: BaseException) -> BaseException:
    """Return what is raised to whoever waits; a `CancelledError` would look as if they had been cancelled."""
    if not isinstance(error, asyncio.CancelledError):
        return error
    failure = TubeError(
        "the handler ended with CancelledError, though nobody had cancelled it",
        hint="look at what it waits for: a task that was cancelled raises this to whoever awaits it",
    )
    failure.__cause__ = error
    return failure
