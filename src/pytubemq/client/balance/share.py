"""Keeps a node's share of the partitions held: the decider for members that have nothing better to go by.

The invariants: only what the Master says can be consumed is connected to, and asked for just before; a Broker or topic
that is away for a while moves nothing to another node; what cannot mend by itself is raised.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from pytubemq.core.retry import Backoff, Verdict, verdict
from pytubemq.core.share import Moves, next_moves
from pytubemq.errors import BadRequestError, ClosedError, ConfigError, RefusedError, RemoteError, TubeError

if TYPE_CHECKING:
    from pytubemq.client.balance.consumer import BalanceConsumer
    from pytubemq.model.ids import Partition

logger = logging.getLogger(__name__)

AT_ONCE = 64
"""Partitions that are connected to at the same time."""
RETRY = Backoff(first_s=0.25, most_s=5.0)


async def keep_share(consumer: BalanceConsumer) -> None:
    """Keep the share of `consumer.node_id` connected until the consumer is closed or this is cancelled.

    A consumer does this by itself unless it was made with `manual=True`.

    Raises:
        ConfigError: the consumer has no number.
        TubeError: something went wrong that does not mend by itself.
    """
    node_id, source_count = consumer.node_id, consumer.source_count
    if node_id is None or source_count is None:
        raise ConfigError("a consumer without node_id has no share", hint="make it with node_id= and source_count=")
    failed = 0
    while True:
        try:
            meta = await consumer.partition_meta()
            complete = await _take(
                consumer, next_moves(meta, consumer.holds, source_count=source_count, node_id=node_id)
            )
        except ClosedError:
            return
        except TubeError as error:
            if not _may_mend(error):
                raise
            logger.info("%s: %s", consumer.options.group, error.message)
            complete = False
        failed = 0 if complete else failed + 1
        period_s = consumer.meta_check_s
        await consumer.news(period_s if complete else min(period_s, RETRY.delay_s(failed, consumer.cluster.rng)))


async def _take(consumer: BalanceConsumer, moves: Moves) -> bool:
    """Give back and connect; whether all of it worked."""
    await asyncio.gather(*(consumer.disconnect(partition) for partition in moves.release))
    room = asyncio.Semaphore(AT_ONCE)

    async def connect(partition: Partition) -> bool:
        async with room:
            return await _connect(consumer, partition)

    taken = await asyncio.gather(*(connect(partition) for partition in moves.connect))
    gained = tuple(partition for partition, done in zip(moves.connect, taken, strict=True) if done)
    consumer.took_share(gained, moves.release, complete=all(taken))
    return all(taken)


async def _connect(consumer: BalanceConsumer, partition: Partition) -> bool:
    try:
        await consumer.connect(partition)
    except TubeError as error:
        if isinstance(error, BadRequestError) or not (isinstance(error, RefusedError) or _may_mend(error)):
            raise
        level = logging.WARNING if isinstance(error, RemoteError) else logging.INFO
        logger.log(level, "%s: %s is not ours yet: %s", consumer.options.group, partition, error.message)
        return False
    return True


def _may_mend(error: TubeError) -> bool:
    # a server that is about to stop, or has just begun, answers with exceptions
    return isinstance(error, RemoteError) or verdict(error) is not Verdict.GIVE_UP
