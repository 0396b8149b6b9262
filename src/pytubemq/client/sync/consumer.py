"""`Consumer` and its batches without `await`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.client.consumer import consumer_base
from pytubemq.client.option_arguments import takes
from pytubemq.client.options import FetchOptions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from types import TracebackType

    from pytubemq.client.consumer import consumer as consumers
    from pytubemq.client.consumer.consumer_base import ConsumerStats
    from pytubemq.client.received import batch as batches_of
    from pytubemq.model.ids import Partition
    from pytubemq.model.message import Message
    from pytubemq.net.iothread import IoThread


class Batch:
    """Messages handed to a consumer; as `pytubemq.Batch`, without `await`."""

    __slots__ = ("_batch", "_io")

    def __init__(self, io: IoThread, batch: batches_of.Batch) -> None:
        self._io = io
        self._batch = batch

    @property
    def partition(self) -> Partition:
        """The partition of the messages."""
        return self._batch.partition

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages, in order."""
        return self._batch.messages

    @property
    def start_offset(self) -> int | None:
        """The offset at which this batch begins."""
        return self._batch.start_offset

    @property
    def next_offset(self) -> int | None:
        """The offset at which the next one begins; None if the Broker does not report it."""
        return self._batch.next_offset

    def __iter__(self) -> Iterator[Message]:
        return iter(self._batch.messages)

    def __len__(self) -> int:
        return len(self._batch.messages)

    def __repr__(self) -> str:
        return repr(self._batch)

    @property
    def held(self) -> bool:
        """True if it can still be confirmed or rejected, as far as this client knows."""
        return self._batch.held

    def confirm(self, *, up_to: int | None = None) -> None:
        """Tell the Broker that this batch is handled, or its messages below an offset; as `pytubemq.Batch.confirm`."""
        self._io.run(self._batch.confirm(up_to=up_to))

    def reject(self) -> None:
        """Have the same messages come again."""
        self._io.run(self._batch.reject())


class ConsumerBase:
    """The base of all consumers of a group."""

    def __init__(self, io: IoThread, consumer: consumer_base.ConsumerBase) -> None:
        self._io = io
        self._consumer = consumer

    def __repr__(self) -> str:
        return f"sync.{self._consumer!r}"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the partitions back and leave the group, confirming nothing. Idempotent."""
        if not self._io.closed:
            self._io.run(self._consumer.close())

    @takes(FetchOptions, like=consumer_base.ConsumerBase.batches)
    def batches(self, options: FetchOptions) -> Iterator[Batch]:
        """Iterate over the batches of all partitions, as they come; arguments as in `pytubemq.Consumer.batches`."""
        self._io.call(lambda: self._consumer.fetch_with(options))
        return self._iterate(options.idle_timeout_s)

    def _iterate(self, idle_timeout_s: float | None) -> Iterator[Batch]:
        while not self._consumer.ended and (batch := self.next_batch(timeout_s=idle_timeout_s)) is not None:
            yield batch

    def next_batch(self, *, timeout_s: float | None = None) -> Batch | None:
        """Return the next batch; None if none came within `timeout_s`; as `pytubemq.Consumer.next_batch`."""
        batch = self._io.run(self._consumer.next_batch(timeout_s=timeout_s), give_back=_reject)
        return None if batch is None else Batch(self._io, batch)

    def seek(self, partition: Partition | str, offset: int | datetime) -> int | None:
        """Read an assigned partition from another offset or time on; as `pytubemq.Consumer.seek`."""
        return self._io.run(self._consumer.seek(partition, offset))

    @property
    def assignment(self) -> tuple[Partition, ...]:
        """The partitions of this consumer, sorted."""
        return self._io.call(lambda: self._consumer.assignment)

    def lag(self) -> dict[Partition, int | None]:
        """Return the unconfirmed messages of each partition; None while unknown."""
        return self._io.call(self._consumer.lag)

    @property
    def stats(self) -> ConsumerStats:
        """The counters so far."""
        return self._consumer.stats


class Consumer(ConsumerBase):
    """Reads topics as a member of a group. Made by `Tube.consumer`; use it with `with`."""

    def __init__(self, io: IoThread, consumer: consumers.Consumer) -> None:
        super().__init__(io, consumer)
        self._entering = consumer.__aenter__

    def __enter__(self) -> Consumer:
        """Register; see `pytubemq.Consumer`."""
        self._io.run(self._entering())
        return self


async def _reject(batch: batches_of.Batch | None) -> None:
    if batch is not None:
        await batch.reject()
