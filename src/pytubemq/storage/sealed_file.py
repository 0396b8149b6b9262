"""Small text files beside a store that are replaced as a whole, with a check of all their bytes at the end.

The invariants: a file is replaced in one step, so that it is the old one or the new one after a crash; no byte of its
text is used before the check at its end has proved all of them. Files of versions before the check have none, and are
for the caller to judge.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from zlib import crc32

from pytubemq.storage.disk import read_exactly, write_all

if TYPE_CHECKING:
    from pathlib import Path

    from pytubemq.storage.disk import Disk

_SEAL: Final = re.compile(rb'"crc32":"([0-9a-f]{8})"}\n')
_SEAL_BYTES: Final = len(b'"crc32":"00000000"}\n')


def seal(text: bytes) -> bytes:
    """Return the text with its check behind it, as the last member of a JSON object that the text leaves open."""
    return text + b'"crc32":"%08x"}\n' % crc32(text)


def unseal(data: bytes) -> bytes | None:
    """Return the text before the check; None if there is no check, or it fails."""
    text, found = data[:-_SEAL_BYTES], _SEAL.fullmatch(data[-_SEAL_BYTES:])
    return text if found is not None and int(found[1], 16) == crc32(text) else None


def read_whole(disk: Disk, path: Path) -> bytes | None:
    """Return all bytes of a file, None if there is none. Raises OSError."""
    if not disk.exists(path):
        return None
    file = disk.open(path)
    try:
        return read_exactly(file, file.size(), 0)
    finally:
        file.close()


def replace_whole(disk: Disk, path: Path, data: bytes) -> None:
    """Put new content in a file, durable on return. Raises OSError, the previous file then is intact."""
    fresh = path.with_name(f"{path.name}.new")
    if disk.exists(fresh):
        disk.unlink(fresh)
    file = disk.open(fresh, create=True)
    try:
        write_all(file, [data], 0)
        file.fdatasync()
    finally:
        file.close()
    disk.rename(fresh, path)
    disk.fsync_dir(path.parent)
