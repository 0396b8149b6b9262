"""A disk whose changes stay in memory: a store is opened on it as a Broker would open it, and nothing is changed.

The invariant: files below are opened for reading only, and what is written is seen by whoever reads afterwards.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pytubemq.storage.tools.read.store_access import ReadingDisk

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytubemq.storage.disk.disk import OsFile


@dataclass(slots=True)
class _Content:
    """A file's content: on the disk up to `kept` bytes, then what was written after them."""

    base: Path | None
    kept: int = 0
    behind: bytearray = field(default_factory=bytearray)

    @property
    def size(self) -> int:
        return self.kept + len(self.behind)


class OverlayFile:
    """An open file of an `OverlayDisk`."""

    def __init__(self, content: _Content, below: OsFile | None) -> None:
        self._content = content
        self._below = below

    def size(self) -> int:
        return self._content.size

    def pread(self, size: int, position: int) -> bytes:
        content = self._content
        data = b""
        if position < content.kept and self._below is not None:
            data = self._below.pread(min(size, content.kept - position), position)
            # A read that comes short below must not be continued with bytes from elsewhere.
            if position + len(data) < content.kept:
                return data
        start = position + len(data) - content.kept
        return data + bytes(content.behind[start : start + size - len(data)])

    def pwritev(self, buffers: Sequence[bytes], position: int) -> int:
        data = b"".join(buffers)
        content = self._content
        # What is overwritten is taken into memory from there to the end, so that a file is two pieces at most.
        if position < content.kept:
            below = b"" if self._below is None else self._below.pread(content.kept - position, position)
            content.behind[:0] = below
            content.kept = position
        start = position - content.kept
        # A gap reads as zeros, as it would on a disk.
        if start > len(content.behind):
            content.behind += bytes(start - len(content.behind))
        content.behind[start : start + len(data)] = data
        return len(data)

    def truncate(self, size: int) -> None:
        content = self._content
        if size <= content.kept:
            content.kept, content.behind = size, bytearray()
        elif size <= content.size:
            del content.behind[size - content.kept :]
        else:
            content.behind += bytes(size - content.size)

    def fdatasync(self) -> None:
        """Do nothing: there is no device."""

    def close(self) -> None:
        if self._below is not None:
            self._below.close()


class _NoLock:
    def release(self) -> None:
        """Do nothing: nothing is held."""


class OverlayDisk:
    """A disk whose changes stay in memory. Whoever needs others kept out holds the directory himself."""

    def __init__(self) -> None:
        self._below = ReadingDisk()
        self._contents: dict[Path, _Content] = {}
        self._gone: set[Path] = set()

    def changed(self) -> list[Path]:
        """Return the files on the disk that would have been changed or removed."""
        written = {
            path
            for path, content in self._contents.items()
            # Opening a file makes an entry, too; only one whose content differs is changed.
            if content.base != path or content.behind or content.kept != path.stat().st_size
        }
        return sorted(path for path in written | self._gone if path.is_file())

    def makedirs(self, path: Path) -> None:
        """Refuse a path where a file is in the way, as the disk would; directories come with their files."""
        for directory in (path, *path.parents):
            if directory in self._contents or (directory not in self._gone and directory.is_file()):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))

    def listdir(self, path: Path) -> list[str]:
        if path in self._contents:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
        names = {name for name in self._below.listdir(path) if path / name not in self._gone}
        # What was made may be several levels below; its first part is a name in here.
        names.update(rest.split(os.sep, 1)[0] for rest in self._list_made_below(path))
        return sorted(names)

    def exists(self, path: Path) -> bool:
        if path in self._contents or (path not in self._gone and self._below.exists(path)):
            return True
        return any(self._list_made_below(path))

    def _list_made_below(self, path: Path) -> Iterator[str]:
        """Yield what follows the directory in the path of each file below it; of texts, as a plan asks it for each."""
        beginning = os.path.join(path, "")
        return (made[len(beginning) :] for made in map(str, self._contents) if made.startswith(beginning))

    def open(self, path: Path | str, *, create: bool = False) -> OverlayFile:
        path = Path(path)
        content = self._contents.get(path)
        if content is None:
            if path in self._gone or not self._below.exists(path):
                if not create:
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
                content = _Content(None)
                self._contents[path] = content
                return OverlayFile(content, None)
            below = self._below.open(path)
            # Remembered with its size from the first opening on.
            content = self._contents[path] = _Content(path, below.size())
            return OverlayFile(content, below)
        return OverlayFile(content, None if content.base is None else self._below.open(content.base))

    def rename(self, source: Path, target: Path) -> None:
        # Makes an entry for a file that only the disk has, so that it can be known by another name.
        self.open(source).close()
        self._contents[target] = self._contents.pop(source)
        self._gone.add(source)
        self._gone.discard(target)

    def unlink(self, path: Path) -> None:
        if not self.exists(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        self._contents.pop(path, None)
        self._gone.add(path)

    def rmdir(self, path: Path) -> None:
        self._gone.add(path)

    def fsync_dir(self, path: Path) -> None:
        """Do nothing: there is no device."""

    def sync_all(self, path: Path) -> bool:
        return True

    def free_bytes(self, path: Path) -> int:
        # Memory is not the disk's space; a plan must not fail for want of it.
        return 1 << 62

    def lock(self, path: Path) -> _NoLock:
        return _NoLock()
