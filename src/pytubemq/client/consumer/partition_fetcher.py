"""The fetches of one partition: sent, received, unpacked, and what of them is not handed out yet.

The invariants: one fetch of a partition is in flight at a time; one that is given up ends at once, and its failure is
looked at, whoever waited for it; a fetch confirms nothing.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple

from pytubemq.client.consumer.fetch_throttle import FetchThrottle
from pytubemq.client.consumer.skip_report import SkipReport
from pytubemq.client.received.unpacker import LOST_THERE, Portions, Unpacked, Unpacker
from pytubemq.client.session import requests
from pytubemq.errors import StaleBatchError, TransportError, TubeError
from pytubemq.wire.batch.fetch_batches import FetchedBatch, decode_get_message
from pytubemq.wire.protocol.extensions import Capability
from pytubemq.wire.rpc.methods import Method, Service
from pytubemq.wire.serialization.message_bytes import encode

if TYPE_CHECKING:
    from pytubemq.client.consumer.partition_owner import PartitionOwner
    from pytubemq.client.options import FetchOptions
    from pytubemq.model.ids import Partition
    from pytubemq.net.client.connection import RpcConnection
    from pytubemq.wire.batch.fetch_batches import Fetched
    from pytubemq.wire.protocol.messages.broker import GetMessageResponseB2C
    from pytubemq.wire.rpc.envelope import Response

logger = logging.getLogger(__name__)


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


class PartitionFetcher:
    """Fetches the messages of one partition."""

    def __init__(self, owner: PartitionOwner, partition: Partition) -> None:
        self.in_flight: Fetch | None = None
        self.remaining: Portions | None = None
        """Fetched messages beyond the current batch."""
        self.fetched_in = 0
        """The number of the registration in which messages were last fetched."""
        self._owner = owner
        self._partition = partition
        self._filter = owner.options.filters.get(partition.topic)
        self._unpacker = Unpacker(partition, self._filter)
        self._throttle = FetchThrottle(partition, owner.options, owner.flow, owner.rates, rng=owner.cluster.rng)
        self._skip_report = SkipReport(owner, partition)
        self._last_start: int | None = None
        """The start of the last fetch, for Brokers whose responses have no offset of the next one."""

    def wait_s(self, now_s: float) -> float:
        """Return how long to wait before the next fetch."""
        return self._throttle.wait_s(now_s)

    def send(self, connection: RpcConnection, options: FetchOptions) -> None:
        """Send a fetch."""
        self.in_flight = Fetch.send(self._owner, self._partition, connection, options, escapes=self._throttle.escapes)

    def forget(self) -> None:
        """Drop fetched messages that were not handed out, and the fetch in flight; the Broker hands them out again."""
        self.remaining = None
        fetch, self.in_flight = self.in_flight, None
        if fetch is not None:
            fetch.give_up()

    async def receive(self, fetch: Fetch, *, expected: int | None) -> Fetched[GetMessageResponseB2C] | None:
        """Wait for the response to a fetch; return None if there is none, or it does not count any more.

        One that cannot be read is fetched again: our Brokers check what they send once more, and leave out what is
        damaged. `expected`: where the fetch was to begin.

        Raises:
            TransportError: the connection broke.
        """
        error: TubeError | None = None
        try:
            fetched = decode_get_message((await fetch.response).body)
        except TubeError as problem:
            error = problem
        if self.in_flight is not fetch:
            return None  # it was given up
        self.in_flight = None
        if isinstance(error, TransportError):
            raise error
        now_s = asyncio.get_running_loop().time()
        if error is not None:
            self._throttle.record_failure(error, expected, now_s, self._owner.emit)
            return None
        head = fetched.head
        self._throttle.record_response(
            head,
            messages=sum([one.columns.count if isinstance(one, FetchedBatch) else 1 for one in fetched.records]),
            size_bytes=payload_bytes(fetched) if self._throttle.counts_bytes else 0,
            held=fetch.limits and now_s - fetch.began_s >= fetch.options.max_wait_s / 2 > 0,
            now_s=now_s,
            emit=self._owner.emit,
        )
        self._skip_report.record_expired(head, now_s)
        return fetched

    def record_confirm(self, start: int | None, end: int | None) -> None:
        """Record that the Broker accepted the confirm of a batch."""
        self._throttle.record_confirm(start, end)

    def forget_confirms(self) -> None:
        """Forget what was confirmed: the user reads on elsewhere, maybe further back."""
        self._throttle.forget_confirms()

    def record_start(self, start: int | None, messages: int) -> None:
        """Record the start of a fetch that has messages; if they come again, count them and delay the next fetch."""
        if self._throttle.record_start(start, asyncio.get_running_loop().time(), self._owner.emit):
            self._owner.count(repeated=messages)

    def unpack(self, fetched: Fetched[GetMessageResponseB2C], *, expected: int | None) -> Unpacked:
        """Return the messages of a fetch, and report those that are lost; `expected`: where it was to begin."""
        head = fetched.head
        if head.next_offset is None and not self._filter:  # a Java Broker does not report expired messages
            self._skip_report.record_gap(expected, head, asyncio.get_running_loop().time())
        found = self._unpacker.read(fetched.records, fetched.damaged, start=head.curr_offset, end=head.next_offset)
        span = (None, None) if self._filter else (head.curr_offset, head.next_offset)
        skipped = found.left_out(*span)
        if skipped:
            bad = found.unreadable[0] if found.unreadable else LOST_THERE
            self._skip_report.record_lost(skipped, bad.reason, bad.offset, asyncio.get_running_loop().time())
        self._pace(head, len(found.messages), expected)
        return found

    def _pace(self, head: GetMessageResponseB2C, messages: int, expected: int | None) -> None:
        """Delay the next fetch if this one returned nothing and the next one begins at the same offset."""
        if head.next_offset is None:  # a Java Broker says only where each fetch begins
            moved, self._last_start = head.curr_offset != self._last_start, head.curr_offset
        else:
            moved = expected is None or head.next_offset > expected
        if messages or moved:
            self._throttle.record_progress()
        else:
            self._throttle.record_idle(asyncio.get_running_loop().time())


def payload_bytes(fetched: Fetched[GetMessageResponseB2C]) -> int:
    """Return how many bytes of payload a fetch brought."""
    return sum(
        [one.columns.payload_bytes if isinstance(one, FetchedBatch) else len(one.payload) for one in fetched.records]
    )
