"""Messages that wait to be batched, by partition.

The invariants: the buffer is bounded in messages and bytes; the messages of a partition keep the order in which they
were submitted; they wait until the end of the loop turn or for the linger time, or until their batch is full.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pytubemq.client.producer.broker_sender import EAGER_SINGLES
from pytubemq.client.producer.messages.built_batch import BatchSend, BuiltBatch
from pytubemq.client.producer.messages.gathered_batch import GatheredBatch, Route
from pytubemq.client.producer.messages.record_batch import PLAIN
from pytubemq.model.ids import Partition
from pytubemq.model.limits import MAX_RECORD_BATCH_BYTES, MAX_RECORD_BATCH_MESSAGES

if TYPE_CHECKING:
    from pytubemq.client.producer.buffer import Buffer
    from pytubemq.client.producer.delivery import Delivery
    from pytubemq.client.producer.messages.batch_encoding import EncodedBatches
    from pytubemq.client.producer.messages.message_checks import Encoded
    from pytubemq.client.producer.partition_choice import PartitionChoice
    from pytubemq.client.producer.receipts import Receipts
    from pytubemq.model.message import Receipt


class Accumulator:
    """The open record batches of a producer, to which messages are added."""

    def __init__(self, buffer: Buffer, choice: PartitionChoice, delivery: Delivery, *, linger_s: float) -> None:
        self._buffer = buffer
        self._choice = choice
        self._delivery = delivery
        # A long linger must leave most of the time from submit to result for the delivery.
        self._linger_s = min(linger_s, delivery.timeout_s / 4)
        self._loop: asyncio.AbstractEventLoop
        """Set by `start`."""
        self._open: dict[int, GatheredBatch] = {}
        """The open batch of each partition, by Broker and partition in one integer, which is hashed faster."""
        self._plain: GatheredBatch | None = None
        """The open batch to which plain messages go without another choice."""
        self._flush_is_due = False
        self._completed = 0
        """Number of messages in batches that are not open any more."""
        self._next_order = 0

    def start(self) -> None:
        """Use the running loop from now on."""
        self._loop = asyncio.get_running_loop()

    @property
    def submitted(self) -> int:
        """Number of messages that were added."""
        return self._completed + sum(len(batch.payloads) for batch in self._open.values())

    def add_plain(self, payload: bytes) -> asyncio.Future[Receipt]:
        """Add a message that goes to any partition and has no flag, type or time.

        Raises:
            BufferFullError: no room.
            NotFoundError: there is no partition.
        """
        batch, size_bytes, buffer = self._plain, len(payload), self._buffer
        # `Buffer.add` written out, since nearly every message comes this way.
        if buffer.messages and (
            buffer.messages >= buffer.max_messages or buffer.size_bytes + size_bytes > buffer.max_bytes
        ):
            raise buffer.full_error(size_bytes)
        if batch is None or batch.room_bytes < size_bytes:
            if batch is not None:
                self._complete(batch)
            chosen = self._choose_any(size_bytes)
            batch = self._batch_for(chosen, Route.ANY, size_bytes)
            # Only where the Broker profits from full batches; else the next message may go to another partition.
            if self._delivery.sender_of(chosen.broker_id).link.gathers:
                self._plain = batch
        if batch.headers is not None:
            batch.headers.append(PLAIN)
        buffer.messages += 1
        buffer.size_bytes += size_bytes
        # `create_future` of both usual loops makes the same and takes longer
        future: asyncio.Future[Receipt] = asyncio.Future(loop=self._loop)
        payloads = batch.payloads
        payloads.append(payload)
        batch.futures.append(future)
        batch.room_bytes -= size_bytes
        if len(payloads) >= batch.max_messages:
            self._complete(batch)
        return future

    def add(
        self, encoded: Encoded, *, key: bytes | str | None = None, partition: Partition | int | None = None
    ) -> asyncio.Future[Receipt]:
        """Add a message.

        Raises:
            BufferFullError: no room.
            NotFoundError: no such partition, or none at all.
        """
        payload = encoded[0]
        if key is None and partition is None:
            if encoded[1:] == PLAIN:
                return self.add_plain(payload)
            route, found, chosen = Route.ANY, None, self._choose_any(len(payload))
        else:
            found, chosen = self._choice.pick(key, partition)
            # A requested partition is kept whatever happens; by key another one follows if the topic loses it.
            route = Route.FIXED if isinstance(found, Partition) else Route.KEY
        self._buffer.add(len(payload))
        batch = self._batch_for(chosen, route, len(payload))
        future: asyncio.Future[Receipt] = asyncio.Future(loop=self._loop)
        batch.add(payload, encoded[1:], found if isinstance(found, bytes) else None, future)
        if len(batch.payloads) >= batch.max_messages:
            self._complete(batch)
        return future

    def begin_batch_send(
        self, encoded: EncodedBatches, *, key: bytes | str | None = None, partition: Partition | int | None = None
    ) -> BatchSend:
        """Begin a send of messages that stay together; `add_batches` queues them.

        Raises:
            NotFoundError: no such partition, or none at all.
        """
        if key is None and partition is None:
            route: bytes | Partition | None = None
            # It makes batches of its own, so what is open is closed, and the next single messages choose anew.
            self.complete_all()
            self._choice.filling = None
            chosen = self._choose_any(MAX_RECORD_BATCH_BYTES)
        else:
            route, chosen = self._choice.pick(key, partition)
        future: asyncio.Future[Receipts] = self._loop.create_future()
        return BatchSend(encoded, future, chosen, route)

    def add_batches(self, batch_send: BatchSend, encoded: EncodedBatches, *, start: int, stop: int, at: int) -> None:
        """Queue batches number `start` to before `stop` of a send; the first message of these is number `at`.

        Raises:
            BufferFullError: no room for all of them.
        """
        batches = encoded.batches[start:stop]
        messages = sum(batch.messages for batch in batches)
        self._buffer.add(sum(batch.size_bytes for batch in batches), messages)
        # Messages of this partition that were submitted earlier leave earlier.
        before = self._open.get(_number_of(batch_send.partition))
        if before is not None:
            self._complete(before)
        deadline_s = self._loop.time() + self._delivery.timeout_s
        for columns, count, size_bytes in batches:
            self._delivery.put(BuiltBatch(batch_send, at, columns, count, size_bytes, deadline_s, self._take_order()))
            at += count
        self._completed += messages
        self._schedule()

    def complete_all(self) -> None:
        """Queue the messages of all open batches."""
        for batch in list(self._open.values()):
            self._complete(batch)

    # --- inside ---------------------------------------------------------------------------------------------------

    def _choose_any(self, size_bytes: int) -> Partition:
        now_s = self._loop.time()
        # Looked at where it matters, when a partition is chosen, so that it needs no timer.
        self._delivery.check_overdue(now_s)
        chosen = self._choice.any(now_s, size_bytes)
        # From here on messages gather there, until a batch is full or all have left.
        if chosen is not self._choice.filling and self._delivery.sender_of(chosen.broker_id).link.takes_batches:
            self._choice.fill(chosen, size_bytes)
        return chosen

    def _batch_for(self, partition: Partition, route: Route, size_bytes: int) -> GatheredBatch:
        """Return the open batch of a partition with room for a message of this size."""
        number = _number_of(partition)
        batch = self._open.get(number)
        if batch is not None:
            # A batch moves to another partition as a whole or not at all, so routes are not mixed.
            if batch.route is route and batch.room_bytes >= size_bytes:
                return batch
            self._complete(batch)
        choice = self._choice
        if partition is choice.filling and route is Route.ANY:
            # the message that has led here is taken off already
            max_messages, max_bytes = choice.room_messages + 1, choice.room_bytes + size_bytes
        elif self._delivery.sender_of(partition.broker_id).link.takes_batches:
            max_messages, max_bytes = MAX_RECORD_BATCH_MESSAGES, MAX_RECORD_BATCH_BYTES
        else:
            # The sender sends so many at once, before the loop turn ends.
            max_messages, max_bytes = EAGER_SINGLES, MAX_RECORD_BATCH_BYTES
        batch = self._open[number] = GatheredBatch(
            partition,
            route,
            self._loop.time() + self._delivery.timeout_s,
            self._take_order(),
            max_messages=max_messages,
            # A message above the bound of a batch gets one of its own.
            room_bytes=max(max_bytes, size_bytes),
        )
        self._schedule()
        return batch

    def _complete(self, batch: GatheredBatch) -> None:
        """Close a batch and queue it."""
        del self._open[_number_of(batch.partition)]
        if batch is self._plain:
            self._plain = None
        batch.complete()
        self._completed += batch.count
        choice = self._choice
        if batch.may_move:
            if batch.partition is choice.filling:
                # What the batch did not use is given back, so that the next one fills up the same partition.
                choice.room_messages = batch.max_messages - batch.count
                choice.room_bytes = batch.room_bytes
            # Its Broker was left out while it was open. Nothing of it was sent, so it may still go elsewhere.
            elif choice.is_left_out(batch.partition):
                batch.partition = choice.again(None, batch.partition, self._loop.time())
        self._delivery.put(batch)

    def _take_order(self) -> int:
        # Apart by the most messages of a batch, as a part's order is the whole's plus the messages before it.
        self._next_order += MAX_RECORD_BATCH_MESSAGES
        return self._next_order

    def _schedule(self) -> None:
        """Schedule a flush, for what is added until then."""
        if self._flush_is_due:
            return
        self._flush_is_due = True
        if self._linger_s > 0:
            self._loop.call_later(self._linger_s, self._flush)
        else:
            # All that is submitted in one loop turn leaves together, and nothing waits longer than that.
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_is_due = False
        self.complete_all()
        self._delivery.flush()


def _number_of(partition: Partition) -> int:
    return partition.broker_id << 32 | partition.partition_id
