"""A data directory held by a tool: nobody writes there meanwhile, and looking changes nothing.

The invariant: `lock_store` never makes or changes a file, and refuses a directory that a Broker or another tool has.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pytubemq.errors import StorageError
from pytubemq.storage.disk.disk import OsDisk, OsFile, locked_error

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class ReadingDisk(OsDisk):
    """The operating system's files, opened for reading only."""

    def open(self, path: Path | str, *, create: bool = False) -> OsFile:
        """Open an existing file; `create` changes nothing."""
        return OsFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC))

    def listdir(self, path: Path) -> list[str]:
        """Return the names in a directory; none if there is no such directory."""
        try:
            return super().listdir(path)
        except (FileNotFoundError, NotADirectoryError):
            return []


def check_store(root: Path) -> None:
    """Refuse what is no Broker's data directory.

    Raises:
        StorageError: there is no `logs`, `journal` or `checkpoint` in it.
    """
    if not any((root / name).exists() for name in ("logs", "journal", "checkpoint")):
        there = "does not exist" if not root.exists() else "holds no Broker's store"
        raise StorageError(
            f"{root} {there}",
            hint="give the Broker's own directory, the one with `journal` and `logs` in it, as in  data/broker-1",
        )


@contextmanager
def lock_store(root: Path) -> Iterator[None]:
    """Keep Brokers and other tools out while a `with` runs, without writing anything.

    Raises:
        DirectoryLockedError: somebody has the directory.
    """
    path = root / "lock"
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:  # no Broker was ever there
        yield
        return
    try:
        try:
            # The same lock as a Broker's; taking it needs no right to write.
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise locked_error(path, os.pread(fd, 32, 0).decode("ascii", "replace").strip() or "unknown") from error
        yield
    finally:
        os.close(fd)
