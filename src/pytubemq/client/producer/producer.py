"""The producer of one topic.

The invariants: inside `async with` it is ready, that is registered at the Master and with partitions known; every
accepted message ends with a receipt or an error; a failure in the background is raised by the next call instead of
being silent.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from pytubemq.client.producer.accumulator import Accumulator
from pytubemq.client.producer.buffer import Buffer
from pytubemq.client.producer.delivery import Delivery
from pytubemq.client.producer.messages.batch_encoding import EncodedBatches, check_payload, encode_many, encode_payloads
from pytubemq.client.producer.messages.message_checks import Body, Encoded, check_body, encode_message
from pytubemq.client.producer.messages.record_batch import PLAIN
from pytubemq.client.producer.partition_choice import PartitionChoice
from pytubemq.client.producer.sender_context import SenderContext
from pytubemq.client.producer.sequence_numbers import ProducerIds
from pytubemq.client.session.membership import Membership
from pytubemq.client.session.process import ForkCount
from pytubemq.client.session.routes import ProducerRole
from pytubemq.client.session.tasks import Tasks
from pytubemq.core.sequences import MAX_EPOCH, MAX_SEQUENCE
from pytubemq.errors import BufferFullError, ClosedError, ConfigError, TubeError
from pytubemq.model.limits import DEFAULT_MAX_MESSAGE_BYTES
from pytubemq.model.names import check_topic

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime
    from types import TracebackType

    from pytubemq.client.options import ProducerOptions
    from pytubemq.client.producer.receipts import Receipts
    from pytubemq.client.session.cluster_connection import Cluster
    from pytubemq.client.session.routes import TopicRoutes
    from pytubemq.model.ids import Partition
    from pytubemq.model.message import Receipt

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ProducerStats:
    """Counters since the producer was entered, and what it holds now."""

    submitted: int
    delivered: int
    failed: int
    retried: int
    """Sends beyond a message's first."""
    requests: int
    buffered_messages: int
    buffered_bytes: int
    uncertain: int = 0
    """Number of failed messages that a Broker may have all the same, a response having been lost."""


