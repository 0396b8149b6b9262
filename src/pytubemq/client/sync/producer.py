"""`Producer` without `await`.

The invariants: messages of one thread keep their order; what waits between the threads counts into the buffer's bounds;
every future ends.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections import deque
from typing import TYPE_CHECKING

from pytubemq.errors import BufferFullError, ClosedError, TubeError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from types import TracebackType

    from pytubemq.client import producer as producers
    from pytubemq.client.pending import Body, Encoded
    from pytubemq.client.producer import ProducerStats
    from pytubemq.model.ids import Partition
    from pytubemq.model.message import Receipt
    from pytubemq.net.iothread import IoThread


class _Waiting(tuple["concurrent.futures.Future[Receipt]", "Encoded", "bytes | str | None", "Partition | int | None"]):
    """A submitted message that has not reached the loop's thread yet."""

    __slots__ = ()


class Producer:
    """Sends messages to one topic. Made by `Tube.producer`; use it with `with`. Safe to share between threads."""

    def __init__(self, io: IoThread, producer: producers.Producer, max_messages: int, max_bytes: int) -> None:
        self._io = io
        self._producer = producer
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._queue: deque[_Waiting] = deque()
        self._queued_bytes = 0
        self._lock = threading.Lock()
        self._draining = False
        self._turn = asyncio.Lock()

    def __enter__(self) -> Producer:
        """Register and learn the partitions; see `pytubemq.Producer`."""
        self._io.run(self._producer.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Send what is buffered, bounded in time, then leave. Idempotent."""
        if self._io.closed:
            return
        self._io.run(self._close())

    def send(
        self,
        body: Body,
        *,
        attrs: Mapping[str, str] | None = None,
        msg_type: str | None = None,
        msg_time: datetime | str | None = None,
        key: bytes | str | None = None,
        partition: Partition | int | None = None,
    ) -> Receipt:
        """Send a message and wait for its receipt; arguments and errors as in `pytubemq.Producer.send`."""
        return self._io.run(
            self._producer.send(body, attrs=attrs, msg_type=msg_type, msg_time=msg_time, key=key, partition=partition)
        )

    def submit(
        self,
        body: Body,
        *,
        attrs: Mapping[str, str] | None = None,
        msg_type: str | None = None,
        msg_time: datetime | str | None = None,
        key: bytes | str | None = None,
        partition: Partition | int | None = None,
    ) -> concurrent.futures.Future[Receipt]:
        """Queue a message and return at once; the future gets its receipt or its error.

        Raises:
            BufferFullError: no room; call `room()` and submit again.
            MessageError, ClosedError, ForkedError: as for `send`.
        """
        self._producer.check_open()
        encoded = self._producer.encode(body, attrs, msg_type, msg_time)
        future: concurrent.futures.Future[Receipt] = concurrent.futures.Future()
        with self._lock:
            buffer = self._producer.buffer
            held = buffer.messages + len(self._queue)
            held_bytes = buffer.size_bytes + self._queued_bytes
            if held and (held >= self._max_messages or held_bytes + len(encoded[0]) > self._max_bytes):
                raise buffer.full()
            self._queue.append(_Waiting((future, encoded, key, partition)))
            self._queued_bytes += len(encoded[0])
            wake, self._draining = not self._draining, True
        if wake:
            self._io.post(self._start_drain)
        return future

    def room(self) -> None:
        """Wait until `submit` will be accepted."""
        self._io.run(self._room())

    def flush(self) -> None:
        """Wait until nothing is buffered: every message has its receipt or its error."""
        self._io.run(self._flush())

    @property
    def stats(self) -> ProducerStats:
        """What has been done so far."""
        return self._producer.stats

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """The topic's partitions as known now."""
        return self._producer.partitions

    # --- on the loop's thread -------------------------------------------------------------------------------

    def _start_drain(self) -> None:
        self._producer.tasks.spawn(self._drain(), name=f"sync-{self._producer.topic}")

    async def _drain(self) -> None:
        async with self._turn:
            while (waiting := self._next()) is not None:
                await self._hand_over(waiting)

    def _next(self) -> _Waiting | None:
        with self._lock:
            if not self._queue:
                self._draining = False
                return None
            waiting = self._queue.popleft()
            self._queued_bytes -= len(waiting[1][0])
            return waiting

    async def _hand_over(self, waiting: _Waiting) -> None:
        future, encoded, key, partition = waiting
        if not future.set_running_or_notify_cancel():
            return
        try:
            while True:
                try:
                    inner = self._producer.enqueue(encoded, key=key, partition=partition)
                    break
                except BufferFullError:
                    await self._producer.room()
        except TubeError as error:
            future.set_exception(error)
        except BaseException:
            future.set_exception(ClosedError("the producer was closed before this message was sent"))
            raise
        else:
            inner.add_done_callback(lambda done: _copy(done, future))

    async def _flush(self) -> None:
        await self._drain()
        await self._producer.flush()

    async def _room(self) -> None:
        await self._drain()
        await self._producer.room()

    async def _close(self) -> None:
        try:
            if not self._producer.ended:
                await self._drain()
        finally:
            await self._producer.close()
            while (waiting := self._next()) is not None:
                await self._hand_over(waiting)  # which fails it, for the producer is closed


def _copy(inner: asyncio.Future[Receipt], outer: concurrent.futures.Future[Receipt]) -> None:
    error = ClosedError("the message was dropped") if inner.cancelled() else inner.exception()
    if error is None:
        outer.set_result(inner.result())
    else:
        outer.set_exception(error)
