"""What consumers of both kinds of balance have in common: the partitions they hold and the batches these bring.

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

from pytubemq.client.batches import Batches
from pytubemq.client.events import Connected, Event, Lost, Rebalanced
from pytubemq.client.flow import Flow
from pytubemq.client.heartbeats import beat
from pytubemq.client.membership import Membership
from pytubemq.client.options import ConsumerOptions, FetchOptions
from pytubemq.client.pace import Rates
from pytubemq.client.registration import UNREGISTER_TIMEOUT_S
from pytubemq.client.tasks import Tasks
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

    from pytubemq.client.batch import Batch
    from pytubemq.client.cluster import Cluster
    from pytubemq.client.held import HeldPartition
    from pytubemq.client.lookup import Lookup
    from pytubemq.client.membership import ConsumingRole

logger = logging.getLogger(__name__)

RELEASE_WAIT_S = 3.0
"""How long a batch in the user's hands may still be confirmed when its partition is to be given away (the original's
pullRebConfirmWaitPeriodMs)."""
OCCUPIED_FOR_S = LEASE_TIMEOUT_S + 15.0
"""A dead owner's hold ends with its lease; whoever is refused for longer than that is refused for another reason."""
LOOK_UP_TIMEOUT_S = 3.0
"""Most that the next try to reach a Broker waits for the Master to say where the Broker is."""


@dataclass(frozen=True, slots=True)
class ConsumerStats:
    """Counters since the consumer was entered."""

    fetched: int
    confirmed: int
    skipped: int
    """Messages that failed their check."""
    batches: int
    rebalances: int


