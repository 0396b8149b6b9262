"""Requests that register one partition at its Broker, and unregister it.

The invariant: a Broker that may have a registration hears when it ends, also if its response never arrived; otherwise
the group would stand still there until the lease is over.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from pytubemq.client.session import requests
from pytubemq.client.session.cluster_connection import is_refusal
from pytubemq.errors import Code, RefusedError, TubeError
from pytubemq.wire.protocol.messages.broker import RegisterRequestC2B, RegisterResponseB2C
from pytubemq.wire.rpc.methods import Method

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytubemq.model.ids import Partition
    from pytubemq.net.client.connection import RpcConnection

UNREGISTER_TIMEOUT_S = 1.0
"""Timeout of an unregistration."""


class RegistrationRequests:
    """The requests of one partition of a consumer."""

    def __init__(self, who: requests.Requester, partition: Partition) -> None:
        self._who = who
        self._partition = partition
        self._response: asyncio.Task[RegisterResponseB2C] | None = None
        """The last request, which goes on if its caller is cancelled."""
        self._held_before = False
        """True if the Broker may have had the registration already before the last request."""
        self._reset_epoch: int | None = None
        """The epoch of the group here, as the last response said; None before the first."""

    async def register(
        self, *, read_status: int, filters: Iterable[str], offset: int | None
    ) -> tuple[RpcConnection, RegisterResponseB2C]:
        """Register the partition; return the connection and the response.

        Raises:
            TubeError: the Broker refuses, or cannot be reached.
        """
        connection = await self._connect()
        request = requests.registration(
            self._who, self._partition, read_status=read_status, filters=filters, offset=offset
        )
        self._held_before = self._may_be_held()
        self._response = asyncio.get_running_loop().create_task(self._send(connection, request))
        self._response.add_done_callback(_failure)  # looked at, though perhaps nobody waits any more
        return connection, await asyncio.shield(self._response)

    def shows_move(self, response: RegisterResponseB2C) -> bool:
        """Note the epoch of the group; True if somebody has moved it here since the registration before."""
        known, epoch = self._reset_epoch, response.reset_epoch or 0
        self._reset_epoch = max(epoch, known or 0)
        return known is not None and epoch > known

    async def unregister(self, *, timeout_s: float) -> None:
        """Unregister within `timeout_s`, confirming nothing. If that fails, the registration ends with its lease.

        A response that is due is awaited first, for half of that time: a Broker may handle two requests at once.
        """
        response = self._response
        if response is None:
            return
        with contextlib.suppress(TubeError, TimeoutError):
            async with asyncio.timeout(timeout_s):
                await asyncio.wait([response], timeout=timeout_s / 2)
                if self._may_be_held():
                    await self._send(await self._connect(), requests.unregistration(self._who, self._partition))
        response.cancel()
        self._response, self._held_before = None, False

    def _may_be_held(self) -> bool:
        """True if the Broker may have a registration: a refusal takes away none that was there before.

        Two refusals say that there is none: 410, another member has it, and 411, the Broker does not know this client.
        """
        if self._response is None:
            return False
        error = _failure(self._response)
        if not isinstance(error, RefusedError):
            return True  # done, under way, or nobody knows
        return self._held_before and not is_refusal(error, Code.PARTITION_OCCUPIED, Code.HB_NO_NODE)

    async def _connect(self) -> RpcConnection:
        cluster = self._who.cluster
        return await cluster.pool.get(cluster.address_of(self._partition.broker_id))

    async def _send(self, connection: RpcConnection, request: RegisterRequestC2B) -> RegisterResponseB2C:
        return await self._who.cluster.call_broker(
            connection, request, RegisterResponseB2C, Method.CONSUMER_REGISTER_C2B
        )


def _failure(response: asyncio.Task[RegisterResponseB2C]) -> BaseException | None:
    """Return the error of a request; None if it has not failed."""
    return response.exception() if response.done() and not response.cancelled() else None
