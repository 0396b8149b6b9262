"""Open files, few enough: a least-recently-used cache over the disk.

The invariant: a file that someone holds is never closed under him, and apart from files held right now no more than
`limit` are open, however many partitions there are.
"""

from __future__ import annotations

import errno
from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Final

from pytubemq.storage.disk.disk import NotOpenedError, open_file

if TYPE_CHECKING:
    from pathlib import Path

    from pytubemq.storage.disk.disk import Disk, DiskFile


NO_PLACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})
"""Errors with which no other file could be made either."""


class LostFileError(OSError):
    """A file that should be there is missing, or one cannot be opened or made: trouble of its partition alone."""

    @property
    def text(self) -> str:
        """The fault and the file that it is in."""
        how = "is missing" if self.errno == errno.ENOENT else f"cannot be opened: {self.strerror}"
        return f"{self.filename} {how}"


class _Entry:
    __slots__ = ("doomed", "file", "users")

    def __init__(self, file: DiskFile) -> None:
        self.file = file
        self.users = 0
        self.doomed = False


class _Borrowed:
    """A file that is not closed while a `with` runs."""

    __slots__ = ("_cache", "_entry")

    def __init__(self, cache: FileCache, entry: _Entry) -> None:
        self._cache = cache
        self._entry = entry

    def __enter__(self) -> DiskFile:
        return self._entry.file

    def __exit__(self, *_: object) -> None:
        self._cache.give_back(self._entry)


class FileCache:
    """Files by path; thread-safe."""

    def __init__(self, disk: Disk, *, limit: int) -> None:
        self.disk = disk
        self._limit = max(1, limit)
        # Held to look up and to open, never while a file is read, written, flushed or closed.
        self._lock = Lock()
        # In order of use. By text, as making a `Path` of a name takes longer than opening the file.
        self._entries: OrderedDict[str, _Entry] = OrderedDict()

    @property
    def open_files(self) -> int:
        """Files open now."""
        return len(self._entries)

    def borrow(self, path: Path | str, *, create: bool = False) -> _Borrowed:
        """Lend the file at `path`, open while a `with` runs; with `create` an absent one is made.

        Raises:
            NotOpenedError: no handle or memory for it now. LostFileError: the file cannot be opened, or not be made.
            OSError: there is no place to make one.
        """
        return _Borrowed(self, self._take(str(path), create))

    def give_back(self, entry: _Entry) -> None:
        """Take back a borrowed file; called once for each `borrow`."""
        with self._lock:
            entry.users -= 1
            if len(self._entries) <= self._limit and not entry.doomed:
                return
            closing = self._surplus()
            if entry.doomed and not entry.users:
                closing.append(entry.file)
        # Outside the lock: a close can take long on some file systems, and every other reader would wait for it.
        for file in closing:
            file.close()

    def _take(self, path: str, create: bool) -> _Entry:
        with self._lock:
            entry = self._entries.get(path)
            if entry is None:
                # Opened under the lock: two openers of one path must end up with one entry.
                entry = self._entries[path] = _Entry(self._open(path, create))
            else:
                self._entries.move_to_end(path)
            entry.users += 1
            return entry

    def _open(self, path: str, create: bool) -> DiskFile:
        try:
            return open_file(self.disk, path, create=create)
        except NotOpenedError:
            raise
        except OSError as error:
            # A full disk concerns all partitions; it must not pass for the trouble of the one that met it first.
            if create and error.errno in NO_PLACE:
                raise
            raise LostFileError(error.errno, error.strerror, path) from error

    def _surplus(self) -> list[DiskFile]:
        """Take the oldest unused files beyond the limit out of the cache."""
        surplus = len(self._entries) - self._limit
        if surplus <= 0:
            return []
        idle: list[str] = []
        for path, entry in self._entries.items():  # looks no further than it must: it runs for every file of thousands
            if not entry.users:
                idle.append(path)
                if len(idle) == surplus:
                    break
        return [self._entries.pop(path).file for path in idle]

    def forget(self, path: Path | str) -> None:
        """Close a file that was removed; the next `borrow` opens what is then at its path."""
        with self._lock:
            entry = self._entries.pop(str(path), None)
            if entry is None:
                return
            # It is out of the map, so nobody gets it any more; the last one that has it closes it.
            entry.doomed = True
            idle = not entry.users
        if idle:
            entry.file.close()

    def close(self) -> None:
        """Close all; those in use close when they are given back."""
        with self._lock:
            entries = list(self._entries.values())
            self._entries.clear()
            for entry in entries:
                entry.doomed = True
            idle = [entry.file for entry in entries if not entry.users]
        for file in idle:
            file.close()
