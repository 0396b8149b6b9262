"""Requests of consumers that name very many partitions: they are read in steps, before the turn in which they count.

The invariants: few are read at a time; requests of a connection are served in the order in which they came; a request
changes a group in one turn of the loop, whatever was read before, so nobody sees half a change.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from pytubemq.master.brokers.registration.registration_turns import RegistrationTurns
from pytubemq.model.limits import SHORT_REGISTRATION_BYTES
from pytubemq.wire.text.read_partitions import read_part_sub_infos, read_required, read_subscribed

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytubemq.net.server.call import Call
    from pytubemq.net.server.long_work import Peer

T = TypeVar("T")


class LongReports:
    """The order in which requests of consumers with long lists are read. Event loop only."""

    def __init__(self) -> None:
        self._turns = RegistrationTurns()
        self.has_to_wait = self._turns.has_to_wait
        self.take = self._turns.take_heartbeat

    def let_go(self, connection: Peer) -> None:
        """End the requests of a lost connection that wait."""
        self._turns.let_go(connection)

    @staticmethod
    def is_long(call: Call) -> bool:
        """True if a request is to be read in steps."""
        return call.size_bytes > SHORT_REGISTRATION_BYTES

    @staticmethod
    async def read(request: Any) -> Any:
        """Return a request whose lists of partitions have been read; errors in them are raised where they are used."""
        changed: dict[str, Any] = {}
        if texts := getattr(request, "subscribe_info", None):
            changed["subscribe_info"] = await _in_turns(read_subscribed(texts))
        if text := getattr(request, "required_partition", None):
            changed["required_partition"] = await _in_turns(read_required(text))
        if (info := getattr(request, "sub_rep_info", None)) is not None:
            read = await _in_turns(read_part_sub_infos(info.part_sub_info))
            changed["sub_rep_info"] = replace(info, part_sub_info=read)
        return replace(request, **changed) if changed else request


async def _in_turns(steps: Generator[None, None, T]) -> T:
    """Take each step in a turn of its own; return the result."""
    while True:
        # First, as the frame was read in this turn.
        await asyncio.sleep(0)
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
