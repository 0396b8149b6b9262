"""The disk as storage sees it: one small port, and the real one behind it.

The invariant: every byte that storage writes or reads goes through a `Disk`, so that a test can put one in its place
that tears, loses and fails. :Nothing here flushes on its own:: `fdatasync`, `fsync_dir` and `sync_all` say when.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import logging
import os
import platform
import re
import stat
from typing import TYPE_CHECKING, Final, Protocol

from pytubemq.errors import DirectoryLockedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

logger = logging.getLogger(__name__)

MAX_BUFFERS: Final = 1024
"""Buffers in one vectored write (Linux's IOV_MAX)."""

# A shortage of the process or the machine, which passes: what met one is tried
# again, and the disk is not held to have failed.
_NO_HANDLE: Final = frozenset({errno.EMFILE, errno.ENFILE})
_NOT_OPENED: Final = _NO_HANDLE | {errno.ENOMEM}

_SYNCFS_SINCE: Final = (5, 8)
"""Linux; older ones have the call and do not report failures."""


def _find_syncfs() -> Callable[[int], int] | None:
    release = re.match(r"(\d+)\.(\d+)", platform.release())
    if platform.system() != "Linux" or release is None or (int(release[1]), int(release[2])) < _SYNCFS_SINCE:
        return None
    # `use_errno` keeps the call's error for `sync_all`, before other code of this thread sets a new one.
    call: Callable[[int], int] | None = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    return call


_syncfs = _find_syncfs()
_fdatasync = getattr(os, "fdatasync", os.fsync)  # macOS has fsync alone


class DiskFile(Protocol):
    """An open file; `pread` and `pwritev` name their position, so no two users share a cursor."""

    def size(self) -> int:
        """Return the bytes in the file now."""
        ...

    def pread(self, size: int, position: int) -> bytes:
        """Return up to `size` bytes at `position`; fewer only at the end of the file."""
        ...

    def pwritev(self, buffers: Sequence[bytes], position: int) -> int:
        """Write at most MAX_BUFFERS buffers; returns the bytes written, perhaps fewer than given."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""
        ...

    def fdatasync(self) -> None:
        """Return only once content and size are on the device. After an error what it holds is unknown."""
        ...

    def close(self) -> None:
        """Close; a second call does nothing."""
        ...


class DirectoryLock(Protocol):
    """A held lock; the system drops it when the process ends, however that happens."""

    def release(self) -> None:
        """Give it up; a second call does nothing."""
        ...


class Disk(Protocol):
    """The operations that storage needs; errors are OSError as the system raises them."""

    def makedirs(self, path: Path) -> None:
        """Make the directory and its parents; one that exists is fine."""
        ...

    def listdir(self, path: Path) -> list[str]:
        """Return the names in a directory, in no order; FileNotFoundError if there is none."""
        ...

    def exists(self, path: Path) -> bool:
        """True if there is a file or directory of that name."""
        ...

    def open(self, path: Path | str, *, create: bool = False) -> DiskFile:
        """Open for reading and writing; with `create` an absent file is made, and its name is durable only after
        `fsync_dir`. (Making a `Path` of a name takes longer than opening the file.)"""
        ...

    def rename(self, source: Path, target: Path) -> None:
        """Rename within a directory, replacing `target` in one step."""
        ...

    def unlink(self, path: Path) -> None:
        """Remove a file."""
        ...

    def rmdir(self, path: Path) -> None:
        """Remove an empty directory."""
        ...

    def fsync_dir(self, path: Path) -> None:
        """Return only once the names in the directory are on the device."""
        ...

    def sync_all(self, path: Path) -> bool:
        """Return only once everything written so far to the file system holding the directory `path` is on the device,
        contents and names; one call for thousands of files. False if that cannot be done here, or nobody holds a lock
        in the directory: nothing was flushed then."""
        ...

    def free_bytes(self, path: Path) -> int:
        """Return the bytes that this process may still write to the file system holding `path`."""
        ...

    def lock(self, path: Path) -> DirectoryLock:
        """Take the lock file `path` for this process, or raise DirectoryLockedError naming who has it."""
        ...


class NotOpenedError(OSError):
    """The system had no handle or memory for the file: nothing was done to it, the same call may succeed later."""


def open_file(disk: Disk, path: Path | str, *, create: bool = False) -> DiskFile:
    """Call `disk.open`, and distinguish a system short of handles from a disk that fails.

    Raises:
        NotOpenedError: nothing was done. OSError: anything else.
    """
    try:
        return disk.open(path, create=create)
    except OSError as error:
        if error.errno in _NOT_OPENED:
            raise NotOpenedError(error.errno, error.strerror, str(path)) from error
        raise


def flush_directory(disk: Disk, path: Path) -> None:
    """Call `disk.fsync_dir` likewise; want of memory may mean the flush itself, so only want of handles is
    distinguished."""
    try:
        disk.fsync_dir(path)
    except OSError as error:
        if error.errno in _NO_HANDLE:
            raise NotOpenedError(error.errno, error.strerror, str(path)) from error
        raise


def list_directory(disk: Disk, path: Path) -> list[str]:
    """Call `disk.listdir` likewise."""
    try:
        return disk.listdir(path)
    except OSError as error:
        if error.errno in _NOT_OPENED:
            raise NotOpenedError(error.errno, error.strerror, str(path)) from error
        raise


def write_all(file: DiskFile, buffers: Sequence[bytes], position: int) -> int:
    """Write all buffers at `position`, however short the single writes come out; returns the position after them.

    Raises:
        OSError: what the disk raised; any number of the bytes may have been written.
    """
    # Linux refuses a call with more buffers; a block for more than a thousand partitions has more.
    for start in range(0, len(buffers), MAX_BUFFERS):
        pending: list[bytes] = list(buffers[start : start + MAX_BUFFERS])
        left = sum(map(len, pending))
        while left:
            written = file.pwritev(pending, position)
            # Without this a device that takes nothing would keep the writer thread in this loop for ever.
            if written <= 0:
                raise OSError(errno.EIO, "a write took no byte")
            position += written
            left -= written
            if left:
                pending = _after(pending, written)
    return position


def _after(buffers: list[bytes], written: int) -> list[bytes]:
    """Return the buffers after the first `written` bytes."""
    for index, buffer in enumerate(buffers):
        if written < len(buffer):
            return [buffer[written:], *buffers[index + 1 :]]
        written -= len(buffer)
    return []


def read_exactly(file: DiskFile, size: int, position: int) -> bytes:
    """Return `size` bytes at `position`, fewer only at the end of the file (a single read stops at 2 GiB or at a
    signal)."""
    data = file.pread(size, position)
    while len(data) < size:
        more = file.pread(size - len(data), position + len(data))
        if not more:
            break
        data += more
    return data


class OsFile:
    """A file of the operating system, by its descriptor."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def pread(self, size: int, position: int) -> bytes:
        return os.pread(self._fd, size, position)

    def pwritev(self, buffers: Sequence[bytes], position: int) -> int:
        return os.pwritev(self._fd, buffers, position)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def fdatasync(self) -> None:
        if self._fd < 0:  # as the other calls say it; this one takes -1 for a programming error
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        _fdatasync(self._fd)

    def close(self) -> None:
        # The number is forgotten before it is free: the system may give it to another file
        # at once, which a second close would then close.
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class OsLock:
    """`flock` on a file that names the holder's process id.

    `root_fd` is its directory, open as long as the lock is held: that a write in the background failed is reported to
    whoever flushes the file system only if he had it open before.
    """

    def __init__(self, fd: int, root_fd: int) -> None:
        self._fd = fd
        self.root_fd = root_fd

    def release(self) -> None:
        # Closing drops the lock. The file itself stays: if it were removed,
        # two processes could lock two files of one name.
        for fd in (self._fd, self.root_fd):
            if fd >= 0:
                os.close(fd)
        self._fd = self.root_fd = -1


PRIVATE_FILE: Final = 0o600
PRIVATE_DIRECTORY: Final = 0o700
"""Modes of new files and directories, which only the server's user may read."""
_OTHERS: Final = 0o007


def make_private(path: Path) -> None:
    """Create the directory and its missing parents, each for this user alone. Raises OSError."""
    # Made one by one, because `mkdir(parents=True)` applies the mode to the last directory alone.
    missing = []
    while not path.is_dir():
        missing.append(path)
        path = path.parent
    for directory in reversed(missing):
        directory.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)


