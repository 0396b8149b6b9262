"""The registration of one partition at its Broker, made again after each loss.

The invariant: a move to an offset, or to the newest messages, is sent until a Broker has accepted it; a registration
that another move has overtaken does not count.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from pytubemq.client.consumer.partition_owner import OwnedPartition
from pytubemq.client.session.cluster_connection import is_refusal
from pytubemq.client.session.registration_backoff import BROKER_BACKOFF
from pytubemq.client.session.registration_requests import UNREGISTER_TIMEOUT_S, RegistrationRequests
from pytubemq.client.start_position import Start
from pytubemq.core.retry import BRIEF_S, Verdict, verdict
from pytubemq.errors import Code, TransportError, TubeError

if TYPE_CHECKING:
    from pytubemq.client.consumer.partition_owner import PartitionOwner
    from pytubemq.model.ids import Partition
    from pytubemq.net.client.connection import RpcConnection
    from pytubemq.wire.protocol.messages.broker import RegisterResponseB2C

logger = logging.getLogger(__name__)


class RegisteringPartition(OwnedPartition, Protocol):
    """A partition that can be registered."""

    async def register(self) -> None:
        """Register once.

        Raises:
            TubeError: the Broker refuses, or cannot be reached.
        """


class PartitionRegistration:
    """The registration of one partition: its connection, its number, and where it begins."""

    def __init__(
        self, owner: PartitionOwner, partition: Partition, changed: asyncio.Event, *, offset: int | None
    ) -> None:
        """`changed` is set when the registration is lost; `offset` is where to begin instead of at the group's
        position."""
        self.connection: RpcConnection | None = None
        """The connection of the last registration; None if that was lost."""
        self.number = 0
        """Number of registrations so far."""
        self.accepted_s = float("-inf")
        """When the Broker last accepted a registration, by the loop's clock."""
        self.failure: TubeError | None = None
        """The error that ended the consumer; None while it works."""
        self.tried = asyncio.Event()
        """Set after the first registration, successful or not."""
        self._owner = owner
        self._partition = partition
        self._requests = RegistrationRequests(owner, partition)
        self._changed = changed
        self._accepted = asyncio.Event()
        self._offset = offset
        self._at_newest = False

    @property
    def stands(self) -> bool:
        """True if the Broker knows the registration, as far as this client knows."""
        return self.connection is not None and not self.connection.closed

    async def keep_trying(self, partition: RegisteringPartition) -> TubeError | None:
        """Register until the Broker accepts; return an error if the partition is to be given up instead."""
        loop = asyncio.get_running_loop()
        began_s, attempt = loop.time(), 0
        while True:
            try:
                await partition.register()
            except TubeError as error:
                attempt += 1
                tried_s = loop.time() - began_s
                if self._is_final(error, tried_s):
                    await self.give_back(timeout_s=UNREGISTER_TIMEOUT_S)  # an earlier one may stand
                    return error
                logger.debug("%s: register: %s", self._partition, error.message)
                self.tried.set()
                await self._report_failure(partition, error, tried_s, again=attempt > 1)
                await asyncio.sleep(BROKER_BACKOFF.delay_s(attempt, self._owner.cluster.rng))
            else:
                self.tried.set()
                self._owner.report_reached(partition)
                return None

    def _is_final(self, error: TubeError, tried_s: float) -> bool:
        """True if the partition is given up after this error."""
        is_occupied = is_refusal(error, Code.PARTITION_OCCUPIED)
        return (is_occupied and tried_s > self._owner.occupied_for_s) or verdict(error) is Verdict.GIVE_UP

    async def _report_failure(
        self, partition: OwnedPartition, error: TubeError, tried_s: float, *, again: bool
    ) -> None:
        if isinstance(error, TransportError):
            await self._owner.report_unreachable(partition, error, again=again)
        elif not is_refusal(error, Code.PARTITION_OCCUPIED) and tried_s > BRIEF_S:
            await self._owner.report_unreachable(partition, error, again=False)  # tried on, but no longer in silence

    async def register(self) -> RegisterResponseB2C:
        """Register once, and return the response.

        Raises:
            TubeError: the Broker refuses, or cannot be reached.
        """
        at_newest, offset = self._at_newest, self._offset
        filters = self._owner.options.filters.get(self._partition.topic, ())
        connection, response = await self._requests.register(
            read_status=self._read_status(), filters=filters, offset=offset
        )
        self.number += 1
        self.accepted_s = asyncio.get_running_loop().time()
        self._owner.registered_before.add(self._partition)
        self._offset = None if self._offset == offset else self._offset
        self._at_newest = self._at_newest and not at_newest
        if not self._at_newest and self._offset is None:  # else another move was asked for meanwhile: once more
            self.connection = connection
            connection.lost.add_done_callback(lambda _: self._changed.set())
            self._accepted.set()
        return response

    def shows_move(self, response: RegisterResponseB2C) -> bool:
        """True if somebody has moved the group since the registration before."""
        return self._requests.shows_move(response)

    def _read_status(self) -> int:
        if self._at_newest:
            return Start.ALWAYS_LATEST.read_status
        known = self._offset is not None or self._partition in self._owner.registered_before
        return Start.EARLIEST.read_status if known else self._owner.options.start.read_status

    def begin_at(self, offset: int) -> None:
        """Have the next registration begin at an offset."""
        self._offset = offset

    def begin_at_newest(self) -> None:
        """Have the next registration begin at the partition's end."""
        self._at_newest = True

    def lose(self) -> None:
        """Record that the Broker does not know the registration any more."""
        self.connection = None
        self._accepted.clear()
        self._changed.set()

    def end(self) -> None:
        """Record that the partition is not consumed any more, and wake everybody who waits for a registration."""
        self.connection = None
        self._accepted.set()

    def fail(self, error: TubeError) -> None:
        """Record that the consumer has failed, and wake everybody who waits for a registration."""
        self.failure = error
        self._accepted.set()

    async def wait_for_next(self) -> None:
        """Wait until the partition is registered again, or is not consumed any more."""
        self._accepted.clear()
        self._changed.set()
        await self._accepted.wait()

    async def give_back(self, *, timeout_s: float) -> None:
        """Unregister within `timeout_s`, confirming nothing."""
        await self._requests.unregister(timeout_s=timeout_s)
