"""A consumer that decides itself which partitions it holds; with its share kept automatically unless told otherwise.

The invariants: it only connects to what the Master says can be consumed; a batch in the user's hands stays theirs
until they settle it or its partition goes away; a partition that another member holds is left to it.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from pytubemq._version import __version__
from pytubemq.client.balance.role import BalanceRole
from pytubemq.client.balance.share import keep_share
from pytubemq.client.cluster import is_refusal
from pytubemq.client.events import Rebalanced
from pytubemq.client.held import HeldPartition
from pytubemq.client.keeper import PartitionKeeper
from pytubemq.client.registration import UNREGISTER_TIMEOUT_S
from pytubemq.core.share import share_of
from pytubemq.errors import BadRequestError, Code, ConfigError, TransportError, TubeError, refused
from pytubemq.model.ids import Partition
from pytubemq.wire.extensions import Capability

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from pytubemq.client.balance.options import BalanceOptions
    from pytubemq.client.cluster import Cluster
    from pytubemq.client.lookup import Lookup

CONNECT_TRIES = 2
CONNECT_PAUSE_S = 1.0
"""Between the tries: a Broker still refuses in the answer in which it puts a dead owner out."""
CLOSED_GRACE_S = 10.0
"""A partition that the Master says cannot be consumed is given back after so long."""
CLOSED_LOOK_S = 1.0
BALANCE_ROUND_S = 30.0
"""How much later a Master of the original notices that a partition can be consumed again."""
GUARD_S = 5.0
"""A partition that a Broker has refused (410, 415) is not asked for again within this time (the original's)."""


@dataclass(frozen=True, slots=True)
class PartitionOffset:
    """Where a group stands in a partition, as its Broker last told."""

    position: int | None
    """The first offset that is not confirmed; None while unknown."""
    newest: int | None
    """The offset that the partition's next message gets."""
    told_at_ms: int
    """When the Broker told, milliseconds since 1970."""


class BalanceConsumer(PartitionKeeper):
    """Reads the partitions that it chooses. Made by `Tube.balance_consumer`; use it with `async with`."""

    options: BalanceOptions
    occupied_for_s = 0.0  # what another member has taken is its own

    def __init__(self, cluster: Cluster, lookup: Lookup, options: BalanceOptions) -> None:
        super().__init__(cluster, lookup, options)
        self._role: BalanceRole | None = None
        self._locks: WeakValueDictionary[Partition, asyncio.Lock] = WeakValueDictionary()
        self._refused_s: dict[Partition, float] = {}
        self._news = asyncio.Event()
        self._dropping = False
        self._settled = asyncio.Event()
        """Whether what this consumer is to hold is held, for the first time."""

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
            self.cluster,
            self.options,
            self.client_id,
            held=self._held.keys,
            flow=self.flow,
            changed=self._told_partitions,
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
        """Whether it cannot be used: not entered yet, or left."""
        return self._closed or not self._entered

    # --- who we are -----------------------------------------------------------------------------------------

    @property
    def client_version(self) -> str:
        """The version of this client, as its id tells it."""
        return __version__

    @property
    def consumer_id(self) -> str:
        """The id that this consumer has in the servers' lists; empty before it is entered."""
        return self.client_id

    @property
    def node_id(self) -> int | None:
        """Which member of the group this is; None when it has no number."""
        return self.options.node_id

    @property
    def source_count(self) -> int | None:
        """How many members the group has; None when they have no numbers."""
        return self.options.source_count

    @property
    def meta_check_s(self) -> float:
        """For how long an answer of the Master about partitions will do."""
        return self.options.meta_check_s if self._role is None else self._role.check_s

    def filters(self, topic: str) -> frozenset[str]:
        """The message types that are read of a topic; empty when that is all of them.

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
        """All partitions that the topics have, sorted, with whether they can be consumed now.

        The Master is asked at most every `meta_check_s`, or 2 s while something cannot be consumed; in between its
        last answer is given. A partition that is registered and cannot be consumed for 10 s (40 s at a Java Master,
        which looks at its Brokers twice a minute) is given back.

        Raises:
            ClosedError: the consumer is not open.
            NotRegisteredError: the Master has forgotten this consumer, which registers again by itself.
            TransportError: no Master answers.
        """
        self._check()
        assert self._role is not None
        await self._role.ask_meta()
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
        """Where the group stands in the partitions that this consumer holds, as their Brokers last told."""
        return {
            partition: PartitionOffset(
                held.marks.start if held.marks.confirmed is None else held.marks.confirmed,
                held.marks.newest,
                held.told_ms,
            )
            for partition, held in sorted(self._held.items())
            if held.told_ms
        }

    # --- taking and leaving ---------------------------------------------------------------------------------

    async def connect(self, partition: Partition | str, offset: int | None = None) -> None:
        """Take a partition. One that is held already stays as it is; one that is lost later is taken again by itself.

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
            if wanted in self._held:
                return
            await self._check_subscribable(wanted)
            self._check_guard(wanted)
            held = HeldPartition(self, wanted, offset=offset)
            try:
                await self._try_to_register(held)
                self._check()
            except BaseException:
                await held.release(wait_s=0.0, timeout_s=UNREGISTER_TIMEOUT_S)
                raise
            self._hold(held)
            self._holdings_changed()
            if self.options.manual:
                self._settled.set()

    async def disconnect(self, partition: Partition | str) -> None:
        """Give a partition back, after at most 3 s for the batch in the user's hands. One that is not held is no error.

        Raises:
            FormatError: the key is malformed.
        """
        wanted = Partition.parse(partition) if isinstance(partition, str) else partition
        async with self._lock(wanted):
            if await self._release([wanted], reason="its partition was disconnected"):
                self._holdings_changed()

    def _lock(self, partition: Partition) -> asyncio.Lock:
        return self._locks.setdefault(partition, asyncio.Lock())

    async def _check_subscribable(self, partition: Partition) -> None:
        assert self._role is not None
        if partition not in self._role.meta.partitions:
            await self._role.ask_meta()
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

    async def _try_to_register(self, held: HeldPartition) -> None:
        for left in reversed(range(CONNECT_TRIES)):
            try:
                await held.register()
            except TubeError as error:
                if isinstance(error, TransportError):
                    await self.unreachable(held, error, again=True)
                if left and not isinstance(error, BadRequestError):
                    await asyncio.sleep(CONNECT_PAUSE_S)
                    continue
                self._note_refusal(held.partition, error)
                raise
            self.reached(held)
            return

    def _note_refusal(self, partition: Partition, error: TubeError) -> None:
        if is_refusal(error, Code.PARTITION_OCCUPIED, Code.CERTIFICATE_FAILURE):
            now_s = asyncio.get_running_loop().time()
            self._refused_s = {one: when_s for one, when_s in self._refused_s.items() if now_s - when_s < GUARD_S}
            self._refused_s[partition] = now_s

    # --- what happens by itself -----------------------------------------------------------------------------

    async def news(self, timeout_s: float) -> None:
        """Wait until there may be something to decide about partitions, for at most so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._news.wait()
        self._news.clear()

    def took_share(self, gained: tuple[Partition, ...], given: tuple[Partition, ...], *, complete: bool) -> None:
        """The share was looked after; `complete` when all of it that can be consumed is held."""
        if gained or given:
            self._rebalances += 1
            self.emit(Rebalanced(self.options.group, gained=gained, given=given, assignment=self.assignment))
        if complete:
            self._settled.set()

    def gave_up(self, held: HeldPartition, error: TubeError) -> None:
        """A Broker refuses a partition that was ours."""
        self._note_refusal(held.partition, error)
        super().gave_up(held, error)
        self._news.set()

    @property
    def holds(self) -> frozenset[Partition]:
        """What is held, also while it is being registered again."""
        return frozenset(self._held)

    def _told_partitions(self) -> None:
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
        while closed := [one for one in self._held if not role.meta.partitions.get(one, False)]:
            at_once = self.cluster.master_has(Capability.HEARTBEAT_WAIT)
            before_s = role.heard_s - (CLOSED_GRACE_S if at_once else CLOSED_GRACE_S + BALANCE_ROUND_S)
            since_s = role.meta.closed_since_s
            lost = [
                one
                for one in closed
                if self._held[one].registered
                and max(since_s.get(one, before_s), self._held[one].registered_s) <= before_s
            ]
            await asyncio.gather(*(self.disconnect(one) for one in lost))
            await asyncio.sleep(CLOSED_LOOK_S)
        self._dropping = False

    def _go_to_newest(self) -> None:
        for held in self._held.values():
            held.go_to_newest()

    def _fail(self, error: BaseException) -> None:
        super()._fail(error)
        self._settled.set()
