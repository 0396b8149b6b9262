"""One fetch that is in flight.

The invariant: a fetch that is given up ends at once, and its failure is looked at, whoever waited for it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from pytubemq.client.session import requests
from pytubemq.errors import StaleBatchError
from pytubemq.wire.batch.fetch_batches import Pack
from pytubemq.wire.protocol.extensions import Capability
from pytubemq.wire.rpc.methods import Method, Service
from pytubemq.wire.serialization.message_bytes import encode

if TYPE_CHECKING:
    from pytubemq.client.options import FetchOptions
    from pytubemq.model.ids import Partition
    from pytubemq.net.client.connection import RpcConnection
    from pytubemq.wire.batch.fetch_batches import Fetched
    from pytubemq.wire.protocol.messages.broker import GetMessageResponseB2C
    from pytubemq.wire.rpc.envelope import Response


class Fetch(NamedTuple):
    """A fetch in flight."""

    response: asyncio.Future[Response]
    options: FetchOptions
    limits: bool
    """True if the Broker understands the limits of `options`."""
    began_s: float

    @classmethod
    def send(
        cls,
        who: requests.Requester,
        partition: Partition,
        connection: RpcConnection,
        options: FetchOptions,
        *,
        escapes: bool,
    ) -> Fetch:
        """Send a fetch."""
        limits = Capability.FETCH_LIMITS in connection.capabilities
        request = requests.fetch(who, partition, escapes=escapes, limits=options if limits else None)
        timeout_s = who.cluster.options.request_timeout_s + (options.max_wait_s if limits else 0.0)
        response = connection.call(Method.GET_MESSAGE_C2B, Service.BROKER_READ, encode(request), timeout_s=timeout_s)
        return cls(response, options, limits, asyncio.get_running_loop().time())

    def give_up(self) -> None:
        """End it: what it brings does not count, since the Broker hands that out again."""
        if not self.response.done():
            self.response.set_exception(StaleBatchError("the fetch was cancelled"))
        if not self.response.cancelled():
            self.response.exception()  # looked at, also when it had failed before anybody waited for it


def payload_bytes(fetched: Fetched[GetMessageResponseB2C]) -> int:
    """Return how many bytes of payload a fetch brought."""
    return sum([one.columns.payload_bytes if isinstance(one, Pack) else len(one.payload) for one in fetched.records])
