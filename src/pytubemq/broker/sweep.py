"""Checks that a Broker makes once a second: leases of silent consumers, and space on its disk.

The invariants: a Broker whose disk takes writes again recovers automatically, also when nobody sends; a Broker without
disk space reports it before it refuses a message.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from pytubemq.broker.probe import writable
from pytubemq.errors import StorageError, one_line

if TYPE_CHECKING:
    from pathlib import Path

    from pytubemq.broker.state import BrokerState
    from pytubemq.storage.disk import Disk

logger = logging.getLogger(__name__)

PERIOD_S: Final = 1.0


class Sweep:
    """Of one Broker; `run` is a task of its service. Event loop only."""

    def __init__(self, state: BrokerState, disk: Disk, directory: Path, *, reserve_bytes: int) -> None:
        self._state = state
        self._disk = disk
        self._directory = directory
        self._reserve_bytes = reserve_bytes
        self.shortage: str | None = None
        """The reason why the disk has no room for messages; None if it has."""

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            await asyncio.sleep(PERIOD_S)
            self._expire_holds()
            await self.look_at_space()
            await self._try_disk()

    async def look_at_space(self) -> None:
        """Check whether the disk has room for messages."""
        try:
            await asyncio.get_running_loop().run_in_executor(None, self._state.store.check_space)
        except StorageError as error:
            if self.shortage is None:
                logger.warning("%s", one_line(error))
            self.shortage = error.message
        else:
            self.shortage = None

    def _expire_holds(self) -> None:
        state = self._state
        for hold in state.registry.expire(now_s=state.clock.now_s()):
            state.counters.expired_holds += 1
            logger.info("the hold of %s on %s has run out", hold.consumer_id, hold.key)

    async def _try_disk(self) -> None:
        path = self._state.path
        refusals = (path.full, path.unopened)
        # A write refused while the probe ran knows better than the probe.
        if any(refusals) and await self._writable() and (path.full, path.unopened) == refusals:
            path.writable_again()
            self._state.positions.writable_again()

    async def _writable(self) -> bool:
        size_bytes = self._state.path.refused_bytes
        return await asyncio.get_running_loop().run_in_executor(
            None,
            lambda: writable(self._disk, self._directory, size_bytes=size_bytes, reserve_bytes=self._reserve_bytes),
        )
