"""The facade for callers without an event loop.

It runs the one async client on an I/O thread of its own, so heartbeats go on however long the caller takes for a
batch, and every wait can be interrupted by Ctrl-C. The invariant: nothing here decides anything; it carries calls
over to the loop's thread and results back.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections import deque
from typing import TYPE_CHECKING

from pytubemq.client import tube as engine
from pytubemq.client.options import FetchOptions, FirstConnect, Start
from pytubemq.client.reader import DEFAULT_READ_BYTES, DEFAULT_READ_MESSAGES, ReadBatches
from pytubemq.errors import BufferFullError, ClosedError, TubeError
from pytubemq.model.limits import (
    CONFIRM_TIMEOUT_S,
    DEFAULT_REQUEST_TIMEOUT_S,
    PRODUCER_BUFFER_BYTES,
    PRODUCER_BUFFER_MESSAGES,
)
from pytubemq.net.iothread import IoThread

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime
    from types import TracebackType

    from pytubemq.client import batch as batches_of
    from pytubemq.client import consumer as consumers
    from pytubemq.client import producer as producers
    from pytubemq.client import reader as readers
    from pytubemq.client.consumer import ConsumerStats
    from pytubemq.client.events import Event
    from pytubemq.client.pending import Body, Encoded
    from pytubemq.client.producer import ProducerStats
    from pytubemq.model.ids import Address, BrokerInfo, Partition
    from pytubemq.model.message import Message, Receipt


def connect(
    masters: str | Sequence[Address],
    *,
    first_connect: FirstConnect = "fail",
    request_timeout_s: float = DEFAULT_REQUEST_TIMEOUT_S,
    client_name: str = "",
) -> Tube:
    """A connection to a cluster, for `with`; arguments and errors as in `pytubemq.connect`."""
    return Tube(
        engine.connect(
            masters, first_connect=first_connect, request_timeout_s=request_timeout_s, client_name=client_name
        )
    )


class Tube:
    """A connection to a cluster; makes producers, consumers and readers."""

    def __init__(self, tube: engine.Tube) -> None:
        """Use `connect`."""
        self._tube = tube
        self._io: IoThread | None = None

    def __enter__(self) -> Tube:
        """Reach a Master; see `pytubemq.Tube`."""
        if self._io is not None:
            raise ClosedError("a connection can be entered once", hint="call connect() again")
        self._io = IoThread()
        try:
            self._io.run(self._tube.__aenter__())
        except BaseException:
            self._io.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close what was made of it, then the connections. Idempotent, bounded in time."""
        io = self._io
        if io is None or io.closed:
            return
        try:
            io.run(self._tube.close())
        finally:
            io.close()

    def producer(
        self,
        topic: str,
        *,
        linger_s: float = 0.0,
        max_buffer_messages: int = PRODUCER_BUFFER_MESSAGES,
        max_buffer_bytes: int = PRODUCER_BUFFER_BYTES,
        delivery_timeout_s: float = 60.0,
        close_timeout_s: float = 10.0,
        batching: bool = True,
    ) -> Producer:
        """A producer of one topic, for `with`; arguments as in `pytubemq.Tube.producer`."""
        made = self._open().call(
            lambda: self._tube.producer(
                topic,
                linger_s=linger_s,
                max_buffer_messages=max_buffer_messages,
                max_buffer_bytes=max_buffer_bytes,
                delivery_timeout_s=delivery_timeout_s,
                close_timeout_s=close_timeout_s,
                batching=batching,
            )
        )
        return Producer(self._open(), made, max_buffer_messages, max_buffer_bytes)

    def consumer(
        self,
        group: str,
        topic: str,
        *topics: str,
        start: Start = Start.LATEST,
        filters: Mapping[str, Sequence[str]] | Sequence[str] | None = None,
        confirm_timeout_s: float = CONFIRM_TIMEOUT_S,
        close_timeout_s: float = 5.0,
    ) -> Consumer:
        """A consumer of a group, for `with`; arguments as in `pytubemq.Tube.consumer`."""
        made = self._open().call(
            lambda: self._tube.consumer(
                group,
                topic,
                *topics,
                start=start,
                filters=filters,
                confirm_timeout_s=confirm_timeout_s,
                close_timeout_s=close_timeout_s,
            )
        )
        return Consumer(self._open(), made)

    def reader(
        self,
        partition: Partition | str,
        *,
        start: int | Start = Start.EARLIEST,
        end: int | Start | None = None,
        retry_for_s: float = 60.0,
    ) -> Reader:
        """A reader of a range, for `with`; arguments as in `pytubemq.Tube.reader`."""
        made = self._open().call(lambda: self._tube.reader(partition, start=start, end=end, retry_for_s=retry_for_s))
        return Reader(self._open(), made)

    def partitions(self, topic: str) -> list[Partition]:
        """The topic's partitions on the Brokers that are up now, sorted."""
        return self._open().run(self._tube.partitions(topic))

    def offsets(self, partitions: Iterable[Partition]) -> dict[Partition, tuple[int, int]]:
        """Per partition the first readable offset, and the one its next message gets."""
        return self._open().run(self._tube.offsets(list(partitions)))

    def events(self) -> Iterator[Event]:
        """What happens to this connection, as it happens; ends when it is closed."""
        io = self._open()
        queue = io.call(self._tube.events)
        while True:
            try:
                event = io.run(queue.get())
            except ClosedError:
                return
            yield event

    @property
    def brokers(self) -> list[BrokerInfo]:
        """The Brokers that have been named so far."""
        return self._open().call(lambda: self._tube.brokers)

    def _open(self) -> IoThread:
        if self._io is None:
            raise ClosedError("the connection is not open", hint="use it inside `with sync.connect(...) as tube`")
        return self._io


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
            held, held_bytes = self._producer.buffered
            held += len(self._queue)
            if held and (
                held >= self._max_messages or held_bytes + self._queued_bytes + len(encoded[0]) > self._max_bytes
            ):
                raise self._producer.full()
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


