"""The condition of a store: usable, closed, or failed for good by its disk.

The invariant: once the disk failed nothing more is written, because what of the last write is on the device, nobody
knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pytubemq.errors import ClosedError, DiskFailedError
from pytubemq.storage.journal.journal import storage_error

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

T = TypeVar("T")


class Condition:
    """The state of a store: if it may be used, and the first failure of its disk."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.is_closed = False
        self.failure: DiskFailedError | None = None

    def check(self) -> None:
        """Raise ClosedError or DiskFailedError if the store cannot be used."""
        if self.is_closed:
            raise ClosedError(f"the store in {self._root} is closed")
        if self.failure is not None:
            # A new error each time: one object raised on several threads would gather all their tracebacks.
            raise DiskFailedError(self.failure.message, hint=self.failure.hint)

    def run(self, call: Callable[[], T]) -> T:
        """Call what works on the logs, and record a failure of the disk.

        Raises:
            StorageError: for the OSError that it raised.
        """
        try:
            return call()
        except OSError as error:
            meant = storage_error(self._root / "logs", error)
            # Want of space or of handles passes; only a disk that fails ends writing for good.
            if isinstance(meant, DiskFailedError):
                self.failure = meant
            raise meant from error
