"""The base of all consumers of a group: their assigned partitions and the batches of these.

The invariants: leaving the block never confirms anything; heartbeats go on whatever the user's code does between two
batches; a failure in the background is raised out of `batches()` instead of being silent.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from pytubemq.client.consumer.broker_heartbeats import send_heartbeats
from pytubemq.client.consumer.fetch_throttle import RateLimits
from pytubemq.client.option_arguments import takes
from pytubemq.client.options import ConsumerOptions, FetchOptions
from pytubemq.client.session.events import Connected, Event, Lost, Rebalanced
from pytubemq.client.session.flow_rules import FlowControl
from pytubemq.client.session.membership import Membership
from pytubemq.client.session.registration_requests import UNREGISTER_TIMEOUT_S
from pytubemq.client.session.tasks import Tasks
from pytubemq.errors import (
    BadRequestError,
    ClosedError,
    Code,
    ConfigError,
    NotFoundError,
    RequestTimeoutError,
    TubeError,
)
from pytubemq.model.ids import Partition
from pytubemq.model.limits import LEASE_TIMEOUT_S

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from pytubemq.client.consumer.partition_consumer import PartitionConsumer
    from pytubemq.client.consumer.partition_owner import OwnedPartition
    from pytubemq.client.received.batch import Batch
    from pytubemq.client.session.cluster_connection import Cluster
    from pytubemq.client.session.membership import ConsumingRole
    from pytubemq.client.session.metadata import MetadataClient

logger = logging.getLogger(__name__)

RELEASE_WAIT_S = 3.0
"""Seconds in which the user's batch can still be confirmed when its partition is revoked (the original's
pullRebConfirmWaitPeriodMs)."""
OCCUPIED_FOR_S = LEASE_TIMEOUT_S + 15.0
"""A dead member's registration ends with its lease; a refusal that lasts longer has another reason."""
REFRESH_TIMEOUT_S = 3.0
"""Most seconds that a retry waits for the Master to report the Broker's address."""


@dataclass(frozen=True, slots=True)
class ConsumerStats:
    """Counters since the consumer was entered."""

    fetched: int
    confirmed: int
    skipped: int
    """Messages that failed their check."""
    batches: int
    rebalances: int
    repeated: int = 0
    """Messages that a Broker sent again after it had accepted their confirm."""


