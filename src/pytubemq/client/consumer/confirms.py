"""The confirms of one partition: sent one after the other, and retried where that is safe.

A confirm by offset whose Broker is away is sent again when the partition is registered there again; it ends when the
partition is taken away, the consumer closes, or after CONFIRM_RETRY_S. One that is refused for now (419, 503) is sent
again for as long as a request may take.

The invariants: one confirm of a partition is in flight at a time, and one that waits behind another which fails is not
sent at all; the next fetch is sent behind a confirm without waiting for its response only if the Broker takes confirms
by offset, on the connection and in the registration that the confirm was sent in, and while nothing else is ready for
the user: what comes later holds more.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from pytubemq.client.session import requests
from pytubemq.client.session.cluster_connection import check
from pytubemq.client.session.events import ConfirmFailed
from pytubemq.core.retry import Backoff
from pytubemq.errors import (
    Code,
    ConfigError,
    RefusedError,
    RequestTimeoutError,
    StaleBatchError,
    TransportError,
    TubeError,
)
from pytubemq.model.limits import CONFIRM_RETRY_S, WARNING_PERIOD_S
from pytubemq.wire.protocol.extensions import Capability
from pytubemq.wire.protocol.messages.broker import CommitOffsetResponseB2C
from pytubemq.wire.rpc.methods import Method, Service
from pytubemq.wire.serialization.message_bytes import decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytubemq.client.consumer.partition_owner import PartitionOwner
    from pytubemq.client.session.events import Event
    from pytubemq.core.retry import Rng
    from pytubemq.model.ids import Partition
    from pytubemq.net.client.connection import RpcConnection

logger = logging.getLogger(__name__)

REGISTRATION_LOST = (Code.HB_NO_NODE, Code.DUPLICATE_PARTITION, Code.CERTIFICATE_FAILURE, Code.UNAUTHORIZED)
"""Codes of a Broker that does not know the registration any more."""
REFUSED_FOR_NOW = (Code.SERVER_RECEIVE_OVERFLOW, Code.SERVICE_UNAVAILABLE)
RESEND_BACKOFF = Backoff(first_s=0.05, most_s=1.0)
"""Pause before a confirm that failed twice or more is sent again."""
REFETCH_BACKOFF = Backoff(first_s=0.1, most_s=5.0)
"""Pause before a batch is fetched again after its confirm failed."""


def ends_registration(connection: RpcConnection, code: int | None) -> bool:
    """True if a response with this code says that the registration is over.

    301 ends it only at a Broker with RESET_NOTICES, when somebody moves the group; else it is about an offset.
    """
    return code in REGISTRATION_LOST or (code == Code.MOVED and Capability.RESET_NOTICES in connection.capabilities)


def check_takes_parts(connection: RpcConnection, partition: Partition) -> None:
    """Check that the Broker confirms parts of a batch."""
    if Capability.COMMIT_OFFSET not in connection.capabilities:
        raise ConfigError(
            f"the Broker of {partition} takes no part of a batch", hint="confirm the whole batch, or reject it"
        )


class Confirm:
    """The confirm of one batch."""

    __slots__ = ("done", "end", "fetched_in", "messages", "sent_in", "start", "ticket")

    def __init__(self, ticket: int, *, start: int | None, end: int | None, messages: int, fetched_in: int) -> None:
        """`start`, `end`: its offsets, if the Broker reports them; `fetched_in`: the number of the registration it was
        fetched in."""
        self.ticket = ticket
        self.start = start
        self.end = end
        self.messages = messages
        self.fetched_in = fetched_in
        self.sent_in = 0
        """The number of the registration it was last sent in by offset; 0 if in none."""
        self.done = asyncio.Event()
        """Set when its outcome is known."""


class ConfirmingPartition(Protocol):
    """The part of a partition that its confirms need."""

    partition: Partition

    def is_settling(self, ticket: int) -> bool:
        """True if the confirm of this batch still counts."""
        ...

    def stale_error(self, ticket: int) -> StaleBatchError:
        """Return the error that says why a batch cannot be settled."""
        ...

    async def wait_registered(self) -> tuple[RpcConnection, int]:
        """Wait for a registration; return its connection and its number."""
        ...

    def follow_confirm(self, ticket: int) -> None:
        """Let the next fetch follow a confirm that was sent."""

    def record_confirm_response(self, response: CommitOffsetResponseB2C, *, by_offset: bool) -> None:
        """Record what the Broker says in the response to a confirm."""

    def lose_registration(self) -> None:
        """Register again: the Broker does not know the registration any more."""


class Confirms:
    """The confirms of one partition."""

    def __init__(self, owner: PartitionOwner, partition: ConfirmingPartition) -> None:
        self._owner = owner
        self._partition = partition
        self._under_way: Confirm | None = None

    @property
    def under_way(self) -> Confirm | None:
        """The confirm without an outcome; None if there is none."""
        return self._under_way

    def allows_fetch(self, registration: int) -> bool:
        """True if a fetch in this registration begins behind all that is being confirmed."""
        return self._under_way is None or self._under_way.sent_in == registration

    def blocks_fetch(self, start: int | None) -> bool:
        """True if a fetch that begins at `start` brought what is being confirmed; then none is sent before the outcome.

        The Broker has taken the confirm back, and its response is still to come.
        """
        one = self._under_way
        if one is None or one.end is None or start is None or start >= one.end:
            return False
        one.sent_in = 0
        return True

    async def wait_idle(self) -> None:
        """Wait until none is under way."""
        while self._under_way is not None:
            await self._under_way.done.wait()

    async def confirm(self, one: Confirm) -> None:
        """Send a confirm after the one in flight, and wait for its outcome.

        Raises:
            StaleBatchError: the batch is not held any more, perhaps since the one before it failed.
            TubeError: the Broker refuses, or cannot be reached.
        """
        await self.wait_idle()
        if not self._partition.is_settling(one.ticket):
            raise self._partition.stale_error(one.ticket)
        self._under_way = one
        try:
            await self._send_until_done(one)
        finally:
            self._under_way = None
            one.done.set()

    async def _send_until_done(self, one: Confirm) -> None:
        """Send a confirm until it succeeds, is refused for good, or is void."""
        partition, problem = self._partition.partition, None
        began_s, attempt = asyncio.get_running_loop().time(), 0
        try:
            async with asyncio.timeout(CONFIRM_RETRY_S):
                while True:
                    connection, registration = await self._partition.wait_registered()
                    if not self._partition.is_settling(one.ticket):  # its place was left meanwhile
                        raise self._partition.stale_error(one.ticket)
                    by_offset = one.end is not None and Capability.COMMIT_OFFSET in connection.capabilities
                    if one.fetched_in != registration and not by_offset:
                        raise _untracked_error(partition, "it registered again meanwhile")
                    try:
                        await self._send_once(one, connection, registration if by_offset else None)
                        return
                    except (TransportError, RefusedError) as error:
                        self._handle_failure(one, error, connection, by_offset=by_offset, began_s=began_s)
                        problem = error
                    attempt += 1
                    if attempt > 1:
                        await asyncio.sleep(RESEND_BACKOFF.delay_s(attempt - 1, self._owner.cluster.rng))
        except TimeoutError:
            raise RequestTimeoutError(
                f"the confirm of a batch of {partition} was not answered within {CONFIRM_RETRY_S:g} s; "
                "its messages may come again"
            ) from problem

    def _handle_failure(
        self, one: Confirm, error: TubeError, connection: RpcConnection, *, by_offset: bool, began_s: float
    ) -> None:
        """Prepare to send the confirm again, or raise the error if a retry is useless."""
        if isinstance(error, RefusedError) and not ends_registration(connection, error.code):
            refused_s = asyncio.get_running_loop().time() - began_s
            if (
                by_offset
                and error.code in REFUSED_FOR_NOW
                and refused_s < self._owner.cluster.options.request_timeout_s
            ):
                one.sent_in = 0  # the Broker has taken it back, so nothing is fetched behind it
                return
            raise error
        self._partition.lose_registration()
        if not by_offset:  # nobody knows whether it was taken, and it cannot be sent again
            raise _untracked_error(self._partition.partition, error.message) from error

    async def _send_once(self, one: Confirm, connection: RpcConnection, registration: int | None) -> None:
        """Send a confirm once; `registration`: its number, for a confirm by offset."""
        partition = self._partition
        request = requests.commit(self._owner, partition.partition, up_to=one.end if registration is not None else None)
        pending = connection.call(
            Method.CONSUMER_COMMIT_C2B,
            Service.BROKER_READ,
            encode(request),
            timeout_s=self._owner.cluster.options.request_timeout_s,
        )
        if registration is not None and (one.sent_in or not self._owner.has_ready):
            one.sent_in = registration
            partition.follow_confirm(one.ticket)
        response = decode(CommitOffsetResponseB2C, (await pending).body)
        check(response)
        partition.record_confirm_response(response, by_offset=registration is not None)


def _untracked_error(partition: Partition, why: str) -> StaleBatchError:
    """Return the error for a Broker that takes no confirms by offset and does not know the batch any more."""
    return StaleBatchError(f"the Broker of {partition} lost track of this batch ({why}); its messages come again")


class ConfirmBackoff:
    """The backoff before one partition fetches a batch again whose confirm failed.

    The invariants: the pause grows with each failure in a row up to its bound, and resets with a successful confirm.
    Each failure counts, but events and log lines come at most once a minute.
    """

    def __init__(self, partition: Partition, *, rng: Rng) -> None:
        self._partition = partition
        self._rng = rng
        self._failures = 0
        self._not_before_s = 0.0
        self._reported_s = float("-inf")

    def wait_s(self, now_s: float) -> float:
        """Return how long to wait before the next fetch."""
        return self._not_before_s - now_s if self._failures else 0.0

    def record_success(self) -> None:
        """Reset the backoff after a successful confirm."""
        self._failures = 0

    def record_failure(self, error: TubeError, *, messages: int, now_s: float, emit: Callable[[Event], None]) -> None:
        """Count a failure, and report it unless one was reported within WARNING_PERIOD_S."""
        self._failures += 1
        wait_s = REFETCH_BACKOFF.delay_s(self._failures, self._rng)
        self._not_before_s = now_s + wait_s
        if now_s - self._reported_s < WARNING_PERIOD_S:
            return
        self._reported_s = now_s
        logger.warning(
            "%s: the confirm of %d messages failed, they are fetched again in %.1f s (%d in a row): %s",
            self._partition, messages, wait_s, self._failures, error.message,
        )  # fmt: skip
        emit(ConfirmFailed(self._partition, messages, error, wait_s, self._failures))
