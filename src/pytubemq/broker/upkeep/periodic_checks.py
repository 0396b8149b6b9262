"""Checks that a Broker makes once a second: leases of silent consumers, and space on its disk.

The invariants: a Broker whose disk takes writes again recovers automatically, also when nobody sends; a Broker without
disk space reports it before it refuses a message.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from pytubemq.errors import StorageError, one_line
from pytubemq.model.limits import KIB
from pytubemq.storage.disk.disk import write_all
from pytubemq.storage.journal.space import COPIES

if TYPE_CHECKING:
    from pathlib import Path

    from pytubemq.broker.state import BrokerState
    from pytubemq.storage.disk.disk import Disk


logger = logging.getLogger(__name__)

PERIOD_S: Final = 1.0
_LOG_PERIOD_S: Final = 60.0
"""Between two log lines of what had to make room, which a flood causes at each look."""


PROBE_NAME: Final = "probe"
_CHUNK: Final = bytes(64 * KIB)


def can_write(disk: Disk, root: Path, *, size_bytes: int, reserve_bytes: int) -> bool:
    """Return True if the disk takes a write of `size_bytes` beside the journal of the store at `root`. Blocks.

    It is true only if the disk did everything that a refused write would have needed. The probe's file is deleted,
    and recovery never reads it as a journal.

    The free space is asked for first, so that a probe never takes the reserve for messages accepted before.
    """
    directory = root / "journal"
    path = directory / PROBE_NAME
    try:
        if disk.free_bytes(root) - reserve_bytes < max(size_bytes, 1) * COPIES:
            return False
        file = disk.open(path, create=True)
        try:
            write_all(file, [_CHUNK] * (size_bytes // len(_CHUNK)) + [_CHUNK[: size_bytes % len(_CHUNK) or 1]], 0)
            file.fdatasync()
            # A new journal file needs this handle while its own is open, so one handle to spare is not enough.
            disk.fsync_dir(directory)
        finally:
            file.close()
            with suppress(OSError):  # the next probe, or nobody, minds
                disk.unlink(path)
    except OSError:
        return False
    return True


class PeriodicChecks:
    """The checks of one Broker; `run` is a task of its service. Event loop only."""

    def __init__(self, state: BrokerState, disk: Disk, directory: Path, *, reserve_bytes: int) -> None:
        self._state = state
        self._disk = disk
        self._directory = directory
        self._reserve_bytes = reserve_bytes
        self.shortage: str | None = None
        """The reason why the disk has no room for messages; None if it has."""
        self._made_room = 0
        """Holds that had made room as last logged."""
        self._positions_gone = 0
        """Positions that had made room as last logged."""
        self._next_log_s = float("-inf")

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            await asyncio.sleep(PERIOD_S)
            self._expire_registrations()
            self.log_room()
            await self.look_at_space()
            await self._try_disk()

    async def look_at_space(self) -> None:
        """Check that the disk has room for messages."""
        try:
            await asyncio.get_running_loop().run_in_executor(None, self._state.store.check_space)
        except StorageError as error:
            if self.shortage is None:
                logger.warning("%s", one_line(error))
            self.shortage = error.message
        else:
            self.shortage = None

    def _expire_registrations(self) -> None:
        state = self._state
        for registration in state.registry.expire(now_s=state.clock.now_s()):
            state.counters.expired_registrations += 1
            logger.info("the registration of %s for %s has expired", registration.consumer_id, registration.key)

    def log_room(self) -> None:
        """Log once a minute the registrations and positions that were removed for others."""
        registry, positions = self._state.registry, self._state.positions
        now_s = self._state.clock.now_s()
        registrations, gone = registry.made_room - self._made_room, positions.made_room - self._positions_gone
        if not (registrations or gone) or now_s < self._next_log_s:
            return
        self._next_log_s = now_s + _LOG_PERIOD_S
        self._made_room, self._positions_gone = registry.made_room, positions.made_room
        if registrations:
            logger.warning(
                "%d registrations made room for others: %s", registrations, registry.problem or "there is room now"
            )
        if gone:
            logger.warning(
                "removed %d group positions that no consumer has used, to make room: %s",
                gone,
                positions.spare.problem or f"this Broker keeps {positions.most} positions",
            )

    async def _try_disk(self) -> None:
        path = self._state.path
        errors = path.errors
        refusals = (errors.full, errors.unopened)
        # A write that was refused while the probe ran is newer than the probe.
        if any(refusals) and await self._writable() and (errors.full, errors.unopened) == refusals:
            path.writable_again()
            self._state.positions.writable_again()

    async def _writable(self) -> bool:
        size_bytes = self._state.path.errors.refused_bytes
        return await asyncio.get_running_loop().run_in_executor(
            None,
            lambda: can_write(self._disk, self._directory, size_bytes=size_bytes, reserve_bytes=self._reserve_bytes),
        )
