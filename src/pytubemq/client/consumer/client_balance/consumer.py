"""The consumer that chooses its partitions itself, by default its share of them.

The invariants: it only connects to partitions that the Master reports as consumable; the user's batch stays theirs
until they settle it or its partition is given back; a partition that another member has is left to it.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from pytubemq._version import __version__
from pytubemq.client.consumer.client_balance.role import BalanceRole
from pytubemq.client.consumer.client_balance.share import keep_share
from pytubemq.client.consumer.consumer_base import ConsumerBase
from pytubemq.client.consumer.partition_consumer import PartitionConsumer
from pytubemq.client.session.cluster_connection import is_refusal
from pytubemq.client.session.events import Rebalanced
from pytubemq.client.session.registration_requests import UNREGISTER_TIMEOUT_S
from pytubemq.core.share import share_of
from pytubemq.errors import BadRequestError, Code, ConfigError, TransportError, TubeError, refused
from pytubemq.model.ids import Partition
from pytubemq.wire.protocol.extensions import Capability

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from pytubemq.client.consumer.partition_owner import OwnedPartition
    from pytubemq.client.options import BalanceOptions
    from pytubemq.client.session.cluster_connection import Cluster
    from pytubemq.client.session.metadata import MetadataClient

CONNECT_TRIES = 2
CONNECT_PAUSE_S = 1.0
"""Pause between the tries: a Broker still refuses in the response in which it removes a dead member."""
CLOSED_GRACE_S = 10.0
"""Seconds until a partition is given back that the Master reports as not consumable."""
CLOSED_CHECK_PERIOD_S = 1.0
BALANCE_ROUND_S = 30.0
"""Seconds after which a Java Master notices that a partition can be consumed again."""
GUARD_S = 5.0
"""Seconds until a partition is requested again that a Broker has refused with 410 or 415 (the original's)."""


@dataclass(frozen=True, slots=True)
class PartitionOffset:
    """A group's position in a partition, as its Broker last reported it."""

    position: int | None
    """The first offset that is not confirmed; None while unknown."""
    newest: int | None
    """The offset that the partition's next message gets."""
    told_at_ms: int
    """When the Broker reported it, milliseconds since 1970."""


class BalanceConsumer(ConsumerBase):
    """Reads the partitions that it chooses. Made by `Tube.balance_consumer`; use it with `async with`."""

    options: BalanceOptions
    occupied_for_s = 0.0  # what another member has taken is its own

    def __init__(self, cluster: Cluster, metadata: MetadataClient, options: BalanceOptions) -> None:
        super().__init__(cluster, metadata, options)
        self._role: BalanceRole | None = None
        self._locks: WeakValueDictionary[Partition, asyncio.Lock] = WeakValueDictionary()
        self._refused_s: dict[Partition, float] = {}
        self._news = asyncio.Event()
        self._dropping = False
        self._settled = asyncio.Event()
        """Set when all that is to be connected has been connected for the first time."""

    # --- life -----------------------------------------------------------------------------------------------

    async def __aenter__(self) -> BalanceConsumer:
        """Register, and unless `manual` begin to keep this node's share.

        Raises:
            NotFoundError: a topic does not exist.
            GroupMismatchError: the group reads other topics, or with other filters; it is balanced by the Master; its
                source_count is another one; or another living member has our node_id.
            UnreachableError: no Master answers.
        """
        self._enter("Balance")
        role = self._role = BalanceRole(
            self,
            held=self._partitions.keys,
            changed=self._on_partitions,
            to_newest=self._go_to_newest,
            work=self._work,
            poke=self._poke,
        )
        await self._join(role)
        if not self.options.manual:
            self._tasks.spawn(keep_share(self), name=f"consumer-{self.options.group}-share")
        return self

    async def close(self) -> None:
        """Give the partitions back and leave the group, confirming nothing. Idempotent, bounded in time."""
        self._settled.set()
        self._news.set()
        await super().close()

    @property
    def closed(self) -> bool:
        """True if it cannot be used: not entered yet, or left."""
        return self._closed or not self._entered

    # --- who we are -----------------------------------------------------------------------------------------

    @property
    def client_version(self) -> str:
        """The version of this client, as in its client id."""
        return __version__

    @property
    def consumer_id(self) -> str:
        """The id that this consumer has in the servers' lists; empty before it is entered."""
        return self.client_id

    @property
    def node_id(self) -> int | None:
        """The number of this member of the group; None if it has none."""
        return self.options.node_id

    @property
    def source_count(self) -> int | None:
        """The number of members of the group; None if they have no numbers."""
        return self.options.source_count

    @property
    def meta_check_s(self) -> float:
        """Seconds for which the Master's partition metadata is used."""
        return self.options.meta_check_s if self._role is None else self._role.check_s

    def filters(self, topic: str) -> frozenset[str]:
        """Return the filter items of a topic; empty if it is read without a filter.

        Raises:
            ConfigError: this consumer does not read the topic.
        """
        if topic not in self.options.topics:
            raise ConfigError(
                f"this consumer does not read the topic {topic!r}", hint=f"it reads {', '.join(self.options.topics)}"
            )
        return self.options.filters.get(topic, frozenset())

    # --- what there is --------------------------------------------------------------------------------------

    async def partition_meta(self) -> Mapping[Partition, bool]:
        """Return all partitions of the topics, sorted, each with True if it can be consumed now.

        The Master is asked at most every `meta_check_s`, or 2 s while something cannot be consumed; in between its
        last response is given. A partition that is registered and cannot be consumed for 10 s (40 s at a Java Master,
        which looks at its Brokers twice a minute) is given back.

        Raises:
            ClosedError: the consumer is not open.
            NotRegisteredError: the Master has forgotten this consumer, which registers again on its own.
            TransportError: no Master answers.
        """
        self._check()
        assert self._role is not None
        await self._role.refresh_metadata()
        return self._role.meta.partitions

    @property
    def share(self) -> frozenset[Partition]:
        """The partitions that belong to this node, whether they can be consumed now or not; empty without a number."""
        if self._role is None or self.options.source_count is None or self.options.node_id is None:
            return frozenset()
        partitions = self._role.meta.partitions
        return share_of(partitions, source_count=self.options.source_count, node_id=self.options.node_id)

    @property
    def registered(self) -> tuple[Partition, ...]:
        """The partitions that Brokers have registered for this consumer, sorted; the same as `assignment`."""
        return self.assignment

    async def ready(self, timeout_s: float | None = None) -> bool:
        """Wait until there is something to read; False when it was not so within `timeout_s`.

        That is when this node's share has been taken up, all of it that can be consumed now (which may be nothing, if
        there are more nodes than partitions); with `manual` when a partition is registered.

        Raises:
            ClosedError: the consumer is not open.
            TubeError: the consumer has failed.
        """
        self._check()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._settled.wait()
                self._check()
                return True
        return False

    def offsets(self) -> dict[Partition, PartitionOffset]:
        """Return the group's position in each connected partition, as its Broker last reported it."""
        return {
            partition: PartitionOffset(
                consumer.marks.start if consumer.marks.confirmed is None else consumer.marks.confirmed,
                consumer.marks.newest,
                consumer.marks.reported_ms,
            )
            for partition, consumer in sorted(self._partitions.items())
            if consumer.marks.reported_ms
        }

    # --- taking and leaving ---------------------------------------------------------------------------------

    async def connect(self, partition: Partition | str, offset: int | None = None) -> None:
        """Connect to a partition. One that is connected stays so; one that is lost later is connected again
        automatically.

        Args:
            partition: a partition, or its key `brokerId:topic:partitionId`.
            offset: where to begin, instead of at the group's position; the Broker keeps it within what is there.

        Raises:
            ClosedError: the consumer is not open (420).
            NotFoundError: the topics have no such partition (404).
            UnavailableError: it cannot be consumed now (422), or its Broker cannot serve.
            ThrottledError: its Broker has refused it less than 5 s ago (421).
            OccupiedError: another member of the group holds it (410).
            TransportError: its Broker cannot be reached.
        """
        self._check()
        wanted = Partition.parse(partition) if isinstance(partition, str) else partition
        if offset is not None and offset < 0:
            raise ConfigError(f"offset is {offset}", hint="leave it out to begin at the group's position")
        async with self._lock(wanted):
            if wanted in self._partitions:
                return
            await self._check_subscribable(wanted)
            self._check_guard(wanted)
            consumer = PartitionConsumer(self, wanted, offset=offset)
            try:
                await self._try_to_register(consumer)
                self._check()
            except BaseException:
                await consumer.release(wait_s=0.0, timeout_s=UNREGISTER_TIMEOUT_S)
                raise
            self._start(consumer)
            self._report_assignment_soon()
            if self.options.manual:
                self._settled.set()

    async def disconnect(self, partition: Partition | str) -> None:
        """Give a partition back, after at most 3 s for the user's batch. One that is not connected is no error.

        Raises:
            FormatError: the key is malformed.
        """
        wanted = Partition.parse(partition) if isinstance(partition, str) else partition
        async with self._lock(wanted):
            if await self._release([wanted], reason="its partition was disconnected"):
                self._report_assignment_soon()

    def _lock(self, partition: Partition) -> asyncio.Lock:
        return self._locks.setdefault(partition, asyncio.Lock())

    async def _check_subscribable(self, partition: Partition) -> None:
        assert self._role is not None
        if partition not in self._role.meta.partitions:
            await self._role.refresh_metadata()
        subscribable = self._role.meta.partitions.get(partition)
        if subscribable is None:
            raise refused(Code.NOT_FOUND, f"the topics of this consumer have no partition {partition}")
        if not subscribable:
            raise refused(
                Code.PARTITION_UNSUBSCRIBABLE,
                f"partition {partition} cannot be consumed now",
                hint="its Broker is away, or the topic is closed for consumers or for this group",
            )

    def _check_guard(self, partition: Partition) -> None:
        since_s = asyncio.get_running_loop().time() - self._refused_s.get(partition, float("-inf"))
        if since_s < GUARD_S:
            raise refused(
                Code.CLIENT_HIGH_FREQUENCY_REQUEST,
                f"partition {partition} was refused {since_s:.1f} s ago",
                hint=f"try again after {GUARD_S:g} s",
            )

    async def _try_to_register(self, consumer: PartitionConsumer) -> None:
        for left in reversed(range(CONNECT_TRIES)):
            try:
                await consumer.register()
            except TubeError as error:
                if isinstance(error, TransportError):
                    await self.report_unreachable(consumer, error, again=True)
                if left and not isinstance(error, BadRequestError):
                    await asyncio.sleep(CONNECT_PAUSE_S)
                    continue
                self._record_refusal(consumer.partition, error)
                raise
            self.report_reached(consumer)
            return

    def _record_refusal(self, partition: Partition, error: TubeError) -> None:
        if is_refusal(error, Code.PARTITION_OCCUPIED, Code.CERTIFICATE_FAILURE):
            now_s = asyncio.get_running_loop().time()
            self._refused_s = {one: when_s for one, when_s in self._refused_s.items() if now_s - when_s < GUARD_S}
            self._refused_s[partition] = now_s

    # --- what happens on its own -----------------------------------------------------------------------------

    async def wait_for_news(self, timeout_s: float) -> None:
        """Wait until the partitions may have changed, for at most this long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._news.wait()
        self._news.clear()

    def record_share(self, gained: tuple[Partition, ...], given: tuple[Partition, ...], *, complete: bool) -> None:
        """Record the changes of a round; `complete` if all of the share that can be consumed is connected."""
        if gained or given:
            self._rebalances += 1
            self.emit(Rebalanced(self.options.group, gained=gained, given=given, assignment=self.assignment))
        if complete:
            self._settled.set()

    def give_up(self, consumer: OwnedPartition, error: TubeError) -> None:
        """Give up a partition that its Broker refuses."""
        self._record_refusal(consumer.partition, error)
        super().give_up(consumer, error)
        self._news.set()

    @property
    def connected(self) -> frozenset[Partition]:
        """The connected partitions, also while they register again."""
        return frozenset(self._partitions)

    def _on_partitions(self) -> None:
        self._news.set()
        if not self._dropping:
            self._dropping = True
            self._work(self._drop_closed())

    def _work(self, job: Coroutine[Any, Any, None]) -> None:
        self._tasks.spawn(job, name=f"consumer-{self.options.group}-work")

    async def _drop_closed(self) -> None:
        """Give back what cannot be consumed for some time. What has lost its Broker waits for it instead.

        Not at once, and not before the Master has said so again: one that has just started, or waits for a Broker
        that has, calls everything closed for a while. A Broker that has taken a registration meanwhile knows better.
        """
        role = self._role
        assert role is not None
        while closed := [one for one in self._partitions if not role.meta.partitions.get(one, False)]:
            at_once = self.cluster.master_has(Capability.HEARTBEAT_WAIT)
            before_s = role.reported_s - (CLOSED_GRACE_S if at_once else CLOSED_GRACE_S + BALANCE_ROUND_S)
            since_s = role.meta.closed_since_s
            lost = [
                one
                for one in closed
                if self._partitions[one].registered
                and max(since_s.get(one, before_s), self._partitions[one].registration.accepted_s) <= before_s
            ]
            await asyncio.gather(*(self.disconnect(one) for one in lost))
            await asyncio.sleep(CLOSED_CHECK_PERIOD_S)
        self._dropping = False

    def _go_to_newest(self) -> None:
        for consumer in self._partitions.values():
            consumer.go_to_newest()

    def _fail(self, error: BaseException) -> None:
        super()._fail(error)
        self._settled.set()
