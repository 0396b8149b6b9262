"""A consumer's heartbeats to the Brokers that hold partitions for it.

The invariant: each Broker is told from time to time of all that it holds, in one request; what it does not know of any
more is registered again.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from pytubemq.client import asks
from pytubemq.errors import TransportError, TubeError
from pytubemq.model.limits import HEARTBEAT_PERIOD_S
from pytubemq.wire.messages.broker import HeartBeatResponseB2C
from pytubemq.wire.methods import Method
from pytubemq.wire.strings import parse_failure_info

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytubemq.client.held import HeldPartition
    from pytubemq.model.ids import Address, Partition

logger = logging.getLogger(__name__)


async def beat(who: asks.Asker, held: Mapping[Partition, HeldPartition]) -> None:
    """Tell the Brokers of what is `held` at the time, until cancelled."""
    while True:
        await asyncio.sleep(HEARTBEAT_PERIOD_S)
        by_broker: dict[Address, list[HeldPartition]] = {}
        for one in held.values():
            if one.registered:
                by_broker.setdefault(one.address, []).append(one)
        await asyncio.gather(*(_beat_one(who, address, members) for address, members in by_broker.items()))


async def _beat_one(who: asks.Asker, address: Address, members: list[HeldPartition]) -> None:
    try:
        answer = await who.cluster.ask_broker(
            await who.cluster.pool.get(address),
            asks.heartbeat(who, address, [one.partition for one in members]),
            HeartBeatResponseB2C,
            Method.CONSUMER_HEARTBEAT_C2B,
        )
    except TransportError as error:
        logger.info("heartbeat to the Broker at %s: %s", address, error.message)
        return  # each held partition sees by itself that its connection is gone
    except TubeError as error:
        logger.warning("heartbeat to the Broker at %s: %s", address, error.message)
        for one in members:
            one.registration_lost()
        return
    unknown = {parse_failure_info(text).partition for text in answer.failure_info if answer.has_part_failure}
    for one in members:
        if one.partition in unknown:
            one.registration_lost()
