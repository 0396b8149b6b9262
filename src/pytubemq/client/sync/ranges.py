"""The way to a Broker's ranges, for those who read them over connections of their own.

The invariant: the Master is asked where the Broker is now, so a Broker that has moved is found again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.client.range_reads import RangeWay

if TYPE_CHECKING:
    from pytubemq.client.sync.tube import Tube
    from pytubemq.model.ids import Partition


def range_way(tube: Tube, partition: Partition, *, renew_token: bool = False) -> RangeWay:
    """Where the partition's Broker is, and what to show it.

    Args:
        tube: a connection to the cluster.
        partition: what is to be read.
        renew_token: hear the Master's newest visit token first, after a Broker has refused the one that was known.

    Raises:
        NotFoundError: the Master has no such topic.
        UnavailableError: the Broker has not registered.
        TransportError: no Master answers, and no address is known.
    """
    engine = tube._tube

    async def find() -> RangeWay:
        cluster, lookup = engine._open(), engine._asks()
        if renew_token:
            await lookup.renew_token(partition.topic)
        address = await lookup._address(partition.broker_id, partition.topic)
        return RangeWay(address, lookup.client_id, cluster.auth_info, cluster.options.request_timeout_s)

    return tube._open().run(find())
