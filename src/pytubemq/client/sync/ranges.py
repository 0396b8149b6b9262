"""The parameters to read ranges over connections of their own.

The invariant: the Master is asked for the Broker's address, so a Broker that has moved is found again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.client.reader.range_reads import RangeWay

if TYPE_CHECKING:
    from pytubemq.client.sync.tube import Tube
    from pytubemq.model.ids import Partition


def range_way(tube: Tube, partition: Partition, *, renew_token: bool = False) -> RangeWay:
    """Return the address of the partition's Broker and the parameters of requests to it.

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
        cluster, metadata = engine._open(), engine._open_metadata()
        if renew_token:
            await metadata.renew_token(partition.topic)
        address = await metadata._address(partition.broker_id, partition.topic)
        auth_info, options = cluster.auth_info_of(metadata.client_id), cluster.options
        return RangeWay(address, metadata.client_id, auth_info, options.request_timeout_s, options.tls)

    return tube._open().run(find())
