"""The metadata in memory, written through to the store.

The invariant: what is read here is durable, for memory follows only after the store has answered. The store blocks
(a flush takes milliseconds), so it is called on one thread of its own, which also puts the writes in order.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from pytubemq.storage.metastore.port import BrokerRecord, ClusterSettings, MetaStore, TopicRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytubemq.model.topic import TopicConfig
    from pytubemq.net.clock import Clock

T = TypeVar("T")


class Catalogue:
    """Brokers, topics and settings. `broker_checksum` tells clients whether their list of Brokers is current."""

    def __init__(self, clock: Clock) -> None:
        self.brokers: dict[int, BrokerRecord] = {}
        self.topics: dict[str, TopicRecord] = {}
        self.settings = ClusterSettings()
        self.broker_checksum = clock.wall_ms()
        self._clock = clock
        self._store: MetaStore | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="metastore")

    async def open(self, make: Callable[[], MetaStore]) -> None:
        """Open the store and read all of it."""
        self._store = await self._run(make)
        store = self._store
        self.brokers = {broker.broker_id: broker for broker in await self._run(store.brokers)}
        self.topics = {topic.name: topic for topic in await self._run(store.topics)}
        self.settings = await self._run(store.settings)

    async def close(self) -> None:
        """Close the store. Idempotent."""
        store, self._store = self._store, None
        if store is not None:
            await self._run(store.close)
        self._thread.shutdown(wait=False)

    async def put_broker(self, broker: BrokerRecord) -> BrokerRecord:
        """Add or change a Broker; clients get the list anew."""
        stored = await self._write(lambda store, now_ms: store.put_broker(broker, now_ms=now_ms))
        self.brokers[stored.broker_id] = stored
        self.broker_checksum = max(self._clock.wall_ms(), self.broker_checksum + 10)
        return stored

    async def create_topic(self, topic: TopicRecord) -> TopicRecord:
        """Add a topic. Raises what `MetaStore.create_topic` does."""
        stored = await self._write(lambda store, now_ms: store.create_topic(topic, now_ms=now_ms))
        self.topics[stored.name] = stored
        return stored

    async def deploy_topic(self, name: str, deploys: list[tuple[int, TopicConfig]]) -> TopicRecord:
        """Change a topic on some Brokers. Raises what `MetaStore.deploy_topic` does."""
        stored = await self._write(lambda store, now_ms: store.deploy_topic(name, deploys, now_ms=now_ms))
        self.topics[stored.name] = stored
        return stored

    def deployed_on(self, broker_id: int) -> list[TopicConfig]:
        """The topics that a Broker must carry, by name."""
        return [topic.deploys[broker_id] for _, topic in sorted(self.topics.items()) if broker_id in topic.deploys]

    async def _write(self, change: Callable[[MetaStore, int], T]) -> T:
        store = self._store
        if store is None:
            raise RuntimeError("the catalogue is closed")
        now_ms = self._clock.wall_ms()
        return await self._run(lambda: change(store, now_ms))

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)
