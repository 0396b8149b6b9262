"""The accepted messages of a producer until their result: their partition, their Broker, their retries.

The invariants: the buffer is bounded in messages and bytes; every accepted message ends with a receipt or an error; one
that a Broker may have goes nowhere else if that Broker detects duplicates.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pytubemq.client.producer.broker_sender import EAGER_SINGLES, BrokerSender
from pytubemq.client.producer.buffer import Buffer
from pytubemq.client.producer.messages.delivery_errors import final_error
from pytubemq.client.producer.messages.message_checks import check_key, find_partition
from pytubemq.client.producer.messages.pending_message import PendingMessage
from pytubemq.client.producer.messages.plain_batch import PlainBatch
from pytubemq.client.producer.messages.record_batch import BatchSend, RecordBatch
from pytubemq.client.producer.sequence_numbers import ProducerIds
from pytubemq.client.session.tasks import Tasks
from pytubemq.core.retry import may_retry
from pytubemq.core.routing import Router
from pytubemq.errors import (
    ClosedError,
    Code,
    NotFoundError,
    ServerOverflowError,
    TransportError,
    TubeError,
    UnavailableError,
)
from pytubemq.model.ids import Partition
from pytubemq.model.limits import DEFAULT_MAX_MESSAGE_BYTES, MAX_PACK_BYTES, MAX_PACK_MESSAGES, UNANSWERED_BROKER_S
from pytubemq.model.missing_topic import topic_missing
from pytubemq.model.names import check_topic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.client.options import ProducerOptions
    from pytubemq.client.producer.messages.batch_encoding import EncodedBatches
    from pytubemq.client.producer.messages.message_checks import Encoded
    from pytubemq.client.producer.messages.send_unit import SendUnit
    from pytubemq.client.producer.receipts import Receipts
    from pytubemq.client.session.cluster import Cluster
    from pytubemq.client.session.routes import TopicRoutes
    from pytubemq.model.message import Receipt

SWEEP_S = 0.5
OVERDUE_CHECK_S = UNANSWERED_BROKER_S / 10
"""Period in seconds of the check for Brokers that have not answered."""
_PLAIN = (0, None, None)
"""Flag, type and time of a message that has none."""


class Accumulator:
    """The accepted messages of a producer that have no result yet; a `SenderOwner`."""

    def __init__(self, cluster: Cluster, topic: str, options: ProducerOptions) -> None:
        self.topic = check_topic(topic)
        self.cluster = cluster
        self.client_id = ""
        self.request_timeout_s = cluster.options.request_timeout_s
        self.linger_s = options.linger_s
        self.batching = options.batching
        self.producer_ids = ProducerIds(topic, is_own=options.idempotent)
        self.tasks = Tasks(self._fail)
        self.buffer = Buffer(max_messages=options.max_buffer_messages, max_bytes=options.max_buffer_bytes)
        self._options = options
        self._delivery_timeout_s = options.delivery_timeout_s
        self._router = Router(rng=cluster.rng)
        self._loop: asyncio.AbstractEventLoop
        """Set when the producer is entered."""
        self._senders: dict[int, BrokerSender] = {}
        self._filling: Partition | None = None
        """The partition for which messages without a key are gathered, so that batches are full."""
        self._room_messages = self._room_bytes = 0
        """Messages and bytes that may still go there before another partition's turn."""
        self._next_check_s = 0.0
        """Time of the next check for Brokers that do not respond."""
        self._plain_batch: PlainBatch | None = None
        """Plain messages that are gathered until their sender's flush, which is scheduled."""
        self._max_message_bytes = DEFAULT_MAX_MESSAGE_BYTES
        self._refusal: TubeError | None = ClosedError("the producer is not open", hint="use it inside `async with`")
        self._sweeper: asyncio.TimerHandle | None = None
        self._submitted = 0
        self._delivered = 0
        self._failed = 0
        self._retried = 0
        self._uncertain = 0

    def enqueue(
        self, encoded: Encoded, *, key: bytes | str | None = None, partition: Partition | int | None = None
    ) -> asyncio.Future[Receipt]:
        """Queue a message that is ready to go.

        Raises:
            BufferFullError: no room.
            NotFoundError: no such partition, or none at all.
        """
        if self._refusal is not None:
            raise self._refusal
        if key is None and partition is None and encoded[1:] == _PLAIN:
            return self.enqueue_plain(encoded[0])
        self.queue_gathered()
        now_s = self._loop.time()
        if key is None and partition is None:
            route: bytes | Partition | None = None
            chosen = self._choose(now_s, len(encoded[0]))
        else:
            route, chosen = self._pick(key, partition)
        return self._enqueue_alone(encoded, chosen, route, now_s)

    def enqueue_plain(self, payload: bytes) -> asyncio.Future[Receipt]:
        """`enqueue` for a message that goes to any partition and has no flag, type or time.

        Raises:
            BufferFullError: no room.
            NotFoundError: there is no partition.
        """
        batch, size_bytes, buffer = self._plain_batch, len(payload), self.buffer
        if buffer.messages and (
            buffer.messages >= buffer.max_messages or buffer.size_bytes + size_bytes > buffer.max_bytes
        ):
            raise buffer.full_error(size_bytes)
        if batch is None or batch.room_bytes < size_bytes:
            self.queue_gathered()
            now_s = self._loop.time()
            chosen = self._choose(now_s, size_bytes)
            if not self._sender_of(chosen.broker_id).gathers:
                return self._enqueue_alone((payload, *_PLAIN), chosen, None, now_s)
            batch = self._new_plain_batch(chosen, now_s, size_bytes)
        buffer.messages += 1
        buffer.size_bytes += size_bytes
        # `create_future` of both usual loops makes the same and takes longer
        future: asyncio.Future[Receipt] = asyncio.Future(loop=self._loop)
        payloads = batch.payloads
        payloads.append(payload)
        batch.futures.append(future)
        batch.room_bytes -= size_bytes
        if len(payloads) >= batch.max_messages:
            self._plain_batch = None
            self._complete(batch)
            self._sender_of(batch.partition.broker_id).put(batch)
        return future

    def begin_batch_send(
        self, encoded: EncodedBatches, *, key: bytes | str | None = None, partition: Partition | int | None = None
    ) -> BatchSend:
        """Begin a send of messages that stay together; `enqueue_batches` queues them.

        Raises:
            NotFoundError: no such partition, or none at all.
        """
        if self._refusal is not None:
            raise self._refusal
        if key is None and partition is None:
            route: bytes | Partition | None = None
            self.queue_gathered()
            self._filling = None
            chosen = self._choose(self._loop.time(), MAX_PACK_BYTES)
        else:
            route, chosen = self._pick(key, partition)
        future: asyncio.Future[Receipts] = self._loop.create_future()
        return BatchSend(encoded, future, chosen, route)

    def enqueue_batches(
        self, batch_send: BatchSend, encoded: EncodedBatches, *, start: int, stop: int, at: int
    ) -> None:
        """Queue batches number `start` to before `stop` of a send; the first message of these is number `at`.

        Raises:
            BufferFullError: no room for all of them.
            TubeError: the producer has ended.
        """
        if self._refusal is not None:
            raise self._refusal
        self.queue_gathered()
        batches = encoded.batches[start:stop]
        messages = sum(batch.messages for batch in batches)
        self.buffer.add(sum(batch.size_bytes for batch in batches), messages)
        deadline_s = self._loop.time() + self._options.delivery_timeout_s
        sender = self._sender_of(batch_send.partition.broker_id)
        for columns, count, size_bytes in batches:
            sender.put(RecordBatch(batch_send, at, columns, count, size_bytes, deadline_s, self._submitted + 1))
            self._submitted += count
            at += count
        if self._sweeper is None:
            self._arm_sweeper()

    # --- the senders call these -------------------------------------------------------------------------------

    def record_settled(self, messages: int, size_bytes: int, *, delivered: bool = False) -> None:
        """Free the buffer of messages that have their result."""
        if delivered:
            self._delivered += messages
        self.buffer.remove(messages, size_bytes)

    def decide_retry(self, unit: SendUnit, error: TubeError) -> bool:
        """Return True if a unit is sent again after `error`; otherwise its futures have failed."""
        limit_s = self._options.delivery_timeout_s
        age_s = self._loop.time() - (unit.deadline_s - limit_s)
        if may_retry(error, age_s=age_s, limit_s=limit_s):
            self._retried += unit.count
            if _is_partitions_own(error):
                self._router.record_partition_failure(unit.partition, self._loop.time())
            return True
        self._fail_unit(unit, final_error(unit, error))
        return False

    def queue_gathered(self) -> None:
        """Queue the plain messages that were gathered."""
        batch, self._plain_batch = self._plain_batch, None
        if batch is not None:
            self._complete(batch)
            self._sender_of(batch.partition.broker_id).append(batch)

    def end_gathering(self) -> None:
        """Choose another partition for what comes next, because all that was gathered has been sent."""
        self._filling = None

    def record_broker_failure(self, broker_id: int, error: TubeError) -> None:
        """Leave the Broker out for a while and move its messages to other Brokers if there are any; or only those of a
        partition that it cannot serve."""
        self.queue_gathered()
        if _is_partitions_own(error):
            self._filling = None
            self._reroute(self._senders[broker_id].take_movable(lambda unit: self._router.is_left_out(unit.partition)))
            return
        if not isinstance(error, TransportError | UnavailableError | ServerOverflowError):
            return
        now_s = self._loop.time()
        self._filling = None
        self._router.record_failure(broker_id, now_s)
        if self._router.open_brokers(now_s) - {broker_id}:
            self._reroute(self._senders[broker_id].take_movable())

    def record_broker_response(self, broker_id: int) -> None:
        """Use a Broker again that serves."""
        if self._router.record_response(broker_id, self._loop.time()):
            self._filling = None  # its Broker may have been chosen only because none responded

    # --- inside ---------------------------------------------------------------------------------------------

    def _on_routes(self, routes: TopicRoutes) -> None:
        self._max_message_bytes = routes.max_message_bytes
        self.queue_gathered()
        self._filling = None
        gone = self._router.update(routes.partitions, asyncio.get_running_loop().time())
        for sender in list(self._senders.values()) if gone else ():
            self._reroute(
                sender.take_all(
                    lambda unit, sender=sender: (
                        unit.partition in gone  # type: ignore[misc]
                        and not isinstance(_route_of(unit), Partition)
                        and not sender.keeps(unit)
                        and not (isinstance(unit, RecordBatch) and unit.batch_send.started)
                    )
                )
            )
        for sender in self._senders.values():
            sender.retry_now()

    def _enqueue_alone(
        self, encoded: Encoded, chosen: Partition, route: bytes | Partition | None, now_s: float
    ) -> asyncio.Future[Receipt]:
        self.buffer.add(len(encoded[0]))
        future: asyncio.Future[Receipt] = self._loop.create_future()
        self._submitted = order = self._submitted + 1
        pending = PendingMessage(encoded, future, chosen, route, now_s + self._delivery_timeout_s, order)
        if self._sweeper is None:
            self._arm_sweeper()
        sender = self._senders.get(chosen.broker_id)
        if sender is None:
            sender = self._sender_of(chosen.broker_id)
        sender.put(pending)
        return future

    def _new_plain_batch(self, chosen: Partition, now_s: float, size_bytes: int) -> PlainBatch:
        """Begin a plain batch with a message of that size."""
        if chosen is self._filling:  # the message that has led here is taken off already
            max_messages, max_bytes = self._room_messages + 1, self._room_bytes + size_bytes
        else:
            max_messages, max_bytes = EAGER_SINGLES, MAX_PACK_BYTES
        self._sender_of(chosen.broker_id).schedule()
        batch = self._plain_batch = PlainBatch(
            chosen,
            now_s + self._delivery_timeout_s,
            self._submitted + 1,
            max_messages=max_messages,
            room_bytes=max(max_bytes, size_bytes),
        )
        if self._sweeper is None:
            self._arm_sweeper()
        return batch

    def _complete(self, batch: PlainBatch) -> None:
        """Count a plain batch that is complete."""
        count = batch.count
        batch.size_bytes = sum(map(len, batch.payloads))
        self._submitted += count
        if batch.partition is self._filling:
            self._room_messages = batch.max_messages - count
            self._room_bytes = batch.room_bytes

    def _choose(self, now_s: float, size_bytes: int) -> Partition:
        """Return the partition for a message that may go to any."""
        if now_s >= self._next_check_s:
            self._check_overdue(now_s)
        chosen = self._filling
        if chosen is not None and self._room_messages > 0 and self._room_bytes >= size_bytes:
            self._room_messages -= 1
            self._room_bytes -= size_bytes
            return chosen
        chosen = self._router.choose(now_s)
        if chosen is None:
            raise self._no_partition()
        sender = self._senders.get(chosen.broker_id)
        if sender is not None and sender.takes_batches:
            self._filling = chosen
            self._room_messages = MAX_PACK_MESSAGES - 1
            self._room_bytes = MAX_PACK_BYTES - size_bytes
        return chosen

    def _check_overdue(self, now_s: float) -> None:
        """Skip Brokers that do not respond. What is queued for them stays there, to keep its order."""
        self._next_check_s = now_s + OVERDUE_CHECK_S
        awaited = {
            sender.broker_id: since_s for sender in self._senders.values() if (since_s := sender.awaited_since_s)
        }
        if self._router.pass_over_silent(awaited, now_s):
            self._filling = None

    def _pick(self, key: bytes | str | None, partition: Partition | int | None) -> tuple[bytes | Partition, Partition]:
        if partition is not None:
            if not self._router.partitions:
                raise self._no_partition()
            found = find_partition(partition, self._router.partitions, self.topic)
            return found, found
        raw = b"" if key is None else check_key(key)
        chosen = self._router.for_key(raw)
        if chosen is None:
            raise self._no_partition()
        return raw, chosen

    def _no_partition(self) -> NotFoundError:
        return NotFoundError(
            f"topic {self.topic!r} has no partition now",
            hint=topic_missing(self.topic, known=None).hint,
            code=Code.NO_PARTITION_AVAILABLE,
        )

    def _sender_of(self, broker_id: int) -> BrokerSender:
        sender = self._senders.get(broker_id)
        if sender is None:
            sender = self._senders[broker_id] = BrokerSender(self, broker_id)
        return sender

    def _reroute(self, moved: Sequence[SendUnit]) -> None:
        now_s = self._loop.time()
        moved_together: set[BatchSend] = set()
        for unit in moved:
            key = _route_of(unit)
            if isinstance(unit, RecordBatch) and unit.batch_send in moved_together:
                chosen = unit.partition
            else:
                chosen = self._router.choose(now_s, key if isinstance(key, bytes) else None) or unit.partition
            if isinstance(unit, RecordBatch):
                moved_together.add(unit.batch_send)
                unit.batch_send.partition = chosen
            else:
                unit.partition = chosen
            unit.sequence = None  # it is another partition's message now, and was surely not taken where it was
            unit.tries, unit.uncertain = 0, False
            self._sender_of(chosen.broker_id).put(unit)

    async def _wait_until_empty(self) -> None:
        while self.buffer.messages:
            await self.buffer.wait_for_change()

    def _arm_sweeper(self) -> None:
        period_s = min(SWEEP_S, self._options.delivery_timeout_s / 4)
        self._sweeper = self._loop.call_later(period_s, self._sweep)

    def _sweep(self) -> None:
        """End queued messages that are past their deadline."""
        self._sweeper = None
        now_s = self._loop.time()
        self.queue_gathered()
        for sender in self._senders.values():
            for unit in sender.expire(now_s):
                self._fail_unit(unit, final_error(unit, unit.cause))
                self.record_settled(unit.count, unit.size_bytes)
        if self.buffer.messages:
            self._arm_sweeper()

    def _fail_unit(self, unit: SendUnit, error: TubeError) -> None:
        failed = unit.fail(error)
        self._failed += failed
        if unit.uncertain:
            self._uncertain += failed

    def _fail(self, error: BaseException) -> None:
        """Fail everything with the error of a background task."""
        self._refusal = error if isinstance(error, TubeError) else TubeError(f"the producer failed: {error!r}")
        self._abandon(self._refusal)

    def _abandon(self, error: TubeError) -> None:
        self.queue_gathered()
        for sender in self._senders.values():
            for unit in sender.abandon():
                self._fail_unit(unit, error)
                self.record_settled(unit.count, unit.size_bytes)
        self.buffer.wake()


def _is_partitions_own(error: TubeError) -> bool:
    """True if a Broker that serves reports this of one partition, for example of one with damaged files."""
    return isinstance(error, UnavailableError) and error.code == Code.INTERNAL_SERVER_ERROR


def _route_of(unit: SendUnit) -> bytes | Partition | None:
    if isinstance(unit, PlainBatch):
        return None
    return unit.batch_send.route if isinstance(unit, RecordBatch) else unit.route