class PartitionKeeper:
    """Keeps registered what it holds, and hands out what is fetched. What is held others decide."""

    occupied_for_s = OCCUPIED_FOR_S

    def __init__(self, cluster: Cluster, lookup: Lookup, options: ConsumerOptions) -> None:
        self.cluster = cluster
        self.options = options
        self.client_id = ""
        self.fetch_options: FetchOptions | None = None
        self.flow = Flow(options.group, self._wake_all)
        self.rates = Rates(options)
        self.seen: set[Partition] = set()
        """Partitions that a Broker has registered for this client before: their position stands since then."""
        self._lookup = lookup
        self._lost: set[int] = set()
        """Brokers that could not be reached when last tried."""
        self._tasks = Tasks(self._fail)
        self._held: dict[Partition, HeldPartition] = {}
        self._runs: dict[Partition, asyncio.Task[None]] = {}
        self._ready: OrderedDict[HeldPartition, Batch] = OrderedDict()
        self._arrived = asyncio.Event()
        self._membership: Membership | None = None
        self._role: ConsumingRole | None = None
        self._failure: TubeError | None = None
        self._closed = False
        self._entered = False
        self._fetched = self._confirmed = self._skipped = self._batches = self._rebalances = 0

    def __repr__(self) -> str:
        topics = ", ".join(map(repr, self.options.topics))
        state = "" if self._entered and not self._closed else ", not open"
        return f"{type(self).__name__}({self.options.group!r}, {topics}, {len(self.assignment)} partitions{state})"

    # --- life -----------------------------------------------------------------------------------------------

    def _enter(self, kind: str) -> None:
        """Take the one entry there is, and a client id of this kind.

        Raises:
            ClosedError: it was entered before.
        """
        self.cluster.check_usable()
        if self._entered:
            raise ClosedError("a consumer can be entered once", hint="make another from the Tube")
        self._entered = True
        self.client_id = self.cluster.client_id(group=self.options.group, kind=kind)

    async def _join(self, role: ConsumingRole) -> None:
        """Register at the Master, then keep the membership and the holds on partitions."""
        self._membership = Membership(self.cluster, role)
        try:
            await self._membership.start(patient=self.cluster.options.first_connect == "wait")
        except BaseException:
            await self._membership.close()
            raise
        self._tasks.spawn(self._membership.run(), name=f"consumer-{self.options.group}")
        self._tasks.spawn(beat(self, self._held), name=f"consumer-{self.options.group}-brokers")

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Give the partitions back and leave the group, confirming nothing. Idempotent, bounded in time."""
        if self._closed:
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
                        held.release(wait_s=0.0, timeout_s=UNREGISTER_TIMEOUT_S, reason="its consumer was closed")
                        for held in self._held.values()
                    )
                )
                if self._membership is not None:
                    await self._membership.close()

    # --- reading --------------------------------------------------------------------------------------------

    def batches(
        self,
        *,
        max_messages: int = 500,
        max_wait_s: float = 1.0,
        max_bytes: int | None = None,
        idle_timeout_s: float | None = None,
    ) -> Batches:
        """The batches of all partitions, as they come; each is one fetch from one partition.

        A partition hands out its next batch only after the one before was confirmed, rejected, or given back after
        the confirm timeout.

        Args:
            max_messages: most messages in a batch (a Java Broker may bring more).
            max_wait_s: how long a Broker may hold a fetch until there is something to bring.
            max_bytes: most bytes of payload in a batch; one message may exceed it.
            idle_timeout_s: end the iteration when nothing has come for so long; None goes on forever.
        """
        options = FetchOptions(
            max_messages=max_messages, max_wait_s=max_wait_s, max_bytes=max_bytes, idle_timeout_s=idle_timeout_s
        )
        self._check()
        self._fetch_with(options)
        return Batches(self, options)

    async def next_batch(self, *, timeout_s: float | None = None) -> Batch | None:
        """The next batch; None when none came within `timeout_s`, or the consumer was closed meanwhile.

        It is fetched as the last call of `batches` said, or within that method's defaults.
        """
        if not self._entered:
            self._check()
        if self.fetch_options is None:
            self._fetch_with(FetchOptions())
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    if self._failure is not None:
                        raise self._failure
                    self.cluster.check_usable()
                    while self._ready:
                        held, batch = self._ready.popitem(last=False)
                        if held.hand_out(batch):
                            self._batches += 1
                            return batch
                    if self._closed:
                        return None
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            return None

    async def seek(self, partition: Partition | str, offset: int | datetime) -> int | None:
        """Read a held partition from another offset or time on, back or forth; returns where that is.

        The Broker moves the group's position, to the nearest offset that it has. A batch of this partition that is not
        confirmed yet is not held any more. What a fetch under way brings counts no more.

        Args:
            partition: one of `assignment`, or its key `brokerId:topic:partitionId`.
            offset: as in `Message.offset`; or a time, for the first message appended then or later.

        Raises:
            NotFoundError: this consumer does not hold the partition.
            ConfigError: its Broker cannot find offsets by time.
            RequestTimeoutError: the Broker could not be told in time; it will be when it answers again.
        """
        self._check()
        named = Partition.parse(partition) if isinstance(partition, str) else partition
        held = self._held.get(named)
        if held is None:
            names = ", ".join(str(one) for one in self.assignment[:5]) or "none yet"
            raise NotFoundError(f"this consumer does not hold {named}", hint=f"it holds {names}", code=Code.NOT_FOUND)
        if isinstance(offset, datetime):
            offset = (await self._lookup.offsets([named], at=offset))[named][0]
        if offset < 0:
            raise ConfigError(f"the offset is {offset}", hint="write the offset of a message, 0 or more")
        wait_s = self.cluster.options.request_timeout_s
        if self.fetch_options is not None:
            wait_s += self.fetch_options.max_wait_s
        try:
            async with asyncio.timeout(wait_s):
                return await held.seek(offset)
        except TimeoutError:
            raise RequestTimeoutError(f"the Broker of {named} was not told of the offset within {wait_s:g} s") from None

    @property
    def ended(self) -> bool:
        """Whether it was closed."""
        return self._closed

    @property
    def assignment(self) -> tuple[Partition, ...]:
        """The partitions this consumer holds, sorted."""
        return tuple(sorted(partition for partition, held in self._held.items() if held.registered))

    def lag(self) -> dict[Partition, int | None]:
        """Messages not yet confirmed per held partition, as of the last answers; None while unknown."""
        return {partition: held.marks.lag() for partition, held in sorted(self._held.items())}

    @property
    def stats(self) -> ConsumerStats:
        """What has been done so far."""
        return ConsumerStats(
            fetched=self._fetched,
            confirmed=self._confirmed,
            skipped=self._skipped,
            batches=self._batches,
            rebalances=self._rebalances,
        )

    # --- the held partitions call these ---------------------------------------------------------------------

    def emit(self, event: Event) -> None:
        """Tell whoever listens."""
        self.cluster.emit(event)

    @property
    def has_ready(self) -> bool:
        """Whether batches wait for the user already."""
        return bool(self._ready)

    def brought(self, held: HeldPartition, batch: Batch) -> None:
        """A batch has come."""
        self._ready[held] = batch
        self._arrived.set()

    def counted(self, *, fetched: int = 0, confirmed: int = 0, skipped: int = 0) -> None:
        """Count messages."""
        self._fetched += fetched
        self._confirmed += confirmed
        self._skipped += skipped

    def gave_up(self, held: HeldPartition, error: TubeError) -> None:
        """A Broker refuses a partition for good: the Master learns with the next report that we do not have it."""
        logger.warning("%s: %s is given up: %s", self.options.group, held.partition, error.message)
        if isinstance(error, BadRequestError):
            self._fail(error)  # waiting on in silence would look like an empty topic
        self._forget(held)
        self._runs.pop(held.partition, None)
        self._holdings_changed()
        self.emit(Rebalanced(self.options.group, given=(held.partition,), assignment=self.assignment))

    async def unreachable(self, held: HeldPartition, error: TubeError, *, again: bool) -> None:
        """A Broker cannot be reached: say so once, and when it stays so ask the Master where it is now."""
        broker_id = held.partition.broker_id
        if broker_id not in self._lost:
            self._lost.add(broker_id)
            self.emit(Lost(self.client_id, error, held.address))
        if again:
            with contextlib.suppress(TubeError, TimeoutError):
                async with asyncio.timeout(LOOK_UP_TIMEOUT_S):
                    await self._lookup.refresh(held.partition.topic)

    def reached(self, held: HeldPartition) -> None:
        """A Broker has taken a registration."""
        broker_id = held.partition.broker_id
        if broker_id in self._lost:
            self._lost.discard(broker_id)
            self.emit(Connected(self.client_id, held.address))

    # --- for the kinds of consumers -------------------------------------------------------------------------

    def _holdings_changed(self) -> None:
        """What is held has changed by itself: the Master is told with the next report."""
        if self._role is not None:
            self._role.report_soon()

    def _hold(self, held: HeldPartition) -> None:
        """Hold a partition from now on, and keep it registered."""
        self._held[held.partition] = held
        self._runs[held.partition] = self._tasks.spawn(held.run(), name=f"partition-{held.partition}")

    async def _release(self, partitions: Iterable[Partition], *, reason: str | None = None) -> tuple[Partition, ...]:
        """Give partitions back, after a short wait for the batches in the user's hands; returns what was held.

        Args:
            reason: why batches in hand cannot be confirmed any more; None if the Master revoked the partitions.
        """
        leaving = [self._held[partition] for partition in partitions if partition in self._held]
        for held in leaving:
            run = self._runs.pop(held.partition, None)
            if run is not None:
                run.cancel()
        await asyncio.gather(
            *(held.release(wait_s=RELEASE_WAIT_S, timeout_s=UNREGISTER_TIMEOUT_S, reason=reason) for held in leaving)
        )
        for held in leaving:
            self._forget(held)
        return tuple(sorted(held.partition for held in leaving))

    def _forget(self, held: HeldPartition) -> None:
        self._held.pop(held.partition, None)
        self._ready.pop(held, None)

    def _poke(self) -> None:
        if self._membership is not None:
            self._membership.poke()

    # --- inside ---------------------------------------------------------------------------------------------

    def _fetch_with(self, options: FetchOptions) -> None:
        self.fetch_options = options
        self._wake_all()

    def _wake_all(self) -> None:
        for held in self._held.values():
            held.wake()

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
