"""The producer of one topic.

The invariants: inside `async with` it is ready, that is registered at the Master and with partitions known; what is
buffered is bounded in messages and bytes; every accepted message ends with a receipt or an error; a failure in the
background is raised by the next call instead of being silent.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytubemq.client.buffer import Buffer
from pytubemq.client.lane import Lane
from pytubemq.client.membership import Membership
from pytubemq.client.pending import (
    Body,
    Encoded,
    Pending,
    check_body,
    check_key,
    encode_message,
    final_error,
    find_partition,
)
from pytubemq.client.routes import ProducerRole, TopicRoutes
from pytubemq.client.tasks import Tasks
from pytubemq.core.retry import may_retry
from pytubemq.core.routing import Router
from pytubemq.errors import (
    BufferFullError,
    ClosedError,
    Code,
    NotFoundError,
    ServerOverflowError,
    TransportError,
    TubeError,
    UnavailableError,
)
from pytubemq.model.ids import Partition, check_topic
from pytubemq.model.limits import DEFAULT_MAX_MESSAGE_BYTES
from pytubemq.wire.hot import BatchItem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from types import TracebackType

    from pytubemq.client.cluster import Cluster
    from pytubemq.client.options import ProducerOptions
    from pytubemq.model.message import Receipt

logger = logging.getLogger(__name__)

SWEEP_S = 0.5


@dataclass(frozen=True, slots=True)
class ProducerStats:
    """Counters since the producer was entered, and what it holds now."""

    submitted: int
    delivered: int
    failed: int
    retried: int
    """Sends beyond a message's first; the Broker may have taken the first one too."""
    requests: int
    buffered_messages: int
    buffered_bytes: int


