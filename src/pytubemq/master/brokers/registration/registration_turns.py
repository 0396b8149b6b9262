"""Turns of registrations of Brokers, which may take seconds each, and of their heartbeats with long reports.

The invariants: few are worked on at a time, so all that Brokers send together delays others by few slices; connections
take turns; a short one does not wait for long ones, but for a heartbeat of its own connection that came before; those
that wait go with their connection.
"""

from __future__ import annotations

from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from pytubemq.model.limits import (
    MAX_LONG_HEARTBEATS,
    MAX_LONG_REGISTRATIONS,
    MAX_SHORT_REGISTRATIONS,
    SHORT_REGISTRATION_BYTES,
)
from pytubemq.net.server.long_work import LongWork

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pytubemq.net.server.call import Call
    from pytubemq.net.server.long_work import Peer


class RegistrationTurns:
    """The turns of one Master. Event loop only."""

    def __init__(self) -> None:
        self._short = LongWork(most=MAX_SHORT_REGISTRATIONS)
        self._long = LongWork(most=MAX_LONG_REGISTRATIONS)
        self._heartbeats = LongWork(most=MAX_LONG_HEARTBEATS)
        self._not_taken: Counter[Peer] = Counter()
        """Heartbeats of connections that wait for their turn."""

    @asynccontextmanager
    async def take(self, call: Call) -> AsyncIterator[None]:
        """Wait until a registration may be worked on.

        Raises:
            CancelledError: its connection was lost before that.
        """
        turns = self._short if call.size_bytes <= SHORT_REGISTRATION_BYTES else self._long
        async with turns.request(call.connection):
            yield

    def has_to_wait(self, call: Call) -> bool:
        """True if a heartbeat must wait for a turn: it is long, or follows another one that waits."""
        return call.size_bytes > SHORT_REGISTRATION_BYTES or call.connection in self._not_taken

    @asynccontextmanager
    async def take_heartbeat(self, call: Call) -> AsyncIterator[None]:
        """Wait until a heartbeat may be taken in. Those of a connection keep their order.

        Raises:
            CancelledError: its connection was lost before that.
        """
        connection, waiting = call.connection, self._not_taken
        waiting[connection] += 1
        try:
            async with self._heartbeats.request(connection):
                yield
        finally:
            waiting[connection] -= 1
            if not waiting[connection]:
                del waiting[connection]

    def let_go(self, connection: Peer) -> None:
        """End the registrations and heartbeats of a lost connection that wait."""
        self._heartbeats.let_go(connection)
        self._short.let_go(connection)
        self._long.let_go(connection)
