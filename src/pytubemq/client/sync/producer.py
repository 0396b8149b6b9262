"""`Producer` without `await`.

The invariants: messages of one thread keep their order; what waits between the threads counts into the buffer's bounds;
every future ends.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from pytubemq.client.pending import check_key
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


LOOK_AGAIN_S = 0.001
"""How long a submitted message may lie between the threads while others follow it."""


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
        self._put_bytes = 0
        self._taken_bytes = 0
        self._lock = threading.Lock()
        self._posted = False
        self._full = False
        self._turn = asyncio.Lock()

    def __repr__(self) -> str:
        return f"sync.{self._producer!r}"

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
        if key is not None:
            key = check_key(key)
        encoded = self._producer.encode(body, attrs, msg_type, msg_time)
        future: concurrent.futures.Future[Receipt] = concurrent.futures.Future()
        size_bytes = len(encoded[0])
        with self._lock:
            buffer = self._producer.buffer
            held = buffer.messages + len(self._queue)
            held_bytes = buffer.size_bytes + self._put_bytes - self._taken_bytes
            if held and (held >= self._max_messages or held_bytes + size_bytes > self._max_bytes):
                raise buffer.full()
            self._put_bytes += size_bytes
            self._queue.append(_Waiting((future, encoded, key, partition)))
        if not self._posted:
            self._posted = True
            self._io.post(self._look)
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

    def _look(self) -> None:
        """Take what is there, and look again soon: waking this thread for each message would cost more than sending
        it. Only when nothing came meanwhile does the next message have to wake it."""
        if not self._queue:
            self._posted = False
            if not self._queue:  # cleared before this second look, so a message that saw it set is not left lying
                return
            self._posted = True
        if not self._full and not self._hand_over_all():
            self._producer.tasks.spawn(self._drain(), name=f"sync-{self._producer.topic}")
        asyncio.get_running_loop().call_later(LOOK_AGAIN_S, self._look)

    async def _drain(self) -> None:
        """Hand over everything, waiting for room where there is none."""
        async with self._turn:
            self._full = True
            try:
                while not self._hand_over_all():
                    await self._producer.room()
            except TubeError:
                self._hand_over_all()  # each message hears for itself that the producer has ended
            finally:
                self._full = False

    def _hand_over_all(self) -> bool:
        """Hand over what is queued; False when the buffer is full before the queue is empty."""
        queue = self._queue
        while queue:
            if not self._hand_over(queue[0]):
                return False
            self._taken_bytes += len(queue.popleft()[1][0])
        return True

    def _hand_over(self, waiting: _Waiting) -> bool:
        future, encoded, key, partition = waiting
        if future.cancelled():
            return True
        try:
            inner = self._producer.enqueue(encoded, key=key, partition=partition)
        except BufferFullError:
            return False
        except TubeError as error:
            if future.set_running_or_notify_cancel():
                future.set_exception(error)
            return True
        if future.set_running_or_notify_cancel():
            inner.add_done_callback(partial(_copy, future))
        else:
            inner.cancel()
        return True

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
            self._hand_over_all()  # what is left fails, for the producer is closed


def _copy(outer: concurrent.futures.Future[Receipt], inner: asyncio.Future[Receipt]) -> None:
    error = ClosedError("the message was dropped") if inner.cancelled() else inner.exception()
    if error is None:
        outer.set_result(inner.result())
    else:
        outer.set_exception(error)
