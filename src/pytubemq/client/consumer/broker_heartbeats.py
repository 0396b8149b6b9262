"""A consumer's heartbeats to the Brokers of its partitions.

The invariants: each Broker gets periodic heartbeats for all its registered partitions, in requests within the Broker's
bounds; a registration is lost only where the response says so: for a partition that it names, or for all of a request
that is refused with a code that means it. Any other failure loses nothing.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from pytubemq.client.consumer.confirms import REGISTRATION_LOST
from pytubemq.client.session import requests
from pytubemq.client.session.cluster_connection import is_refusal
from pytubemq.errors import FormatError, TransportError, TubeError
from pytubemq.model.ids import BrokerInfo
from pytubemq.model.limits import HEARTBEAT_PERIOD_S, MAX_HEARTBEAT_BYTES, MAX_HEARTBEAT_PARTITIONS
from pytubemq.wire.protocol.messages.broker import HeartBeatResponseB2C
from pytubemq.wire.rpc.methods import Method
from pytubemq.wire.text.partition_strings import PartitionInfo, format_partition_info, parse_failure_info

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pytubemq.client.consumer.partition_consumer import PartitionConsumer
    from pytubemq.model.ids import Address, Partition

logger = logging.getLogger(__name__)

_ITEM_BYTES = 4
"""Bytes of one text in a request besides its characters (names are ASCII): its tag and length."""


async def send_heartbeats(who: requests.Requester, held: Mapping[Partition, PartitionConsumer]) -> None:
    """Send heartbeats for these partitions to their Brokers, periodically until cancelled."""
    heartbeats = BrokerHeartbeats(who)
    while True:
        await asyncio.sleep(HEARTBEAT_PERIOD_S)
        by_broker: dict[Address, list[PartitionConsumer]] = {}
        for one in held.values():
            if one.registered:
                by_broker.setdefault(one.address, []).append(one)
        await asyncio.gather(*(heartbeats.send(address, members) for address, members in by_broker.items()))


class BrokerHeartbeats:
    """The heartbeats of one consumer."""

    def __init__(self, who: requests.Requester) -> None:
        self._who = who
        self._problems: dict[Address, str] = {}
        """Reasons why the last heartbeat to a Broker failed; logged once, not every period."""

    async def send(self, address: Address, members: list[PartitionConsumer]) -> None:
        """Send heartbeats for these partitions to their Broker, in as many requests as its limits need."""
        problem: str | None = None
        for texts, part in _parts(address, members):
            problem = await self._send_part(address, texts, part) or problem
        if problem is None:
            self._problems.pop(address, None)
        elif self._problems.get(address) != problem:
            self._problems[address] = problem
            logger.warning("heartbeat to the Broker at %s: %s", address, problem)

    async def _send_part(self, address: Address, texts: list[str], members: list[PartitionConsumer]) -> str | None:
        """Send one request; return what is wrong with its response, None if nothing is."""
        cluster = self._who.cluster
        try:
            response = await cluster.call_broker(
                await cluster.pool.get(address),
                requests.heartbeat(self._who, texts),
                HeartBeatResponseB2C,
                Method.CONSUMER_HEARTBEAT_C2B,
            )
        except TransportError as error:
            logger.info("heartbeat to the Broker at %s: %s", address, error.message)
            return None  # each held partition notices on its own that its connection is gone
        except TubeError as error:
            if is_refusal(error, *REGISTRATION_LOST):
                for one in members:
                    one.lose_registration()
            return error.message
        unknown, problem = _read_failures(response.failure_info if response.has_part_failure else ())
        for one in members:
            if one.partition in unknown:
                one.lose_registration()
        return problem


def _parts(address: Address, members: list[PartitionConsumer]) -> Iterator[tuple[list[str], list[PartitionConsumer]]]:
    """Yield the partitions of one Broker in groups that fit one request, each with its texts."""
    texts: list[str] = []
    part: list[PartitionConsumer] = []
    size_bytes = 0
    for one in members:
        text = format_partition_info(PartitionInfo(BrokerInfo(one.partition.broker_id, address), one.partition))
        if part and (len(part) >= MAX_HEARTBEAT_PARTITIONS or size_bytes + len(text) > MAX_HEARTBEAT_BYTES):
            yield texts, part
            texts, part, size_bytes = [], [], 0
        texts.append(text)
        part.append(one)
        size_bytes += len(text) + _ITEM_BYTES
    if part:
        yield texts, part


def _read_failures(failures: Iterable[str]) -> tuple[set[Partition], str | None]:
    """Return the partitions that a response names as failed, and the error of an entry that cannot be read."""
    found: set[Partition] = set()
    problem: str | None = None
    for text in failures:
        try:
            found.add(parse_failure_info(text).partition)
        except FormatError as error:
            problem = error.message
    return found, problem
