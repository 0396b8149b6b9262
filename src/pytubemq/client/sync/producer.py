"""`Producer` without `await`.

The invariants: messages of one thread keep their order; what waits between the threads counts into the buffer's bounds;
every future ends, and a failure that nobody asks its future for is raised by `flush` or at the end of the block.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from pytubemq.client.producer.messages.batch_encoding import EncodedBatches
from pytubemq.client.producer.messages.message_checks import check_key
from pytubemq.client.sync.submit_future import SubmitFuture, UnaskedFailures
from pytubemq.client.sync.thread import use_sync_words
from pytubemq.errors import BufferFullError, ClosedError, PartialSendError, TubeError

if TYPE_CHECKING:
    import concurrent.futures
    from collections.abc import Iterable, Mapping
    from datetime import datetime
    from types import TracebackType

    from pytubemq.client.options import ProducerOptions
    from pytubemq.client.producer import producer as producers
    from pytubemq.client.producer.messages.message_checks import Body, Encoded
    from pytubemq.client.producer.producer import ProducerStats
    from pytubemq.client.producer.receipts import Receipts
    from pytubemq.model.ids import Partition
    from pytubemq.model.message import Receipt
    from pytubemq.net.iothread import IoThread


POLL_PERIOD_S = 0.001
"""Longest time that a submitted message waits between the threads while others follow it."""


class _Waiting(NamedTuple):
    """A message, or several that stay together, that has not reached the loop's thread yet."""

    future: SubmitFuture
    encoded: Encoded | EncodedBatches
    key: bytes | str | None
    partition: Partition | int | None
    messages: int
    size_bytes: int


