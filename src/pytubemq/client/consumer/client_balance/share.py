"""The default assignment of a self-balancing group: each node connects to its share of the partitions.

The invariants: it connects only to partitions that the Master has just reported as consumable; a Broker or topic that
is away for a while moves nothing to another node; errors that are not transient are raised.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from pytubemq.core.retry import Backoff, Verdict, verdict
from pytubemq.core.share import Moves, next_moves
from pytubemq.errors import BadRequestError, ClosedError, ConfigError, RefusedError, RemoteError, TubeError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytubemq.client.options import BalanceOptions
    from pytubemq.client.session.cluster_connection import Cluster
    from pytubemq.model.ids import Partition

logger = logging.getLogger(__name__)

MAX_CONCURRENT_CONNECTS = 64
"""Partitions that are connected at the same time."""
RETRY = Backoff(first_s=0.25, most_s=5.0)


class SharingConsumer(Protocol):
    """A consumer that connects to partitions when it is asked to."""

    cluster: Cluster
    options: BalanceOptions

    @property
    def node_id(self) -> int | None:
        """The number of this member; None if it has none."""
        ...

    @property
    def source_count(self) -> int | None:
        """The number of members; None if they have no numbers."""
        ...

    @property
    def meta_check_s(self) -> float:
        """The period in seconds in which the Master is asked for partitions."""
        ...

    @property
    def connected(self) -> frozenset[Partition]:
        """The partitions that are connected."""
        ...

    async def partition_meta(self) -> Mapping[Partition, bool]:
        """Return the partitions, each with True if it can be consumed now."""
        ...

    async def connect(self, partition: Partition) -> None:
        """Connect to a partition."""

    async def disconnect(self, partition: Partition) -> None:
        """Give a partition back."""

    async def wait_for_news(self, timeout_s: float) -> None:
        """Wait until the partitions may have changed, for at most this long."""

    def record_share(self, gained: tuple[Partition, ...], given: tuple[Partition, ...], *, complete: bool) -> None:
        """Record the changes of a round; `complete` if all that can be consumed is connected."""


async def keep_share(consumer: SharingConsumer) -> None:
    """Keep the share of `consumer.node_id` connected until the consumer is closed or this is cancelled.

    A consumer does this on its own unless it was made with `manual=True`.

    Raises:
        ConfigError: the consumer has no number.
        TubeError: something went wrong that does not pass on its own.
    """
    node_id, source_count = consumer.node_id, consumer.source_count
    if node_id is None or source_count is None:
        raise ConfigError("a consumer without node_id has no share", hint="make it with node_id= and source_count=")
    failed = 0
    while True:
        try:
            meta = await consumer.partition_meta()
            complete = await _apply_moves(
                consumer, next_moves(meta, consumer.connected, source_count=source_count, node_id=node_id)
            )
        except ClosedError:
            return
        except TubeError as error:
            if not _is_transient(error):
                raise
            logger.info("%s: %s", consumer.options.group, error.message)
            complete = False
        failed = 0 if complete else failed + 1
        period_s = consumer.meta_check_s
        await consumer.wait_for_news(
            period_s if complete else min(period_s, RETRY.delay_s(failed, consumer.cluster.rng))
        )


async def _apply_moves(consumer: SharingConsumer, moves: Moves) -> bool:
    """Disconnect and connect; return True if all of it succeeded."""
    await asyncio.gather(*(consumer.disconnect(partition) for partition in moves.release))
    room = asyncio.Semaphore(MAX_CONCURRENT_CONNECTS)

    async def connect(partition: Partition) -> bool:
        async with room:
            return await _connect(consumer, partition)

    connected = await asyncio.gather(*(connect(partition) for partition in moves.connect))
    gained = tuple(partition for partition, done in zip(moves.connect, connected, strict=True) if done)
    consumer.record_share(gained, moves.release, complete=all(connected))
    return all(connected)


async def _connect(consumer: SharingConsumer, partition: Partition) -> bool:
    try:
        await consumer.connect(partition)
    except TubeError as error:
        if isinstance(error, BadRequestError) or not (isinstance(error, RefusedError) or _is_transient(error)):
            raise
        level = logging.WARNING if isinstance(error, RemoteError) else logging.INFO
        logger.log(level, "%s: cannot connect to %s yet: %s", consumer.options.group, partition, error.message)
        return False
    return True


def _is_transient(error: TubeError) -> bool:
    # a server that is about to stop, or has just begun, answers with exceptions
    return isinstance(error, RemoteError) or verdict(error) is not Verdict.GIVE_UP
