"""The producers, consumers and readers of one connection, from their making to their end.

The invariants: each of them ends with its connection at the latest; closing is bounded in time, and a failure of one
leaves no other open.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from pytubemq.client.consumer.client_balance.consumer import BalanceConsumer
from pytubemq.client.consumer.consumer import Consumer
from pytubemq.client.producer.producer import Producer
from pytubemq.client.push.push_consumer import PushConsumer
from pytubemq.client.reader.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.client.options import (
        BalanceOptions,
        ConsumerOptions,
        Handler,
        ProducerOptions,
        PushOptions,
        ReaderOptions,
    )
    from pytubemq.client.session.cluster_connection import Cluster
    from pytubemq.client.session.metadata import MetadataClient

CLOSE_MARGIN_S: Final = 5.0
"""Seconds to close a client besides delivering its messages: for leaving the servers and the end of tasks."""


class Client(Protocol):
    """A producer, a consumer of any kind, a reader."""

    @property
    def ended(self) -> bool:
        """True if it was closed."""
        ...

    async def close(self) -> None:
        """Close it. Idempotent."""
        ...


C = TypeVar("C", bound=Client)


class OpenClients:
    """The clients of a `Tube` that have not ended."""

    def __init__(self, cluster: Cluster, metadata: MetadataClient) -> None:
        self._cluster = cluster
        self._metadata = metadata
        self._open: list[Client] = []
        self._close_within_s = 0.0
        """The longest time that any of them has for closing."""

    def producer(self, options: ProducerOptions) -> Producer:
        """Return a new producer."""
        producer = Producer(self._cluster, options.topic, options)
        return self._add(producer, close_timeout_s=options.close_timeout_s)

    def consumer(self, options: ConsumerOptions) -> Consumer:
        """Return a new consumer of a group that the Master balances."""
        consumer = Consumer(self._cluster, self._metadata, options)
        return self._add(consumer, close_timeout_s=options.close_timeout_s)

    def push_consumer(self, options: PushOptions, *, handler: Handler) -> PushConsumer:
        """Return a new consumer that calls `handler`."""
        pulling = Consumer(self._cluster, self._metadata, options.consumer, kind="Push")
        consumer = PushConsumer(pulling, handler, options)
        return self._add(consumer, close_timeout_s=options.consumer.close_timeout_s)

    def balance_consumer(self, options: BalanceOptions) -> BalanceConsumer:
        """Return a new consumer that chooses its partitions itself."""
        consumer = BalanceConsumer(self._cluster, self._metadata, options)
        return self._add(consumer, close_timeout_s=options.close_timeout_s)

    def reader(self, options: ReaderOptions) -> Reader:
        """Return a new reader of a range."""
        return self._add(Reader(self._cluster, self._metadata, options), close_timeout_s=0.0)

    async def close(self) -> Sequence[BaseException]:
        """Close all clients at once; return the failures. Clients that take too long are left open."""
        clients, self._open = self._open, []
        ended: Sequence[BaseException | None] = ()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._close_within_s + CLOSE_MARGIN_S):
                ended = await asyncio.gather(*(one.close() for one in clients), return_exceptions=True)
        return [error for error in ended if error is not None]

    def _add(self, client: C, *, close_timeout_s: float) -> C:
        """Add a client, and the time that it may take to close."""
        self._close_within_s = max(self._close_within_s, close_timeout_s)
        self._open = [one for one in self._open if not one.ended]
        self._open.append(client)
        return client