class Producer:
    """Sends messages to one topic. Made by `Tube.producer`; use it with `async with`."""

    def __init__(self, cluster: Cluster, topic: str, options: ProducerOptions) -> None:
        self.topic = check_topic(topic)
        self.cluster = cluster
        self.buffer = Buffer(max_messages=options.max_buffer_messages, max_bytes=options.max_buffer_bytes)
        self._options = options
        self.tasks = Tasks(self._fail)
        self._context = SenderContext(
            topic=self.topic,
            cluster=cluster,
            tasks=self.tasks,
            buffer=self.buffer,
            producer_ids=ProducerIds(topic, is_own=options.idempotent),
            request_timeout_s=cluster.options.request_timeout_s,
            batching=options.batching,
        )
        self._choice = PartitionChoice(cluster, topic)
        self._delivery = Delivery(self._context, self._choice, timeout_s=options.delivery_timeout_s)
        self._accumulator = Accumulator(self.buffer, self._choice, self._delivery, linger_s=options.linger_s)
        # Until the Master has said what the topic takes.
        self._max_message_bytes = DEFAULT_MAX_MESSAGE_BYTES
        # Says with one look whether anything is accepted, and why not.
        self._refusal: TubeError | None = ClosedError("the producer is not open", hint="use it inside `async with`")
        self._membership: Membership | None = None
        self._entered = False

    def __repr__(self) -> str:
        state = "" if self._refusal is None else ", not open"
        return f"Producer({self.topic!r}, {len(self._choice.partitions)} partitions{state})"

    def number_as(self, producer_id: int, epoch: int = 0) -> None:
        """Number the messages as those of a producer that may have sent some of them before, in another process.

        For who can send the same messages to the same partitions in the same order again: what a pytubemq Broker has
        of this producer's epoch already it does not store again. An older epoch it refuses (403) once it has seen
        a newer one, of which it knows nothing yet. Readers of the topic see the id; messages that another client sends
        under it count as repeats, too. To be called before the producer is entered.

        Args:
            producer_id: 1 to 2**63 - 2, the same each time and nobody else's.
            epoch: 0 to 2**31 - 1. In each, the messages of a partition are numbered from 0.

        Raises:
            ConfigError: no such number.
            ClosedError: the producer was entered already.
        """
        if self._entered:
            raise ClosedError("the producer numbers its messages already", hint="call number_as() before `with`")
        if not 1 <= producer_id <= MAX_SEQUENCE or not 0 <= epoch <= MAX_EPOCH:
            raise ConfigError(
                f"messages cannot be numbered as those of producer {producer_id}, epoch {epoch}",
                hint="use an id from 1 to 2**63 - 2 and an epoch from 0 to 2**31 - 1",
            )
        self._context.producer_ids = ProducerIds(self.topic, producer_id, epoch)

    # --- life -----------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Producer:
        """Register and learn the partitions.

        Raises:
            NotFoundError: the topic does not exist (unless the connection was made with `first_connect="wait"`).
            UnreachableError: no Master answers.
        """
        self.cluster.check_usable()
        if self._entered:
            raise ClosedError("a producer can be entered once", hint="make another with  tube.producer(topic)")
        self._entered = True
        self._accumulator.start()
        patient = self.cluster.options.first_connect == "wait"
        role = ProducerRole(self.cluster, self.topic, self._on_routes, patient=patient)
        self._context.client_id = role.client_id
        self._membership = Membership(self.cluster, role)
        try:
            # If it fails or is cancelled, no registration may stay behind.
            await self._membership.start(patient=patient)
        except BaseException:
            await self._membership.close()
            raise
        self._refusal = None
        self.tasks.spawn(self._membership.run(), name=f"producer-{self.topic}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Send what is buffered, for at most `close_timeout_s`, then fail the rest and leave. Idempotent."""
        if isinstance(self._refusal, ClosedError) or self.cluster.is_inherited:
            return
        # Nothing more is accepted from here on, or the buffer might never get empty.
        gone, self._refusal = self._refusal, ClosedError("the producer is closed")
        try:
            # After a failure in the background nothing is sent any more, and waiting would be in vain.
            if gone is None and not self.cluster.closed:
                async with asyncio.timeout(self._options.close_timeout_s):
                    await self._wait_until_empty()
        except TimeoutError:
            logger.warning("producer of %s closed with %d messages unsent", self.topic, self.buffer.messages)
        finally:
            # Whatever happened before, no future is left without a result.
            self._abandon(ClosedError("the producer was closed before this message was delivered"))
            self._delivery.close()
            # Heartbeats end before the producer leaves, or one of them might register it again.
            await self.tasks.close()
            if self._membership is not None and not self.cluster.closed:
                await self._membership.close()

    # --- sending --------------------------------------------------------------------------------------------

    async def send(
        self,
        body: Body,
        *,
        attrs: Mapping[str, str] | None = None,
        msg_type: str | None = None,
        msg_time: datetime | str | None = None,
        key: bytes | str | None = None,
        partition: Partition | int | None = None,
    ) -> Receipt:
        """Send a message and wait for its receipt; waits for room in the buffer first if there is none.

        Args:
            body: at least one byte, at most what the topic allows.
            attrs: user attributes; keys and values without `,` and `=`.
            msg_type: the filter item by which consumers may choose.
            msg_time: a datetime (its minute counts) or the text yyyyMMddHHmm.
            key: messages with the same key go to the same partition.
            partition: the partition, or its id where one Broker has it.

        Raises:
            MessageError: the message cannot be sent as it is.
            TubeError: it was not delivered; `retriable` says if trying later makes sense.
        """
        # Others may take the room before this one gets its turn.
        while True:
            try:
                future = self.submit(
                    body, attrs=attrs, msg_type=msg_type, msg_time=msg_time, key=key, partition=partition
                )
                break
            except BufferFullError:
                await self.room()
        return await future

    def submit(
        self,
        body: Body,
        *,
        attrs: Mapping[str, str] | None = None,
        msg_type: str | None = None,
        msg_time: datetime | str | None = None,
        key: bytes | str | None = None,
        partition: Partition | int | None = None,
    ) -> asyncio.Future[Receipt]:
        """Queue a message and return at once; the future gets its receipt or its error.

        Cancelling the future drops the message if it has not left yet.

        Raises:
            BufferFullError: no room; await `room()` and submit again.
            MessageError, ClosedError, ForkedError: as for `send`.
        """
        cluster = self.cluster
        if self._refusal is not None or cluster.closed or cluster.made_in != ForkCount.number:
            self.check_open()  # which says why it is refused
        plain = not attrs and msg_type is None and msg_time is None
        # The usual message, with as few steps as can be.
        if plain and type(body) is bytes and 0 < len(body) <= self._max_message_bytes:
            if key is None and partition is None:
                return self._accumulator.add_plain(body)
            return self._accumulator.add((body, *PLAIN), key=key, partition=partition)
        return self._accumulator.add(self.encode(body, attrs, msg_type, msg_time), key=key, partition=partition)

    def encode(
        self,
        body: Body,
        attrs: Mapping[str, str] | None = None,
        msg_type: str | None = None,
        msg_time: datetime | str | None = None,
    ) -> Encoded:
        """Check a message and make it ready to go, without queueing it; safe on any thread.

        Raises:
            MessageError: it cannot be sent as it is.
        """
        body = check_body(body, self._max_message_bytes)
        if attrs or msg_type is not None or msg_time is not None:
            return encode_message(body, attrs, msg_type, msg_time, self._max_message_bytes)
        return body, 0, None, None

    async def send_many(
        self,
        bodies: Iterable[Body],
        *,
        attrs: Mapping[str, str] | None = None,
        msg_type: str | None = None,
        msg_time: datetime | str | None = None,
        key: bytes | str | None = None,
        partition: Partition | int | None = None,
    ) -> Receipts:
        """Send many messages to one partition, in their order, and wait for their receipts; the fast way.

        They leave as there is room in the buffer, however many there are. What is given besides holds for each.

        Raises:
            MessageError: one of them cannot be sent as it is; then none is.
            PartialSendError: some were delivered and some were not.
            TubeError: none was delivered.
        """
        self.check_open()
        encoded = self.encode_many(bodies, attrs, msg_type, msg_time)
        batch_send = self._accumulator.begin_batch_send(encoded, key=key, partition=partition)
        # Batch by batch as there is room, so that the messages need not all fit into the buffer.
        at = 0
        try:
            for number, batch in enumerate(encoded.batches):
                await self.room(messages=batch.messages, size_bytes=batch.size_bytes)
                self._accumulator.add_batches(batch_send, encoded, start=number, stop=number + 1, at=at)
                at += batch.messages
        except TubeError as error:
            # What was queued before has its own results; the rest ends with this.
            batch_send.record_failed(at, encoded.messages - at, error)
        except BaseException:
            # Cancelled: what has not left yet is dropped.
            batch_send.future.cancel()
            raise
        return await batch_send.future

    def submit_many(
        self,
        bodies: Iterable[Body],
        *,
        attrs: Mapping[str, str] | None = None,
        msg_type: str | None = None,
        msg_time: datetime | str | None = None,
        key: bytes | str | None = None,
        partition: Partition | int | None = None,
    ) -> asyncio.Future[Receipts]:
        """Queue many messages for one partition, in their order, and return at once.

        The future gets their receipts or an error as `send_many` raises it. Cancelling it drops what has not left yet.

        Raises:
            BufferFullError: no room for all of them; await `room(messages=..., size_bytes=...)`, or use `send_many`.
            MessageError: one of them cannot be sent as it is; then none is.
            ClosedError, ForkedError: as for `send`.
        """
        self.check_open()
        return self.enqueue_many(self.encode_many(bodies, attrs, msg_type, msg_time), key=key, partition=partition)

    def encode_many(
        self,
        bodies: Iterable[Body],
        attrs: Mapping[str, str] | None = None,
        msg_type: str | None = None,
        msg_time: datetime | str | None = None,
    ) -> EncodedBatches:
        """Check messages and build their record batches, without queueing them; safe on any thread.

        Raises:
            MessageError: one of them cannot be sent as it is.
        """
        return encode_many(bodies, attrs, msg_type, msg_time, self._max_message_bytes)

    def encode_payloads(
        self, payloads: list[bytes], *, flag: int, msg_type: str | None = None, msg_time: str | None = None
    ) -> EncodedBatches:
        """`encode_many` for payloads that hold their attributes already, see `wire.batch.payload`; safe on any thread.

        Raises:
            MessageError: one of them is longer than the topic takes.
        """
        return encode_payloads(
            payloads, flag=flag, msg_type=msg_type, msg_time=msg_time, max_bytes=self._max_message_bytes
        )

    def check_payload(self, payload: bytes, flag: int) -> None:
        """Check that the topic takes a payload that holds its attributes already.

        Raises:
            MessageError: it is too long.
        """
        check_payload(payload, flag, self._max_message_bytes)

    @overload
    def submit_encoded(
        self, encoded: EncodedBatches, *, key: bytes | str | None = None, partition: Partition | int | None = None
    ) -> asyncio.Future[Receipts]: ...
    @overload
    def submit_encoded(
        self, encoded: Encoded, *, key: bytes | str | None = None, partition: Partition | int | None = None
    ) -> asyncio.Future[Receipt]: ...
    def submit_encoded(
        self,
        encoded: EncodedBatches | Encoded,
        *,
        key: bytes | str | None = None,
        partition: Partition | int | None = None,
    ) -> asyncio.Future[Any]:
        """`submit_many` for what `encode_payloads` gave; `submit` for a payload, its flag, type and time."""
        self.check_open()
        if isinstance(encoded, EncodedBatches):
            return self.enqueue_many(encoded, key=key, partition=partition)
        return self.enqueue(encoded, key=key, partition=partition)

    def enqueue(
        self, encoded: Encoded, *, key: bytes | str | None = None, partition: Partition | int | None = None
    ) -> asyncio.Future[Receipt]:
        """Queue a message that is ready to go; the second half of `submit`."""
        if self._refusal is not None:
            raise self._refusal
        return self._accumulator.add(encoded, key=key, partition=partition)

    def enqueue_many(
        self, encoded: EncodedBatches, *, key: bytes | str | None = None, partition: Partition | int | None = None
    ) -> asyncio.Future[Receipts]:
        """The second half of `submit_many`: queue what `encode_many` gave."""
        if self._refusal is not None:
            raise self._refusal
        self.buffer.check_size(encoded.size_bytes, encoded.messages)
        # Before anything is queued: all of it is taken, or none.
        if not self.buffer.fits(encoded.size_bytes, encoded.messages):
            raise self.buffer.full_error(encoded.size_bytes, encoded.messages)
        batch_send = self._accumulator.begin_batch_send(encoded, key=key, partition=partition)
        self._accumulator.add_batches(batch_send, encoded, start=0, stop=len(encoded.batches), at=0)
        return batch_send.future

    def check_open(self) -> None:
        """Refuse use before, after, and in a forked child."""
        if self._refusal is not None:
            raise self._refusal
        self.cluster.check_usable()

    async def room(self, *, messages: int = 1, size_bytes: int = 1) -> None:
        """Wait until the buffer has room for a `submit`, or a `submit_many` of this many messages and bytes, and for
        at least as much as the last call that was refused."""
        while self._refusal is None and not self.buffer.has_room_for_refused(size_bytes, messages):
            await self.buffer.wait_for_change()
        self.buffer.forget_refusal()
        self.check_open()

    async def flush(self) -> None:
        """Wait until nothing is buffered: every message has its receipt or its error."""
        self.cluster.check_usable()
        await self._wait_until_empty()

    @property
    def ended(self) -> bool:
        """True if it was entered and closed."""
        return self._entered and isinstance(self._refusal, ClosedError)

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """The topic's partitions as known now."""
        return self._choice.partitions

    @property
    def stats(self) -> ProducerStats:
        """The counters as of now."""
        return ProducerStats(
            submitted=self._accumulator.submitted,
            delivered=self._delivery.delivered,
            failed=self._delivery.failed,
            retried=self._delivery.retried,
            requests=self._delivery.requests,
            buffered_messages=self.buffer.messages,
            buffered_bytes=self.buffer.size_bytes,
            uncertain=self._delivery.uncertain,
        )

    # --- inside -----------------------------------------------------------------------------------------------

    def _on_routes(self, routes: TopicRoutes) -> None:
        self._max_message_bytes = routes.max_message_bytes
        # What is open was gathered for partitions as they were; it moves as a whole if its own is gone.
        self._accumulator.complete_all()
        self._delivery.leave(self._choice.update(routes.partitions, asyncio.get_running_loop().time()))

    async def _wait_until_empty(self) -> None:
        while self.buffer.messages:
            await self.buffer.wait_for_change()

    def _fail(self, error: BaseException) -> None:
        """Fail everything with the error of a background task."""
        self._refusal = error if isinstance(error, TubeError) else TubeError(f"the producer failed: {error!r}")
        self._abandon(self._refusal)

    def _abandon(self, error: TubeError) -> None:
        self._accumulator.complete_all()
        self._delivery.abandon(error)