def close_to_others(directory: Path) -> None:
    """Take a server's directory, which an earlier version may have made, away from all but its user and group.

    The files in it then cannot be reached, whatever their modes. A group may keep its access, as for backups.
    """
    try:
        mode = stat.S_IMODE(directory.stat().st_mode)
        if not mode & _OTHERS:
            return
        directory.chmod(mode & ~_OTHERS)
    except OSError as error:
        # The directory may belong to another user. The server starts all the same, and says what to do.
        logger.warning(
            "%s can be read by every user of this machine: chmod o-rwx %s (%s)", directory, directory, error.strerror
        )
    else:
        logger.warning(
            "%s had mode %o, so that every user could read it; it has %o now", directory, mode, mode & ~_OTHERS
        )


class OsDisk:
    """The operating system's files."""

    def __init__(self) -> None:
        self._held: dict[Path, OsLock] = {}
        """Locks by directory."""

    def makedirs(self, path: Path) -> None:
        make_private(path)

    def listdir(self, path: Path) -> list[str]:
        return os.listdir(path)

    def exists(self, path: Path) -> bool:
        return path.exists()

    def open(self, path: Path | str, *, create: bool = False) -> OsFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return OsFile(os.open(path, flags, PRIVATE_FILE))

    def rename(self, source: Path, target: Path) -> None:
        os.replace(source, target)

    def unlink(self, path: Path) -> None:
        os.unlink(path)

    def rmdir(self, path: Path) -> None:
        os.rmdir(path)

    def fsync_dir(self, path: Path) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def sync_all(self, path: Path) -> bool:
        if _syncfs is None:
            return False
        held = self._held.get(path)
        # A descriptor from before the writes is what makes the kernel report a failed write-back
        # here. Without one the caller flushes file by file.
        if held is None or held.root_fd < 0:
            return False
        # Also for a write-back that failed since the descriptor was opened, and that nobody has heard of.
        if _syncfs(held.root_fd):
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error), str(path))
        return True

    def free_bytes(self, path: Path) -> int:
        found = os.statvfs(path)
        # Not `f_bfree`: what is reserved for root cannot be used by a server that runs as another user.
        return found.f_bavail * found.f_frsize

    def lock(self, path: Path) -> OsLock:
        # Not emptied by the open: while another process holds the lock, its id in there is needed for the error below.
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
        try:
            # No waiting: a second Broker on one directory is a mistake to report, not one to wait for.
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(fd)
            raise locked_error(path, holder) from None  # that says it all
        except BaseException:
            os.close(fd)
            raise
        try:
            # Else digits of a longer id, left by a process that is gone, would be left behind this one's.
            os.ftruncate(fd, 0)
            os.pwrite(fd, str(os.getpid()).encode("ascii"), 0)
            root_fd = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except BaseException:
            # The lock goes with the descriptor: nobody would have an object to release it by.
            os.close(fd)
            raise
        # By directory, so that `sync_all` finds the descriptor.
        held = self._held[path.parent] = OsLock(fd, root_fd)
        return held


def locked_error(path: Path, holder: str) -> DirectoryLockedError:
    """Return the error for a directory whose lock file `path` another process holds."""
    return DirectoryLockedError(
        f"{path.parent} is in use by process {holder}",
        hint="stop that process, or give this one a data directory of its own",
    )
