"""A consumer of a group, balanced by the Master: it holds what the Master's events say."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from pytubemq.client.consumer_role import ConsumerRole, Held
from pytubemq.client.events import Rebalanced
from pytubemq.client.held import HeldPartition
from pytubemq.client.keeper import PartitionKeeper
from pytubemq.model.ids import BrokerInfo, Partition

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pytubemq.client.cluster import Cluster
    from pytubemq.client.lookup import Lookup
    from pytubemq.client.options import ConsumerOptions
    from pytubemq.wire.strings import SubscribeInfo

FIRST_TRY_WAIT_S = 3.0
"""How long an event waits for the first registration of its partitions; after that they go on trying by themselves."""


class Consumer(PartitionKeeper):
    """Reads topics as a member of a group. Made by `Tube.consumer`; use it with `async with`."""

    def __init__(self, cluster: Cluster, lookup: Lookup, options: ConsumerOptions, *, kind: str = "Pull") -> None:
        super().__init__(cluster, lookup, options)
        self._kind = kind
        self._role: ConsumerRole | None = None

    async def __aenter__(self) -> Consumer:
        """Register; partitions arrive soon after.

        Raises:
            NotFoundError: a topic does not exist.
            GroupMismatchError: the group reads other topics, or with other filters.
            UnreachableError: no Master answers.
        """
        self._enter(self._kind)
        role = self._role = ConsumerRole(
            self.cluster,
            self.options,
            self.client_id,
            flow=self.flow,
            held=self._held_infos,
            work=self._work,
            handle=self._rebalance,
            poke=self._poke,
        )
        await self._join(role)
        return self

    # --- events of the Master -------------------------------------------------------------------------------

    def _work(self, job: Callable[[], Awaitable[None]]) -> None:
        async def run() -> None:
            await job()

        self._tasks.spawn(run(), name=f"consumer-{self.options.group}-event")

    async def _rebalance(self, connect: bool, infos: list[SubscribeInfo]) -> None:
        self._rebalances += 1
        if connect:
            gained = await self._connect(infos)
            self.emit(Rebalanced(self.options.group, gained=gained, assignment=self.assignment))
        else:
            given = await self._release(info.partition for info in infos)
            self.emit(Rebalanced(self.options.group, given=given, assignment=self.assignment))

    async def _connect(self, infos: list[SubscribeInfo]) -> tuple[Partition, ...]:
        new: list[HeldPartition] = []
        self.cluster.learn_brokers([info.broker for info in infos])
        for info in infos:
            if info.partition in self._held or info.partition.topic not in self.options.topics:
                continue
            offset = None if self._role is None else self._role.first_offset(info.partition)
            held = HeldPartition(self, info.partition, offset=offset)
            self._hold(held)
            new.append(held)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FIRST_TRY_WAIT_S):
                await asyncio.gather(*(held.tried.wait() for held in new))
        return tuple(sorted(held.partition for held in new))

    def _held_infos(self) -> Held:
        return [
            (BrokerInfo(partition.broker_id, held.address), partition) for partition, held in sorted(self._held.items())
        ]
