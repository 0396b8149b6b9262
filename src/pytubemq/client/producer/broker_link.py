"""A sender's connection to its Broker, and what it has learned of the Broker there.

The invariant: capabilities are those of the last connection with a response; the count of refusals begins with each
connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.client.producer.in_flight_window import RefusalCount
from pytubemq.wire.protocol.extensions import Capability

if TYPE_CHECKING:
    from pytubemq.client.session.cluster_connection import Cluster
    from pytubemq.model.ids import Address
    from pytubemq.net.client.connection import RpcConnection


class BrokerLink:
    """The connection of one sender, and the capabilities of its Broker."""

    def __init__(self, broker_id: int, cluster: Cluster, *, batching: bool) -> None:
        self.connection: RpcConnection | None = None
        """The latest connection, which may be closed."""
        self.refusals = RefusalCount()
        """Batches on this connection that the Broker refused for now."""
        self.takes_batches = False
        """True if the Broker takes record batches, according to its last response."""
        self.drops_duplicates: bool | None = None
        """True if the Broker detects duplicates by their sequence numbers; None until its first response."""
        self.sends_singly = False
        """True if each message is sent in a request of its own."""
        self._broker_id = broker_id
        self._cluster = cluster
        self._batching = batching
        self._learned: RpcConnection | None = None
        """The connection whose capabilities are in use."""

    @property
    def gathers(self) -> bool:
        """True if messages that may go to any partition are gathered for one partition at a time, because the Broker
        profits from it."""
        return self.takes_batches or bool(self.drops_duplicates)

    @property
    def is_lost(self) -> bool:
        """True if there was a connection and it is closed."""
        return self.connection is not None and self.connection.closed

    @property
    def address(self) -> Address | None:
        """The Broker's address, if it is known."""
        return self._cluster.brokers.get(self._broker_id)

    def knows(self, connection: RpcConnection) -> bool:
        """True if this connection is open and its capabilities are those in use."""
        return connection is self._learned and not connection.closed

    async def open(self) -> None:
        """Get a connection.

        Raises:
            TubeError: the Broker's address is not known, or it cannot be reached.
        """
        # Shared by all that talk to this Broker, so it may be one that another has opened.
        connection = await self._cluster.pool.get(self._cluster.address_of(self._broker_id))
        if connection is not self.connection:
            # The Broker counts by connection, from 0.
            self.connection, self.refusals = connection, RefusalCount()

    def learn(self, connection: RpcConnection) -> None:
        """Learn the Broker's capabilities from a connection that has received a response."""
        # A Broker may be another version after a restart, so each connection is learned anew.
        if connection is self._learned:
            return
        self._learned = connection
        can = connection.capabilities
        self.takes_batches = self._batching and Capability.PACKS in can
        self.sends_singly = not self.takes_batches
        self.drops_duplicates = Capability.IDEMPOTENT in can
