"""One fetch that is in flight.

The invariant: a fetch that is given up ends at once, and its failure is looked at, whoever waited for it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from pytubemq.client import asks
from pytubemq.errors import StaleBatchError
from pytubemq.wire.codec import encode
from pytubemq.wire.extensions import Capability
from pytubemq.wire.methods import Method, Service
from pytubemq.wire.pack_fetch import Pack

if TYPE_CHECKING:
    from pytubemq.client.options import FetchOptions
    from pytubemq.model.ids import Partition
    from pytubemq.net.connection import RpcConnection
    from pytubemq.wire.messages.broker import GetMessageResponseB2C
    from pytubemq.wire.pack_fetch import Fetched
    from pytubemq.wire.rpc import Response


class Fetch(NamedTuple):
    """A fetch in flight."""

    answer: asyncio.Future[Response]
    options: FetchOptions
    limits: bool
    """True if the Broker understands the limits of `options`."""
    began_s: float

    @classmethod
    def send(
        cls, who: asks.Asker, partition: Partition, connection: RpcConnection, options: FetchOptions, *, escapes: bool
    ) -> Fetch:
        """Send a fetch."""
        limits = Capability.FETCH_LIMITS in connection.capabilities
        request = asks.fetch(who, partition, escapes=escapes, limits=options if limits else None)
        timeout_s = who.cluster.options.request_timeout_s + (options.max_wait_s if limits else 0.0)
        answer = connection.call(Method.GET_MESSAGE_C2B, Service.BROKER_READ, encode(request), timeout_s=timeout_s)
        return cls(answer, options, limits, asyncio.get_running_loop().time())

    def give_up(self) -> None:
        """End it: what it brings does not count, since the Broker hands that out again."""
        if not self.answer.done():
            self.answer.set_exception(StaleBatchError("nobody wants this fetch any more"))
        if not self.answer.cancelled():
            self.answer.exception()  # looked at, also when it had failed before anybody waited for it


def payload_bytes(fetched: Fetched[GetMessageResponseB2C]) -> int:
    """Return how many bytes of payload a fetch brought."""
    return sum([one.columns.payload_bytes if isinstance(one, Pack) else len(one.payload) for one in fetched.records])
