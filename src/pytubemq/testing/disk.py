"""A disk in memory that tears, loses and fails, for tests of code that writes through `storage.disk.disk.Disk`.

The invariant: after `crash` a file has its flushed bytes, and of the rest any part, in any order, torn at any byte; a
name that was created, renamed or removed without a following `fsync_dir` may be in its old state or its new one. A seed
makes all of it repeatable.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from random import Random
from threading import RLock
from typing import TYPE_CHECKING, Final

from pytubemq.storage.disk.disk import locked_error
from pytubemq.testing.inode import Inode, Truncate, Write

if TYPE_CHECKING:
    from collections.abc import Sequence

_NO_LIMIT: Final = 1 << 62


class Operation(Enum):
    """An operation that can fail."""

    OPEN = "open"
    READ = "read"
    WRITE = "write"
    TRUNCATE = "truncate"
    FDATASYNC = "fdatasync"
    SYNC_ALL = "sync_all"
    RENAME = "rename"
    UNLINK = "unlink"
    RMDIR = "rmdir"
    FSYNC_DIR = "fsync_dir"
    FREE_BYTES = "free_bytes"


@dataclass(frozen=True, slots=True)
class _NameChange:
    """A change of names: `removed` loses its name, `added` gets one; a rename does both in one step."""

    removed: Path | None
    added: Path | None
    inode: Inode | None
    """None for a directory."""


@dataclass(slots=True)
class _Fault:
    operation: Operation
    error: int
    after_calls: int
    after_bytes: int
    times: int
    path_contains: str


class FaultyDisk:
    """A `Disk` in memory; thread-safe.

    Args:
        seed: of every random choice.
        capacity_bytes: bytes that files may hold together; None for no limit. May be changed at any time.
        short_writes: let writes take fewer bytes than given, at random.
    """

    def __init__(self, *, seed: int = 0, capacity_bytes: int | None = None, short_writes: bool = False) -> None:
        self.capacity_bytes = capacity_bytes
        self.short_writes = short_writes
        self.calls: Counter[Operation] = Counter()
        """The number of calls of each operation."""
        self._rng = Random(seed)
        self._guard = RLock()
        self._names: dict[Path, Inode | None] = {Path("/"): None}
        self._durable_names: dict[Path, Inode | None] = {Path("/"): None}
        self._changes: dict[Path, list[_NameChange]] = {}
        self._locks: set[Path] = set()
        self._faults: list[_Fault] = []
        self._generation = 0

    # --- faults ------------------------------------------------------------------------------------------------------

    def fail(
        self,
        operation: Operation,
        error: int = errno.EIO,
        *,
        after_calls: int = 0,
        after_bytes: int = 0,
        times: int | None = None,
        path_contains: str = "",
    ) -> None:
        """Let an operation fail.

        Args:
                operation: the operation.
                error: errno of the OSError raised.
                after_calls: the number of matching calls that still work.
            after_bytes: the bytes that are still written (WRITE only), the last write of them short.
            times: the number of failures; None fails until `heal`.
            path_contains: only on paths with this text.
        """
        with self._guard:
            count = _NO_LIMIT if times is None else times
            self._faults.append(_Fault(operation, error, after_calls, after_bytes, count, path_contains))

    def heal(self) -> None:
        """End all faults."""
        with self._guard:
            self._faults.clear()

    def kill(self) -> None:
        """Simulate the death of the process: handles and locks are gone, everything written stays."""
        with self._guard:
            self._generation += 1
            self._locks.clear()

    def crash(self) -> None:
        """Simulate the death of the machine: of everything that was not flushed, any part may be lost."""
        with self._guard:
            self.kill()
            for directory in sorted(self._changes, key=lambda path: len(path.parts)):
                changes = self._changes[directory]
                self._keep(changes[: self._rng.randint(0, len(changes))])
            self._changes.clear()
            names = dict(sorted(self._durable_names.items()))
            self._durable_names = {
                path: inode for path, inode in names.items() if all(parent in names for parent in path.parents)
            }
            self._names = dict(self._durable_names)
            for inode in {id(found): found for found in self._names.values() if found is not None}.values():
                inode.lose(self._rng)

    def flip_bit(self, path: Path, position: int, bit: int = 0) -> None:
        """Damage one byte of a file, on the device and in memory."""
        with self._guard:
            self._inode(path).flip_bit(position, bit)

    def content(self, path: Path) -> bytes:
        """Return a file's bytes as programs see them."""
        with self._guard:
            return bytes(self._inode(path).data)

    def put(self, path: Path, data: bytes) -> None:
        """Set a file's bytes, on the device and in memory; the directory must exist."""
        with self._guard:
            inode = Inode.durably(data)
            self._names[path] = self._durable_names[path] = inode

    def files(self) -> list[Path]:
        """Return all files, sorted."""
        with self._guard:
            return sorted(path for path, inode in self._names.items() if inode is not None)

    def _keep(self, changes: Sequence[_NameChange]) -> None:
        for change in changes:
            if change.removed is not None:
                self._durable_names.pop(change.removed, None)
            if change.added is not None:
                self._durable_names[change.added] = change.inode

    def _check(self, operation: Operation, path: Path, size: int = 0) -> int:
        """Raise the fault that is due; return how many of `size` bytes may be written."""
        self.calls[operation] += 1
        for fault in self._faults:
            if fault.operation is not operation or fault.path_contains not in str(path) or not fault.times:
                continue
            if fault.after_calls:
                fault.after_calls -= 1
            elif fault.after_bytes:
                size = min(size, fault.after_bytes)
                fault.after_bytes -= size
            else:
                fault.times -= 1
                raise OSError(fault.error, os.strerror(fault.error), str(path))
        return size

    # --- the port ----------------------------------------------------------------------------------------------------

    def makedirs(self, path: Path) -> None:
        """See `Disk`."""
        with self._guard:
            for directory in [*reversed(path.parents), path]:
                if directory not in self._names:
                    self._rename_to(None, directory, None)
                elif self._names[directory] is not None:
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(directory))

    def listdir(self, path: Path) -> list[str]:
        """See `Disk`."""
        with self._guard:
            self._directory(path)
            beginning = f"{path}".rstrip("/") + "/"
            names = [str(name)[len(beginning) :] for name in self._names if str(name).startswith(beginning)]
            return [name for name in names if name and "/" not in name]

    def exists(self, path: Path) -> bool:
        """See `Disk`."""
        with self._guard:
            return path in self._names

    def open(self, path: Path | str, *, create: bool = False) -> FaultyFile:
        """See `Disk`."""
        path = Path(path)
        with self._guard:
            self._check(Operation.OPEN, path)
            if create and path not in self._names:
                self._directory(path.parent)
                self._rename_to(None, path, Inode())
            return FaultyFile(self, path, self._inode(path), self._generation)

    def rename(self, source: Path, target: Path) -> None:
        """See `Disk`."""
        with self._guard:
            self._check(Operation.RENAME, source)
            self._rename_to(source, target, self._inode(source))

    def unlink(self, path: Path) -> None:
        """See `Disk`."""
        with self._guard:
            self._check(Operation.UNLINK, path)
            self._inode(path)
            self._rename_to(path, None, None)

    def rmdir(self, path: Path) -> None:
        """See `Disk`."""
        with self._guard:
            self._check(Operation.RMDIR, path)
            self._directory(path)
            if self.listdir(path):
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(path))
            # Names here differ by their paths alone: the content of this directory must not appear in the next one
            # of its name, which on a disk is another directory.
            self._keep(self._changes.pop(path, []))
            self._rename_to(path, None, None)

    def fsync_dir(self, path: Path) -> None:
        """See `Disk`."""
        with self._guard:
            self._directory(path)
            self._check(Operation.FSYNC_DIR, path)
            self._keep(self._changes.pop(path, []))

    def sync_all(self, path: Path) -> bool:
        """See `Disk`; as with FDATASYNC, pending bytes never reach the device after a failure."""
        with self._guard:
            if not any(lock.parent == path for lock in self._locks):
                return False
            inodes = {id(inode): inode for inode in self._names.values() if inode is not None}
            pending = [(inode, inode.take_pending()) for inode in inodes.values()]
            self._check(Operation.SYNC_ALL, path)
            for inode, changes in pending:
                inode.flush(changes)
            for directory in list(self._changes):
                self._keep(self._changes.pop(directory))
            return True

    def free_bytes(self, path: Path) -> int:
        """See `Disk`."""
        with self._guard:
            self._check(Operation.FREE_BYTES, path)
            return self._room()

    def lock(self, path: Path) -> FaultyLock:
        """See `Disk`."""
        with self._guard:
            if path in self._locks:
                raise locked_error(path, str(os.getpid()))
            self._locks.add(path)
            return FaultyLock(self, path, self._generation)

    def _rename_to(self, removed: Path | None, added: Path | None, inode: Inode | None) -> None:
        if removed is not None:
            del self._names[removed]
        if added is not None:
            self._names[added] = inode
        where = (added or removed or Path("/")).parent
        self._changes.setdefault(where, []).append(_NameChange(removed, added, inode))

    def _inode(self, path: Path) -> Inode:
        try:
            inode = self._names[path]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from None
        if inode is None:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        return inode

    def _directory(self, path: Path) -> None:
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        if self._names[path] is not None:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))

    def _room(self) -> int:
        if self.capacity_bytes is None:
            return _NO_LIMIT
        used = sum(len(inode.data) for inode in self._names.values() if inode is not None)
        return max(0, self.capacity_bytes - used)

    def _unlock(self, path: Path, generation: int) -> None:
        with self._guard:
            if generation == self._generation:
                self._locks.discard(path)


