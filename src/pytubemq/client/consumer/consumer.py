"""The consumer of a group that the Master balances: the Master's events assign and revoke its partitions."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from pytubemq.client.consumer.consumer_base import ConsumerBase
from pytubemq.client.consumer.consumer_role import ConsumerRole, Held
from pytubemq.client.consumer.partition_consumer import PartitionConsumer
from pytubemq.client.session.events import Rebalanced
from pytubemq.model.ids import BrokerInfo, Partition

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pytubemq.client.options import ConsumerOptions
    from pytubemq.client.session.cluster_connection import Cluster
    from pytubemq.client.session.metadata import MetadataClient
    from pytubemq.wire.text.partition_strings import SubscribeInfo

FIRST_TRY_WAIT_S = 3.0
"""Seconds that an event waits for the first registration of its partitions; then they retry on their own."""


class Consumer(ConsumerBase):
    """Reads topics as a member of a group. Made by `Tube.consumer`; use it with `async with`."""

    def __init__(
        self, cluster: Cluster, metadata: MetadataClient, options: ConsumerOptions, *, kind: str = "Pull"
    ) -> None:
        super().__init__(cluster, metadata, options)
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
            self,
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
        new: list[PartitionConsumer] = []
        self.cluster.learn_brokers([info.broker for info in infos])
        for info in infos:
            if info.partition in self._partitions or info.partition.topic not in self.options.topics:
                continue
            offset = None if self._role is None else self._role.first_offset(info.partition)
            consumer = PartitionConsumer(self, info.partition, offset=offset)
            self._start(consumer)
            new.append(consumer)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FIRST_TRY_WAIT_S):
                await asyncio.gather(*(consumer.registration.tried.wait() for consumer in new))
        return tuple(sorted(consumer.partition for consumer in new))

    def _held_infos(self) -> Held:
        return [
            (BrokerInfo(partition.broker_id, consumer.address), partition)
            for partition, consumer in sorted(self._partitions.items())
        ]
