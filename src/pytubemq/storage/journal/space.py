"""The space check: a cheap guard in front of every journal write.

The invariant: new messages are refused while so much space is left that what was accepted can still be applied, and
the file system is asked about once per tens of MiB, not per write. A check that finds less than what may still be
claimed makes the next write ask anew, so that writes are refused as soon as the shortage is reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.model.limits import MIB
from pytubemq.storage.journal.journal import failed_error, reserved_error

if TYPE_CHECKING:
    from pathlib import Path

    from pytubemq.storage.disk.disk import Disk

_LARGEST_BUDGET: Final = 64 * MIB
COPIES: Final = 2
"""Every byte is written to the journal now and to its partition's log later."""


class SpaceGuard:
    """A guard that keeps `reserve_bytes` free on the file system that holds `root`."""

    def __init__(self, disk: Disk, root: Path, *, reserve_bytes: int) -> None:
        self._disk = disk
        self._root = root
        self._reserve_bytes = reserve_bytes
        # Bytes that may still be claimed without a question to the system.
        self._budget = 0
        self._is_stale = False
        """True after `check` found less than the budget; set by its thread and cleared by the writer's."""

    def take(self, size: int, *, least_bytes: int | None = None) -> None:
        """Claim room for `size` bytes.

        Args:
            least_bytes: so much has to be left instead of the reserve, if that is less.

        Raises:
            DiskFullError: it would leave less than the reserve; asked anew at the next call.
        """
        need = size * COPIES
        if need > self._budget or self._is_stale:
            # Cleared before the system is asked: a shortage that `check` finds meanwhile must reach the next call.
            self._is_stale = False
            free = self._free_bytes()
            spare = free - self._reserve_bytes
            if spare < need:
                self._budget = 0
                # What may go below the reserve is let through claim by claim, with nothing budgeted ahead.
                if least_bytes is not None and free - least_bytes >= need:
                    return
                raise reserved_error(self._root, free, self._reserve_bytes)
            # A part of the spare space only: others write to the same disk.
            self._budget = max(need, min(_LARGEST_BUDGET, spare // 4))
        self._budget -= need

    def check(self) -> None:
        """Check that there is room for any message at all; if not, the next `take` is refused too.

        Raises:
            DiskFullError: no more than the reserve is free. DiskFailedError: the free space cannot be read.
        """
        free = self._free_bytes()
        if free - self._reserve_bytes < max(self._budget, 1):
            self._is_stale = True  # others took what the budget counts on
        if free <= self._reserve_bytes:
            raise reserved_error(self._root, free, self._reserve_bytes)

    def _free_bytes(self) -> int:
        try:
            return self._disk.free_bytes(self._root)
        except OSError as error:
            raise failed_error(self._root / "journal", error) from error