class ConsumerBase:
    """Keeps its partitions registered and hands out what is fetched. Subclasses decide on the partitions."""

    occupied_for_s = OCCUPIED_FOR_S

    def __init__(self, cluster: Cluster, metadata: MetadataClient, options: ConsumerOptions) -> None:
        self.cluster = cluster
        self.options = options
        self.client_id = ""
        self.fetch_options: FetchOptions | None = None
        self.flow = FlowControl(options.group, self._wake_all)
        self.rates = RateLimits(options)
        self.registered_before: set[Partition] = set()
        """Partitions that a Broker has registered for this client before, so their position is set."""
        self._metadata = metadata
        self._lost: set[int] = set()
        """Brokers that could not be reached when last tried."""
        self._tasks = Tasks(self._fail)
        self._partitions: dict[Partition, PartitionConsumer] = {}
        self._fetch_tasks: dict[Partition, asyncio.Task[None]] = {}
        self._ready: OrderedDict[OwnedPartition, Batch] = OrderedDict()
        self._arrived = asyncio.Event()
        self._membership: Membership | None = None
        self._role: ConsumingRole | None = None
        self._failure: TubeError | None = None
        self._closed = False
        self._entered = False
        self._fetched = self._confirmed = self._skipped = self._batches = self._rebalances = self._repeated = 0

    def __repr__(self) -> str:
        topics = ", ".join(map(repr, self.options.topics))
        state = "" if self._entered and not self._closed else ", not open"
        return f"{type(self).__name__}({self.options.group!r}, {topics}, {len(self.assignment)} partitions{state})"

    # --- life -----------------------------------------------------------------------------------------------

    def _enter(self, kind: str) -> None:
        """Mark the consumer as entered, and take a client id of this kind.

        Raises:
            ClosedError: it was entered before.
        """
        self.cluster.check_usable()
        if self._entered:
            raise ClosedError("a consumer can be entered once", hint="make another from the Tube")
        self._entered = True
        self.client_id = self.cluster.client_id(group=self.options.group, kind=kind)

    async def _join(self, role: ConsumingRole) -> None:
        """Register at the Master, then keep the membership and the Brokers' registrations alive."""
        self._membership = Membership(self.cluster, role)
        try:
            await self._membership.start(patient=self.cluster.options.first_connect == "wait")
        except BaseException:
            await self._membership.close()
            raise
        self._tasks.spawn(self._membership.run(), name=f"consumer-{self.options.group}")
        self._tasks.spawn(send_heartbeats(self, self._partitions), name=f"consumer-{self.options.group}-brokers")

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Give the partitions back and leave the group, confirming nothing. Idempotent, bounded in time."""
        if self._closed or self.cluster.is_inherited:
            return
        self._closed = True
        self._arrived.set()
        await self._tasks.close()
        self._ready.clear()
        if self.cluster.closed:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.options.close_timeout_s):
                await asyncio.gather(
                    *(
                        consumer.release(wait_s=0.0, timeout_s=UNREGISTER_TIMEOUT_S, reason="its consumer was closed")
                        for consumer in self._partitions.values()
                    )
                )
                if self._membership is not None:
                    await self._membership.close()

    # --- reading --------------------------------------------------------------------------------------------

    @takes(FetchOptions)
    def batches(self, options: FetchOptions) -> Batches:
        """Iterate over the batches of all partitions, as they come; each is one fetch from one partition.

        It waits until a batch comes, for as long as `idle_timeout_s` allows, and never yields an empty one. Where
        something else is to be done meanwhile, call `next_batch(timeout_s=)` in a loop: it returns None each time.

        A partition hands out its next batch only after the one before was confirmed, rejected, or given back after
        the confirm timeout.

        Args:
            max_messages: most messages in a batch (a Java Broker may bring more).
            max_wait_s: how long a Broker may hold one fetch until there is something to bring; then the partition is
                fetched again. It does not end the wait for a batch.
            max_bytes: most bytes of payload in a batch; one message may exceed it.
            idle_timeout_s: end the iteration when nothing has come for so long; None goes on forever.
        """
        self.fetch_with(options)
        return Batches(self, options)

    def fetch_with(self, options: FetchOptions) -> None:
        """Fetch within these limits from now on."""
        self._check()
        self.fetch_options = options
        self._wake_all()

    async def next_batch(self, *, timeout_s: float | None = None) -> Batch | None:
        """Return the next batch; None if none came within `timeout_s`, or the consumer was closed meanwhile.

        It is fetched as the last call of `batches` said, or within that method's defaults.

        Raises:
            ClosedError: the consumer was closed before.
            TubeError: it failed in the background.
        """
        if self._closed:
            self._check()
        if self.fetch_options is None:
            self.fetch_with(FetchOptions())
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    if self._failure is not None:
                        raise self._failure
                    self.cluster.check_usable()
                    while self._ready:
                        consumer, batch = self._ready.popitem(last=False)
                        if consumer.hand_out(batch):
                            self._batches += 1
                            return batch
                    if self._closed:
                        return None
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            return None

    async def seek(self, partition: Partition | str, offset: int | datetime) -> int | None:
        """Read an assigned partition from another offset or time on, back or forth; return the new offset.

        The Broker moves the group's position, to the nearest offset that it has. A batch of this partition that is not
        confirmed yet cannot be confirmed any more. A fetch in flight is void.

        Args:
            partition: one of `assignment`, or its key `brokerId:topic:partitionId`.
            offset: as in `Message.offset`; or a time, for the first message appended then or later.

        Raises:
            NotFoundError: this consumer does not hold the partition.
            ConfigError: its Broker cannot find offsets by time.
            RequestTimeoutError: the Broker did not respond in time; it gets the request when it is back.
        """
        self._check()
        named = Partition.parse(partition) if isinstance(partition, str) else partition
        consumer = self._partitions.get(named)
        if consumer is None:
            names = ", ".join(str(one) for one in self.assignment[:5]) or "none yet"
            raise NotFoundError(
                f"{named} is not assigned to this consumer", hint=f"it has {names}", code=Code.NOT_FOUND
            )
        if isinstance(offset, datetime):
            offset = (await self._metadata.offsets([named], at=offset))[named][0]
        if offset < 0:
            raise ConfigError(f"the offset is {offset}", hint="write the offset of a message, 0 or more")
        wait_s = self.cluster.options.request_timeout_s
        if self.fetch_options is not None:
            wait_s += self.fetch_options.max_wait_s
        try:
            async with asyncio.timeout(wait_s):
                return await consumer.seek(offset)
        except TimeoutError:
            raise RequestTimeoutError(f"the offset was not sent to the Broker of {named} within {wait_s:g} s") from None

    @property
    def ended(self) -> bool:
        """True if it was closed."""
        return self._closed

    @property
    def assignment(self) -> tuple[Partition, ...]:
        """The partitions of this consumer, sorted."""
        return tuple(sorted(partition for partition, consumer in self._partitions.items() if consumer.registered))

    def lag(self) -> dict[Partition, int | None]:
        """Return the unconfirmed messages of each partition, as of the last responses; None while unknown."""
        return {partition: consumer.marks.lag() for partition, consumer in sorted(self._partitions.items())}

    @property
    def stats(self) -> ConsumerStats:
        """The counters so far."""
        return ConsumerStats(
            fetched=self._fetched,
            confirmed=self._confirmed,
            skipped=self._skipped,
            batches=self._batches,
            rebalances=self._rebalances,
            repeated=self._repeated,
        )

    # --- the held partitions call these ---------------------------------------------------------------------

    def emit(self, event: Event) -> None:
        """Emit an event to the user."""
        self.cluster.emit(event)

    @property
    def has_ready(self) -> bool:
        """True if batches are ready for the user."""
        return bool(self._ready)

    def add_ready(self, consumer: OwnedPartition, batch: Batch) -> None:
        """Add a batch that is ready for the user."""
        self._ready[consumer] = batch
        self._arrived.set()

    def count(self, *, fetched: int = 0, confirmed: int = 0, skipped: int = 0, repeated: int = 0) -> None:
        """Count messages."""
        self._fetched += fetched
        self._confirmed += confirmed
        self._skipped += skipped
        self._repeated += repeated

    def give_up(self, consumer: OwnedPartition, error: TubeError) -> None:
        """Give up a partition that a Broker refuses; the next report says so to the Master."""
        logger.warning("%s: %s is given up: %s", self.options.group, consumer.partition, error.message)
        if isinstance(error, BadRequestError):
            self._fail(error)  # waiting on in silence would look like an empty topic
        self._forget(consumer)
        self._fetch_tasks.pop(consumer.partition, None)
        self._report_assignment_soon()
        self.emit(Rebalanced(self.options.group, given=(consumer.partition,), assignment=self.assignment))

    async def report_unreachable(self, consumer: OwnedPartition, error: TubeError, *, again: bool) -> None:
        """Report once that a Broker cannot be reached; if it stays so, ask the Master for its address."""
        broker_id = consumer.partition.broker_id
        if broker_id not in self._lost:
            self._lost.add(broker_id)
            self.emit(Lost(self.client_id, error, consumer.address))
        if again:
            with contextlib.suppress(TubeError, TimeoutError):
                async with asyncio.timeout(REFRESH_TIMEOUT_S):
                    await self._metadata.refresh(consumer.partition.topic)

    def report_reached(self, consumer: OwnedPartition) -> None:
        """Report that a Broker can be reached again."""
        broker_id = consumer.partition.broker_id
        if broker_id in self._lost:
            self._lost.discard(broker_id)
            self.emit(Connected(self.client_id, consumer.address))

    # --- for the kinds of consumers -------------------------------------------------------------------------

    def _report_assignment_soon(self) -> None:
        """Report the partitions to the Master soon, because they changed without an event."""
        if self._role is not None:
            self._role.report_soon()

    def _start(self, consumer: PartitionConsumer) -> None:
        """Start to consume a partition."""
        self._partitions[consumer.partition] = consumer
        self._fetch_tasks[consumer.partition] = self._tasks.spawn(
            consumer.run(), name=f"partition-{consumer.partition}"
        )

    async def _release(self, partitions: Iterable[Partition], *, reason: str | None = None) -> tuple[Partition, ...]:
        """Give partitions back, after a short wait for the user's batches; return those that were consumed.

        Args:
            reason: why batches in hand cannot be confirmed any more; None if the Master revoked the partitions.
        """
        leaving = [self._partitions[partition] for partition in partitions if partition in self._partitions]
        for consumer in leaving:
            run = self._fetch_tasks.pop(consumer.partition, None)
            if run is not None:
                run.cancel()
        await asyncio.gather(
            *(
                consumer.release(wait_s=RELEASE_WAIT_S, timeout_s=UNREGISTER_TIMEOUT_S, reason=reason)
                for consumer in leaving
            )
        )
        for consumer in leaving:
            self._forget(consumer)
        return tuple(sorted(consumer.partition for consumer in leaving))

    def _forget(self, consumer: OwnedPartition) -> None:
        self._partitions.pop(consumer.partition, None)
        self._ready.pop(consumer, None)

    def _poke(self) -> None:
        if self._membership is not None:
            self._membership.poke()

    # --- inside ---------------------------------------------------------------------------------------------

    def _wake_all(self) -> None:
        for consumer in self._partitions.values():
            consumer.wake()

    def _check(self) -> None:
        self.cluster.check_usable()
        if self._failure is not None:
            raise self._failure
        if self._closed or not self._entered:
            raise ClosedError("the consumer is not open", hint="use it inside `async with`")

    def _fail(self, error: BaseException) -> None:
        self._failure = error if isinstance(error, TubeError) else TubeError(f"the consumer failed: {error!r}")
        if self._failure is not error:
            self._failure.__cause__ = error
        self._arrived.set()
        for consumer in self._partitions.values():
            consumer.fail(self._failure)


class Batches:
    """Iterates over a consumer's batches, none of them empty.

    It ends when none has come for `idle_timeout_s`, or the consumer is closed.

    The invariant: it keeps nothing itself, so it may be left and taken up again, and a cancelled wait loses nothing.
    """

    def __init__(self, consumer: ConsumerBase, options: FetchOptions) -> None:
        self._consumer = consumer
        self._options = options

    def __aiter__(self) -> Batches:
        return self

    async def __anext__(self) -> Batch:
        if self._consumer.ended:
            raise StopAsyncIteration
        batch = await self._consumer.next_batch(timeout_s=self._options.idle_timeout_s)
        if batch is None:
            raise StopAsyncIteration
        return batch
