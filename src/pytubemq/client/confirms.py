"""The confirms of one held partition: sent one after the other, and again where that is safe.

A confirm by offset whose Broker is away is sent again when the partition is registered there again; it ends when the
partition is taken away, the consumer closes, or after CONFIRM_RETRY_S. One that is refused for now (419, 503) is sent
again for as long as a request may take.

The invariants: one confirm of a partition is under way at a time, and one that waits behind another which fails is not
sent at all; the next fetch leaves behind a confirm without waiting for its answer only where the Broker takes confirms
by offset, on the connection and in the registration that the confirm was sent in, and while nothing else is ready for
the user: what comes later holds more.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pytubemq.client import asks
from pytubemq.client.cluster import check
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
from pytubemq.model.limits import CONFIRM_RETRY_S
from pytubemq.wire.codec import decode, encode
from pytubemq.wire.extensions import Capability
from pytubemq.wire.messages.broker import CommitOffsetResponseB2C
from pytubemq.wire.methods import Method, Service

if TYPE_CHECKING:
    from pytubemq.client.held import HeldPartition
    from pytubemq.client.keeping import Keeper
    from pytubemq.model.ids import Partition
    from pytubemq.net.connection import RpcConnection

LOST = (Code.HB_NO_NODE, Code.DUPLICATE_PARTITION, Code.CERTIFICATE_FAILURE, Code.UNAUTHORIZED)
"""What a Broker answers that does not know the registration any more."""
REFUSED_FOR_NOW = (Code.SERVER_RECEIVE_OVERFLOW, Code.SERVICE_UNAVAILABLE)
BACKOFF = Backoff(first_s=0.05, most_s=1.0)
"""Pause before a confirm that failed twice or more is sent again."""


def ends_registration(connection: RpcConnection, code: int | None) -> bool:
    """True if a response with this code says that the registration is over.

    301 ends it only at a Broker with RESET_NOTICES, when somebody moves the group; else it is about an offset.
    """
    return code in LOST or (code == Code.MOVED and Capability.RESET_NOTICES in connection.capabilities)


def check_takes_parts(connection: RpcConnection, partition: Partition) -> None:
    """Refuse to confirm a part of a batch at a Broker that confirms whole ones only."""
    if Capability.COMMIT_OFFSET not in connection.capabilities:
        raise ConfigError(
            f"the Broker of {partition} takes no part of a batch", hint="confirm the whole batch, or reject it"
        )


class Confirm:
    """A batch that its user has handled."""

    __slots__ = ("end", "fetched_in", "messages", "over", "sent_in", "ticket")

    def __init__(self, ticket: int, *, end: int | None, messages: int, fetched_in: int) -> None:
        """`end`: where it ends, if the Broker tells; `fetched_in`: the number of the registration it came in."""
        self.ticket = ticket
        self.end = end
        self.messages = messages
        self.fetched_in = fetched_in
        self.sent_in = 0
        """The number of the registration it was last sent in by offset; 0: in none."""
        self.over = asyncio.Event()
        """Its outcome is known."""


class Confirms:
    """Asks the Broker to confirm."""

    def __init__(self, keeper: Keeper, held: HeldPartition) -> None:
        self._keeper = keeper
        self._held = held
        self._under_way: Confirm | None = None

    @property
    def under_way(self) -> Confirm | None:
        """The one that was sent last and has no outcome yet."""
        return self._under_way

    def let_fetch(self, registration: int) -> bool:
        """Whether a fetch in this registration begins behind all that is being confirmed."""
        return self._under_way is None or self._under_way.sent_in == registration

    def hold_fetches(self, start: int | None) -> bool:
        """Whether a fetch that begins at `start` brought what is being confirmed: then none leaves before its outcome.

        The Broker has taken the confirm back, and its answer is still to come.
        """
        one = self._under_way
        if one is None or one.end is None or start is None or start >= one.end:
            return False
        one.sent_in = 0
        return True

    async def over(self) -> None:
        """Wait until none is under way."""
        while self._under_way is not None:
            await self._under_way.over.wait()

    async def make(self, one: Confirm) -> None:
        """Have the Broker note a confirm, behind the one that is under way.

        Raises:
            StaleBatchError: the batch is not held any more, perhaps since the one before it failed.
            TubeError: the Broker refuses, or cannot be told.
        """
        await self.over()
        if not self._held.settles(one.ticket):
            raise self._held.stale(one.ticket)
        self._under_way = one
        try:
            await self._ask(one)
        finally:
            self._under_way = None
            one.over.set()

    async def _ask(self, one: Confirm) -> None:
        """Send a confirm until it succeeds, is refused for good, or is void."""
        partition, problem = self._held.partition, None
        began_s, attempt = asyncio.get_running_loop().time(), 0
        try:
            async with asyncio.timeout(CONFIRM_RETRY_S):
                while True:
                    connection, registration = await self._held.for_confirm()
                    if not self._held.settles(one.ticket):  # its place was left meanwhile
                        raise self._held.stale(one.ticket)
                    by_offset = one.end is not None and Capability.COMMIT_OFFSET in connection.capabilities
                    if one.fetched_in != registration and not by_offset:
                        raise _untracked(partition, "it was registered anew meanwhile")
                    try:
                        await self._ask_once(one, connection, registration if by_offset else None)
                        return
                    except (TransportError, RefusedError) as error:
                        self._failed(one, error, connection, by_offset=by_offset, began_s=began_s)
                        problem = error
                    attempt += 1
                    if attempt > 1:
                        await asyncio.sleep(BACKOFF.delay_s(attempt - 1, self._keeper.cluster.rng))
        except TimeoutError:
            raise RequestTimeoutError(
                f"the confirm of a batch of {partition} was not answered within {CONFIRM_RETRY_S:g} s; "
                "its messages may come again"
            ) from problem

    def _failed(
        self, one: Confirm, error: TubeError, connection: RpcConnection, *, by_offset: bool, began_s: float
    ) -> None:
        """Prepare to send the confirm again, or raise the error if a retry is useless."""
        if isinstance(error, RefusedError) and not ends_registration(connection, error.code):
            refused_s = asyncio.get_running_loop().time() - began_s
            if (
                by_offset
                and error.code in REFUSED_FOR_NOW
                and refused_s < self._keeper.cluster.options.request_timeout_s
            ):
                one.sent_in = 0  # the Broker has taken it back, so nothing is fetched behind it
                return
            raise error
        self._held.registration_lost()
        if not by_offset:  # nobody knows whether it was taken, and it cannot be sent again
            raise _untracked(self._held.partition, error.message) from error

    async def _ask_once(self, one: Confirm, connection: RpcConnection, registration: int | None) -> None:
        """`registration`: its number, for a confirm by offset."""
        held = self._held
        request = asks.commit(self._keeper, held.partition, up_to=one.end if registration is not None else None)
        answer = connection.call(
            Method.CONSUMER_COMMIT_C2B,
            Service.BROKER_READ,
            encode(request),
            timeout_s=self._keeper.cluster.options.request_timeout_s,
        )
        if registration is not None and (one.sent_in or not self._keeper.has_ready):
            one.sent_in = registration
            held.went_on(one.ticket)
        told = decode(CommitOffsetResponseB2C, (await answer).body)
        check(told)
        held.confirm_answered(told, by_offset=registration is not None)


def _untracked(partition: Partition, why: str) -> StaleBatchError:
    """Return the error for a Broker that takes no confirms by offset and does not know the batch any more."""
    return StaleBatchError(f"the Broker of {partition} lost track of this batch ({why}); its messages come again")
