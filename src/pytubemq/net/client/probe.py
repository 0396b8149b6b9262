"""Connections whose peers' capabilities are known before any extension of the protocol is used.

The invariant: an extension method is never the first request on a connection. A new one learns its peer's capabilities
from its first response, so a heartbeat for no partition goes first: every Broker, also the original's,
responds to it and does nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.errors import TransportError, TubeError
from pytubemq.wire.protocol.messages.broker import AuthorizedInfo, HeartBeatRequestC2B, HeartBeatResponseB2C
from pytubemq.wire.rpc.methods import Method, Service

if TYPE_CHECKING:
    from pytubemq.model.ids import Address
    from pytubemq.net.client.connection import RpcConnection
    from pytubemq.net.client.pool import ConnectionPool

PROBE_GROUP = "pytubemq-probe"


async def probed(
    pool: ConnectionPool,
    broker: Address,
    *,
    client_id: str,
    timeout_s: float,
    auth_info: AuthorizedInfo | None = None,
) -> RpcConnection:
    """Return a live connection to a Broker whose capabilities are known.

    Raises:
        TransportError: the Broker cannot be reached, or does not respond.
    """
    connection = await pool.get(broker)
    if not connection.knows_capabilities:
        try:
            await connection.request(
                HeartBeatRequestC2B(client_id=client_id, group_name=PROBE_GROUP, read_status=0, auth_info=auth_info),
                HeartBeatResponseB2C,
                Method.CONSUMER_HEARTBEAT_C2B,
                Service.BROKER_READ,
                timeout_s=timeout_s,
            )
        except TransportError:
            raise
        except TubeError:
            if not connection.knows_capabilities:
                raise
    return connection