class Batch:
    """Messages handed to a consumer; as `pytubemq.Batch`, without `await`."""

    __slots__ = ("_batch", "_io")

    def __init__(self, io: IoThread, batch: batches_of.Batch) -> None:
        self._io = io
        self._batch = batch

    @property
    def partition(self) -> Partition:
        """Where the messages lie."""
        return self._batch.partition

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages, in order."""
        return self._batch.messages

    @property
    def start_offset(self) -> int | None:
        """Where this batch begins."""
        return self._batch.start_offset

    @property
    def next_offset(self) -> int | None:
        """Where the next one begins; None if the Broker does not tell."""
        return self._batch.next_offset

    def __iter__(self) -> Iterator[Message]:
        return iter(self._batch.messages)

    def __len__(self) -> int:
        return len(self._batch.messages)

    def __repr__(self) -> str:
        return repr(self._batch)

    def confirm(self) -> None:
        """Tell the Broker that all of this batch is handled; errors as in `pytubemq.Batch.confirm`."""
        self._io.run(self._batch.confirm())

    def reject(self) -> None:
        """Have the same messages come again."""
        self._io.run(self._batch.reject())


class Consumer:
    """Reads topics as a member of a group. Made by `Tube.consumer`; use it with `with`."""

    def __init__(self, io: IoThread, consumer: consumers.Consumer) -> None:
        self._io = io
        self._consumer = consumer

    def __enter__(self) -> Consumer:
        """Register; see `pytubemq.Consumer`."""
        self._io.run(self._consumer.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the partitions back and leave the group, confirming nothing. Idempotent."""
        if not self._io.closed:
            self._io.run(self._consumer.close())

    def batches(
        self,
        *,
        max_messages: int = 500,
        max_wait_s: float = 1.0,
        max_bytes: int | None = None,
        idle_timeout_s: float | None = None,
    ) -> Iterator[Batch]:
        """The batches of all partitions, as they come; arguments as in `pytubemq.Consumer.batches`."""
        self._io.call(
            lambda: self._consumer.batches(max_messages=max_messages, max_wait_s=max_wait_s, max_bytes=max_bytes)
        )
        return self._iterate(idle_timeout_s)

    def _iterate(self, idle_timeout_s: float | None) -> Iterator[Batch]:
        while True:
            batch = self._io.run(self._consumer.next_batch(timeout_s=idle_timeout_s))
            if batch is None:
                return
            yield Batch(self._io, batch)

    @property
    def assignment(self) -> tuple[Partition, ...]:
        """The partitions this consumer holds, sorted."""
        return self._io.call(lambda: self._consumer.assignment)

    def lag(self) -> dict[Partition, int | None]:
        """Messages not yet confirmed per held partition; None while unknown."""
        return self._io.call(self._consumer.lag)

    @property
    def stats(self) -> ConsumerStats:
        """What has been done so far."""
        return self._consumer.stats


class Reader:
    """Reads a range of one partition. Made by `Tube.reader`; use it with `with`."""

    def __init__(self, io: IoThread, reader: readers.Reader) -> None:
        self._io = io
        self._reader = reader

    def __enter__(self) -> Reader:
        """Find the Broker; see `pytubemq.Reader`."""
        self._io.run(self._reader.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End it. Idempotent."""
        if not self._io.closed:
            self._io.run(self._reader.close())

    @property
    def partition(self) -> Partition:
        """What is read."""
        return self._reader.partition

    @property
    def position(self) -> int | None:
        """The offset the next batch begins at."""
        return self._reader.position

    @property
    def end(self) -> int | None:
        """Where the range ends; None when it goes on with the partition."""
        return self._reader.end

    def batches(
        self,
        *,
        max_messages: int = DEFAULT_READ_MESSAGES,
        max_bytes: int = DEFAULT_READ_BYTES,
        max_wait_s: float = 1.0,
        idle_timeout_s: float | None = None,
    ) -> Iterator[batches_of.ReadBatch]:
        """The range in batches; arguments as in `pytubemq.Reader.batches`."""
        options = FetchOptions(
            max_messages=max_messages, max_bytes=max_bytes, max_wait_s=max_wait_s, idle_timeout_s=idle_timeout_s
        )
        return self._iterate(ReadBatches(self._reader, options))

    def _iterate(self, inner: ReadBatches) -> Iterator[batches_of.ReadBatch]:
        async def following() -> batches_of.ReadBatch | None:
            return await anext(inner, None)

        try:
            while (batch := self._io.run(following())) is not None:
                yield batch
        finally:
            if not self._io.closed:
                self._io.run(inner.aclose())