class Producer:
    """Sends messages to one topic. Made by `Tube.producer`; use it with `async with`."""

    def __init__(self, cluster: Cluster, topic: str, options: ProducerOptions) -> None:
        self.topic = check_topic(topic)
        self.cluster = cluster
        self.client_id = ""
        self.request_timeout_s = cluster.options.request_timeout_s
        self.linger_s = options.linger_s
        self.batching = options.batching
        self.tasks = Tasks(self._fail)
        self.buffer = Buffer(max_messages=options.max_buffer_messages, max_bytes=options.max_buffer_bytes)
        self._options = options
        self._router = Router(rng=cluster.rng)
        self._lanes: dict[int, Lane] = {}
        self._membership: Membership | None = None
        self._max_message_bytes = DEFAULT_MAX_MESSAGE_BYTES
        self._refusal: TubeError | None = ClosedError("the producer is not open", hint="use it inside `async with`")
        self._sweeper: asyncio.TimerHandle | None = None
        self._submitted = 0
        self._delivered = 0
        self._failed = 0
        self._retried = 0
        self._entered = False

    def __repr__(self) -> str:
        state = "" if self._refusal is None else ", not open"
        return f"Producer({self.topic!r}, {len(self._router.partitions)} partitions{state})"

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
        self._loop = asyncio.get_running_loop()
        patient = self.cluster.options.first_connect == "wait"
        role = ProducerRole(self.cluster, self.topic, self._on_routes, patient=patient)
        self.client_id = role.client_id
        self._membership = Membership(self.cluster, role)
        try:
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
        if isinstance(self._refusal, ClosedError):
            return
        gone, self._refusal = self._refusal, ClosedError("the producer is closed")
        try:
            if gone is None and not self.cluster.closed:
                async with asyncio.timeout(self._options.close_timeout_s):
                    await self._settle()
        except TimeoutError:
            logger.warning("producer of %s closed with %d messages unsent", self.topic, self.buffer.messages)
        finally:
            self._abandon(ClosedError("the producer was closed before this message was delivered"))
            if self._sweeper is not None:
                self._sweeper.cancel()
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
            TubeError: it was not delivered; `retriable` tells whether trying later makes sense.
        """
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
        self.check_open()
        return self.enqueue(self.encode(body, attrs, msg_type, msg_time), key=key, partition=partition)

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

    def enqueue(
        self, encoded: Encoded, *, key: bytes | str | None = None, partition: Partition | int | None = None
    ) -> asyncio.Future[Receipt]:
        """The second half of `submit`: queue what `encode` gave."""
        if self._refusal is not None:
            raise self._refusal
        payload, flag, msg_type, time_text = encoded
        size_bytes = len(payload)
        now_s = self._loop.time()
        if key is None and partition is None:
            route: bytes | Partition | None = None
            chosen = self._router.choose(now_s)
        else:
            route, chosen = self._pick(key, partition)
        if chosen is None:
            raise NotFoundError(f"topic {self.topic!r} has no partition now", code=Code.NO_PARTITION_AVAILABLE)
        self.buffer.add(size_bytes)
        future: asyncio.Future[Receipt] = self._loop.create_future()
        self._submitted = order = self._submitted + 1
        item = BatchItem(chosen.partition_id, payload, flag, msg_type, time_text, None)
        pending = Pending(item, future, chosen, route, size_bytes, now_s + self._options.delivery_timeout_s, order)
        if self._sweeper is None:
            self._arm_sweeper()
        lane = self._lanes.get(chosen.broker_id)
        if lane is None:
            lane = self._lane(chosen.broker_id)
        lane.put(pending)
        return future

    def check_open(self) -> None:
        """Refuse use before, after, and in a forked child."""
        if self._refusal is not None:
            raise self._refusal
        self.cluster.check_usable()

    async def room(self) -> None:
        """Wait until `submit` will be accepted."""
        while self._refusal is None and not self.buffer.has_room:
            await self.buffer.changed()
        self.check_open()

    async def flush(self) -> None:
        """Wait until nothing is buffered: every message has its receipt or its error."""
        self.cluster.check_usable()
        await self._settle()

    @property
    def ended(self) -> bool:
        """Whether it was entered and closed."""
        return self._entered and isinstance(self._refusal, ClosedError)

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """The topic's partitions as known now."""
        return self._router.partitions

    @property
    def stats(self) -> ProducerStats:
        """What has been done so far."""
        return ProducerStats(
            submitted=self._submitted,
            delivered=self._delivered,
            failed=self._failed,
            retried=self._retried,
            requests=sum(lane.batches for lane in self._lanes.values()),
            buffered_messages=self.buffer.messages,
            buffered_bytes=self.buffer.size_bytes,
        )

    # --- the lanes call these -------------------------------------------------------------------------------

    def settled(self, batch: Sequence[Pending], *, delivered: bool = False) -> None:
        """Messages have their result: make room for others."""
        if delivered:
            self._delivered += len(batch)
        self.buffer.remove(len(batch), sum([pending.size_bytes for pending in batch]))

    def refused(self, pending: Pending, error: TubeError) -> bool:
        """Whether a message is sent again after `error`; if not, its future has the error now."""
        limit_s = self._options.delivery_timeout_s
        age_s = self._loop.time() - (pending.deadline_s - limit_s)
        if may_retry(error, age_s=age_s, limit_s=limit_s):
            self._retried += 1
            return True
        self._end(pending, final_error(pending, error))
        return False

    def broker_failed(self, lane: Lane, error: TubeError) -> None:
        """Leave the Broker out for a while, and give its free messages to others if there are any."""
        if not isinstance(error, TransportError | UnavailableError | ServerOverflowError):
            return
        now_s = self._loop.time()
        self._router.failed(lane.broker_id, now_s)
        if self._router.open_brokers(now_s) - {lane.broker_id}:
            self._reroute(lane.take_all(lambda pending: pending.route is None))

    def broker_answered(self, lane: Lane) -> None:
        """The Broker serves."""
        self._router.answered(lane.broker_id, 0.0)

    # --- inside ---------------------------------------------------------------------------------------------

    def _on_routes(self, routes: TopicRoutes) -> None:
        self._max_message_bytes = routes.max_message_bytes
        gone = self._router.update(routes.partitions, asyncio.get_running_loop().time())
        if gone:
            for lane in list(self._lanes.values()):
                self._reroute(
                    lane.take_all(
                        lambda pending: pending.partition in gone and not isinstance(pending.route, Partition)
                    )
                )
        for lane in self._lanes.values():
            lane.kick()

    def _pick(
        self, key: bytes | str | None, partition: Partition | int | None
    ) -> tuple[bytes | Partition, Partition | None]:
        if partition is not None:
            found = find_partition(partition, self._router.partitions, self.topic)
            return found, found
        raw = b"" if key is None else check_key(key)
        return raw, self._router.for_key(raw)

    def _lane(self, broker_id: int) -> Lane:
        lane = self._lanes.get(broker_id)
        if lane is None:
            lane = self._lanes[broker_id] = Lane(self, broker_id)
        return lane

    def _reroute(self, moved: Sequence[Pending]) -> None:
        now_s = self._loop.time()
        for pending in moved:
            key = pending.route if isinstance(pending.route, bytes) else None
            chosen = self._router.choose(now_s, key) or pending.partition
            pending.partition = chosen
            pending.item = pending.item._replace(partition_id=chosen.partition_id)
            self._lane(chosen.broker_id).put(pending)

    async def _settle(self) -> None:
        while self.buffer.messages:
            await self.buffer.changed()

    def _arm_sweeper(self) -> None:
        period_s = min(SWEEP_S, self._options.delivery_timeout_s / 4)
        self._sweeper = self._loop.call_later(period_s, self._sweep)

    def _sweep(self) -> None:
        """Messages that wait in a queue end at their deadline, too."""
        self._sweeper = None
        now_s = self._loop.time()
        for lane in self._lanes.values():
            self._give_up(lane.expire(now_s))
        if self.buffer.messages:
            self._arm_sweeper()

    def _give_up(self, expired: Sequence[Pending]) -> None:
        for pending in expired:
            self._end(pending, final_error(pending, pending.cause))
        if expired:
            self.settled(expired)

    def _end(self, pending: Pending, error: TubeError) -> None:
        if not pending.future.done():
            self._failed += 1
            pending.future.set_exception(error)

    def _fail(self, error: BaseException) -> None:
        """A task of ours died: everything fails with its reason."""
        self._refusal = error if isinstance(error, TubeError) else TubeError(f"the producer failed: {error!r}")
        self._abandon(self._refusal)

    def _abandon(self, error: TubeError) -> None:
        for lane in self._lanes.values():
            gone = lane.abandon()
            for pending in gone:
                self._end(pending, error)
            self.settled(gone)
        self.buffer.wake()
