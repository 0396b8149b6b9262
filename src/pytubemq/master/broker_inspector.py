"""Queries over RPC for what only Brokers know: ends of partitions and positions of groups.

The invariants: a Broker that does not respond, or does not know the request, is named in the result and spoils
nothing else; the number of concurrent requests and the time for each are bounded.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

from pytubemq.errors import Code, TubeError
from pytubemq.model.ids import Address, Partition
from pytubemq.model.limits import (
    INSPECT_TIMEOUT_S,
    INSPECTED_SLICE,
    MAX_INSPECTED_AT_ONCE,
    MAX_INSPECTED_PER_REQUEST,
)
from pytubemq.net.client.probe import probed
from pytubemq.wire.protocol.extensions import Capability
from pytubemq.wire.protocol.messages.extension import PartitionOffsetsRequest, PartitionOffsetsResponse, TopicPartition
from pytubemq.wire.rpc.methods import Method, Service
from pytubemq.wire.serialization.message_bytes import decode_all_apart, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pytubemq.net.client.pool import ConnectionPool
    from pytubemq.wire.protocol.messages.broker import AuthorizedInfo
    from pytubemq.wire.protocol.messages.extension import GroupPosition, PartitionEnds
    from pytubemq.wire.serialization.message_bytes import Values

CLIENT_ID = "master-inspect"


@dataclass(slots=True)
class InspectedOffsets:
    """Ends (min, max) by partition, confirmed offsets by group and partition, and the Brokers left out."""

    ends: dict[Partition, tuple[int, int]] = field(default_factory=dict)
    confirmed: dict[str, dict[Partition, int]] = field(default_factory=dict)
    unreachable: list[str] = field(default_factory=list)
    unsupported: list[str] = field(default_factory=list)
    """Brokers of the original: they respond, but do not support this request over RPC."""


class BrokerInspector:
    """The Master's queries to Brokers."""

    def __init__(
        self,
        pool: ConnectionPool,
        *,
        timeout_s: float = INSPECT_TIMEOUT_S,
        tokens: Callable[[str], AuthorizedInfo | None] = lambda client_id: None,
    ) -> None:
        self._pool = pool
        self._tokens = tokens
        self._timeout_s = timeout_s
        self._slots = asyncio.Semaphore(MAX_INSPECTED_AT_ONCE)

    async def offsets(
        self,
        brokers: Mapping[int, Address],
        *,
        partitions: Iterable[Partition] | None = None,
        groups: Sequence[str] = (),
        all_groups: bool = False,
        in_parts: Callable[[int], Iterable[TopicPartition]] | None = None,
    ) -> InspectedOffsets:
        """Query some Brokers, for some of their partitions (None: all of them), and for groups.

        A Broker that keeps more positions of the groups than one response holds is queried again for its partitions,
        which `in_parts` returns: half of them at a time, and so on.
        """
        wanted: dict[int, list[TopicPartition]] | None = None
        if partitions is not None:
            wanted = {}
            for partition in partitions:
                wanted.setdefault(partition.broker_id, []).append(
                    TopicPartition(topic_name=partition.topic, partition_id=partition.partition_id)
                )
        found = InspectedOffsets()
        broker_ids = [broker_id for broker_id in sorted(brokers) if wanted is None or broker_id in wanted]
        await asyncio.gather(
            *(
                self._request_in_parts(
                    found,
                    broker_id,
                    brokers[broker_id],
                    PartitionOffsetsRequest(
                        client_id=CLIENT_ID,
                        partitions=() if wanted is None else tuple(wanted[broker_id]),
                        group_names=tuple(groups),
                        all_groups=all_groups or None,
                    ),
                    in_parts,
                )
                for broker_id in broker_ids
            )
        )
        found.unreachable.sort()
        found.unsupported.sort()
        return found

    async def _request_in_parts(
        self,
        found: InspectedOffsets,
        broker_id: int,
        address: Address,
        request: PartitionOffsetsRequest,
        in_parts: Callable[[int], Iterable[TopicPartition]] | None,
    ) -> None:
        """Query so many partitions at a time that each response comes within the time for one request."""
        left = iter(() if in_parts is None or request.partitions else in_parts(broker_id))
        part = tuple(islice(left, MAX_INSPECTED_PER_REQUEST))
        following = tuple(islice(left, MAX_INSPECTED_PER_REQUEST))
        if not following:
            await self._request(found, broker_id, address, request, in_parts)
            return
        while part:
            if not await self._request(found, broker_id, address, replace(request, partitions=part), in_parts):
                return
            part, following = following, tuple(islice(left, MAX_INSPECTED_PER_REQUEST))

    async def _request(
        self,
        found: InspectedOffsets,
        broker_id: int,
        address: Address,
        request: PartitionOffsetsRequest,
        in_parts: Callable[[int], Iterable[TopicPartition]] | None,
    ) -> bool:
        """Send one request, or two for the halves where that is too much; return True if the Broker responded."""
        try:
            async with self._slots, asyncio.timeout(self._timeout_s):
                connection = await probed(self._pool, address, client_id=CLIENT_ID, timeout_s=self._timeout_s)
                if Capability.PARTITION_OFFSETS not in connection.capabilities:
                    found.unsupported.append(
                        f"broker {broker_id} at {address} is not a pytubemq Broker: "
                        "its own page shows the offsets (/broker.htm?method=admin_query_offset)"
                    )
                    return False
                received = await connection.call(
                    Method.PARTITION_OFFSETS,
                    Service.BROKER_READ,
                    encode(replace(request, auth_info=self._tokens(CLIENT_ID))),
                    timeout_s=self._timeout_s,
                )
            response, (ends, positions) = decode_all_apart(
                PartitionOffsetsResponse, received.body, ("partitions", "groups")
            )
        except (TubeError, TimeoutError) as error:
            reason = str(error).splitlines()[0] if str(error) else f"no response within {self._timeout_s:g} s"
            found.unreachable.append(f"broker {broker_id} at {address}: {reason}")
            return False
        if not response.success and response.err_code == Code.BAD_REQUEST and in_parts is not None:
            parts = request.partitions or tuple(in_parts(broker_id))
            if len(parts) > 1:
                half = (len(parts) + 1) // 2
                for part in (parts[:half], parts[half:]):
                    if not await self._request(found, broker_id, address, replace(request, partitions=part), in_parts):
                        return False
                return True
        if not response.success:
            found.unreachable.append(f"broker {broker_id} at {address}: {response.err_msg}")
            return False
        await _read(found, broker_id, ends, positions)
        return True


async def _read(
    found: InspectedOffsets, broker_id: int, ends: Values[PartitionEnds], positions: Values[GroupPosition]
) -> None:
    """Read a Broker's response in slices between which the loop runs."""
    for some_ends in ends.slices(INSPECTED_SLICE):
        for end in some_ends:
            partition = Partition(broker_id, end.topic_name, end.partition_id)
            found.ends[partition] = (end.min_offset, end.max_offset)
        await asyncio.sleep(0)
    for some_positions in positions.slices(INSPECTED_SLICE):
        for position in some_positions:
            partition = Partition(broker_id, position.topic_name, position.partition_id)
            found.confirmed.setdefault(position.group_name, {})[partition] = position.confirmed_offset
        await asyncio.sleep(0)