class FaultyFile:
    """An open file of a `FaultyDisk`; of no use after the disk was killed or crashed."""

    def __init__(self, disk: FaultyDisk, path: Path, inode: Inode, generation: int) -> None:
        self._disk = disk
        self._path = path
        self._inode = inode
        self._generation = generation
        self._closed = False

    def size(self) -> int:
        """See `DiskFile`."""
        with self._disk._guard:
            self._check_open()
            return len(self._inode.data)

    def pread(self, size: int, position: int) -> bytes:
        """See `DiskFile`."""
        with self._disk._guard:
            self._check_open()
            self._disk._check(Operation.READ, self._path)
            return bytes(self._inode.data[position : position + size])

    def pwritev(self, buffers: Sequence[bytes], position: int) -> int:
        """See `DiskFile`."""
        with self._disk._guard:
            self._check_open()
            data = b"".join(buffers)
            size = self._disk._check(Operation.WRITE, self._path, len(data))
            grows = max(0, position + size - len(self._inode.data))
            size -= max(0, grows - self._disk._room())
            if size <= 0 < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
            if self._disk.short_writes and size > 1:
                size = self._disk._rng.randint(1, size)
            self._inode.do(Write(position, data[:size]))
            return size

    def truncate(self, size: int) -> None:
        """See `DiskFile`."""
        with self._disk._guard:
            self._check_open()
            self._disk._check(Operation.TRUNCATE, self._path)
            self._inode.do(Truncate(size))

    def fdatasync(self) -> None:
        """See `DiskFile`. When it fails, what was pending will never reach the device, also by a later call."""
        with self._disk._guard:
            self._check_open()
            pending = self._inode.take_pending()
            self._disk._check(Operation.FDATASYNC, self._path)
            self._inode.flush(pending)

    def close(self) -> None:
        """See `DiskFile`."""
        self._closed = True

    def _check_open(self) -> None:
        if self._closed or self._generation != self._disk._generation:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), str(self._path))


class FaultyLock:
    """A lock on a `FaultyDisk`."""

    def __init__(self, disk: FaultyDisk, path: Path, generation: int) -> None:
        self._disk = disk
        self._path = path
        self._generation = generation

    def release(self) -> None:
        """See `DirectoryLock`."""
        self._disk._unlock(self._path, self._generation)
        self._generation = -1