class Producer:
    """Sends messages to one topic. Made by `Tube.producer`; use it with `with`. Safe to share between threads."""

    def __init__(self, io: IoThread, producer: producers.Producer, options: ProducerOptions) -> None:
        self._io = io
        self._producer = producer
        self._max_messages = options.max_buffer_messages
        self._max_bytes = options.max_buffer_bytes
        self._queue: deque[_Waiting] = deque()
        self._put_messages = self._taken_messages = 0
        self._put_bytes = self._taken_bytes = 0
        self._lock = threading.Lock()
        self._posted = False
        self._full = False
        self._turn = asyncio.Lock()
        self._failures = UnaskedFailures(producer.topic)

    def __repr__(self) -> str:
        return f"sync.{self._producer!r}"

    def number_as(self, producer_id: int, epoch: int = 0) -> None:
        """Number the messages as those of a known producer; as `pytubemq.Producer.number_as`."""
        self._producer.number_as(producer_id, epoch)

    def __enter__(self) -> Producer:
        """Register and learn the partitions; see `pytubemq.Producer`."""
        self._io.run(self._producer.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if kind is None:
            self._failures.raise_any()

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
        return self._put(encoded, key, partition, 1, len(encoded[0]))

    def send_many(
        self,
        bodies: Iterable[Body],
        *,
        attrs: Mapping[str, str] | None = None,
        msg_type: str | None = None,
        msg_time: datetime | str | None = None,
        key: bytes | str | None = None,
        partition: Partition | int | None = None,
    ) -> Receipts:
        """Send many messages to one partition and wait for their receipts; as `pytubemq.Producer.send_many`."""
        return self._io.run(
            self._producer.send_many(
                bodies, attrs=attrs, msg_type=msg_type, msg_time=msg_time, key=key, partition=partition
            )
        )

    def submit_many(
        self,
        bodies: Iterable[Body],
        *,
        attrs: Mapping[str, str] | None = None,
        msg_type: str | None = None,
        msg_time: datetime | str | None = None,
        key: bytes | str | None = None,
        partition: Partition | int | None = None,
    ) -> concurrent.futures.Future[Receipts]:
        """Queue many messages for one partition and return at once; as `pytubemq.Producer.submit_many`."""
        self._producer.check_open()
        return self.submit_encoded(
            self._producer.encode_many(bodies, attrs, msg_type, msg_time), key=key, partition=partition
        )

    def encode_payloads(
        self, payloads: list[bytes], *, flag: int, msg_type: str | None = None, msg_time: str | None = None
    ) -> EncodedBatches:
        """Build record batches of payloads that contain their attributes; as `pytubemq.Producer.encode_payloads`."""
        return self._producer.encode_payloads(payloads, flag=flag, msg_type=msg_type, msg_time=msg_time)

    def check_payload(self, payload: bytes, flag: int) -> None:
        """Check a payload's length; as `encode_payloads` does.

        Raises:
            MessageError: it is too long.
        """
        self._producer.check_payload(payload, flag)

    @overload
    def submit_encoded(
        self, encoded: EncodedBatches, *, key: bytes | str | None = None, partition: Partition | int | None = None
    ) -> concurrent.futures.Future[Receipts]: ...
    @overload
    def submit_encoded(
        self, encoded: Encoded, *, key: bytes | str | None = None, partition: Partition | int | None = None
    ) -> concurrent.futures.Future[Receipt]: ...
    def submit_encoded(
        self,
        encoded: EncodedBatches | Encoded,
        *,
        key: bytes | str | None = None,
        partition: Partition | int | None = None,
    ) -> concurrent.futures.Future[Any]:
        """`submit_many` for what `encode_payloads` gave; `submit` for a payload, its flag, type and time."""
        self._producer.check_open()
        if not isinstance(encoded, EncodedBatches):
            return self._put(encoded, key, partition, 1, len(encoded[0]))
        self._producer.buffer.check_size(encoded.size_bytes, encoded.messages)
        return self._put(encoded, key, partition, encoded.messages, encoded.size_bytes)

    def _put(
        self,
        encoded: Encoded | EncodedBatches,
        key: bytes | str | None,
        partition: Partition | int | None,
        messages: int,
        size_bytes: int,
    ) -> concurrent.futures.Future[Any]:
        """Queue a message for the loop's thread, if the buffer has room for it.

        Raises:
            BufferFullError: it has none.
        """
        if key is not None:
            key = check_key(key)
        future = SubmitFuture()
        with self._lock:
            if not self._fits(messages, size_bytes):
                raise self._producer.buffer.full_error(size_bytes, messages)
            self._put_messages += messages
            self._put_bytes += size_bytes
            self._queue.append(_Waiting(future, encoded, key, partition, messages, size_bytes))
        if not self._posted:
            self._posted = True
            self._io.post(self._poll)
        return future

    def _fits(self, messages: int, size_bytes: int) -> bool:
        """True if there is room, counting what waits between the threads."""
        buffer = self._producer.buffer
        held = buffer.messages + self._put_messages - self._taken_messages
        held_bytes = buffer.size_bytes + self._put_bytes - self._taken_bytes
        return not held or (held + messages <= self._max_messages and held_bytes + size_bytes <= self._max_bytes)

    def room(self, *, messages: int = 1, size_bytes: int = 1) -> None:
        """Wait until the buffer has room for a `submit`, or a `submit_many` of this many messages and bytes, and for
        at least as much as the last call that was refused."""
        self._io.run(self._room(messages, size_bytes))

    def flush(self) -> None:
        """Wait until nothing is buffered: every message has its receipt or its error.

        Raises:
            SubmitError: submitted messages were not delivered since the last call, and nobody asked their futures.
        """
        self._io.run(self._flush())
        self._failures.raise_any()

    @property
    def ended(self) -> bool:
        """True if it was entered and closed."""
        return self._producer.ended

    @property
    def stats(self) -> ProducerStats:
        """The counters so far."""
        return self._producer.stats

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """The topic's partitions as known now."""
        return self._producer.partitions

    # --- on the loop's thread -------------------------------------------------------------------------------

    def _poll(self) -> None:
        """Take what is queued, and check again soon: waking this thread for each message would cost more than sending
        it.

        Only if nothing came meanwhile does the next message have to wake it.
        """
        if not self._queue:
            self._posted = False
            if not self._queue:  # cleared before this second look, so a message that saw it set is not left lying
                return
            self._posted = True
        if not self._full and not self._hand_over_all():
            self._producer.tasks.spawn(self._drain(), name=f"sync-{self._producer.topic}")
        asyncio.get_running_loop().call_later(POLL_PERIOD_S, self._poll)

    async def _drain(self) -> None:
        """Hand over everything, waiting for room where there is none."""
        async with self._turn:
            self._full = True
            try:
                while not self._hand_over_all():
                    first = self._queue[0]
                    await self._producer.room(messages=first.messages, size_bytes=first.size_bytes)
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
            taken = queue.popleft()
            self._taken_messages += taken.messages
            self._taken_bytes += taken.size_bytes
        return True

    def _hand_over(self, waiting: _Waiting) -> bool:
        future, encoded, key, partition, messages, _ = waiting
        if future.cancelled():
            return True
        inner: asyncio.Future[Any]
        try:
            if isinstance(encoded, EncodedBatches):
                inner = self._producer.enqueue_many(encoded, key=key, partition=partition)
            else:
                inner = self._producer.enqueue(encoded, key=key, partition=partition)
        except BufferFullError:
            return False
        except TubeError as error:
            if future.set_running_or_notify_cancel():
                use_sync_words(error)
                future.set_exception(error)
                self._failures.record(future, messages, error)
            return True
        if future.set_running_or_notify_cancel():
            inner.add_done_callback(partial(self._end, future, messages))
        else:
            inner.cancel()
        return True

    async def _flush(self) -> None:
        await self._drain()
        await self._producer.flush()

    async def _room(self, messages: int, size_bytes: int) -> None:
        await self._drain()
        await self._producer.room(messages=messages, size_bytes=size_bytes)

    async def _close(self) -> None:
        try:
            if not self._producer.ended:
                await self._drain()
        finally:
            await self._producer.close()
            self._hand_over_all()  # what is left fails, for the producer is closed

    def _end(self, outer: SubmitFuture, messages: int, inner: asyncio.Future[Any]) -> None:
        """End a future as the one on the loop ended."""
        error = ClosedError("the message was dropped") if inner.cancelled() else inner.exception()
        if error is None:
            outer.set_result(inner.result())
            return
        outer.set_exception(error)
        if isinstance(error, TubeError):
            failed = len(error.failed) if isinstance(error, PartialSendError) else messages
            self._failures.record(outer, failed, error)
