"""Small text files beside a store, replaced as a whole, with a checksum of all their bytes at the end.

The invariants: a file is replaced in one step, so that it is the old one or the new one after a crash; none of its text
is used before the checksum is verified. Files of earlier versions have no checksum; the caller decides about them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from zlib import crc32

from pytubemq.storage.disk.disk import read_exactly, write_all

if TYPE_CHECKING:
    from pathlib import Path

    from pytubemq.storage.disk.disk import Disk

_SEAL: Final = re.compile(rb'"crc32":"([0-9a-f]{8})"}\n')
_SEAL_BYTES: Final = len(b'"crc32":"00000000"}\n')


def seal(text: bytes) -> bytes:
    """Return the text with its checksum appended as the last member of a JSON object that the text leaves open."""
    return text + b'"crc32":"%08x"}\n' % crc32(text)


def unseal(data: bytes) -> bytes | None:
    """Return the text before the checksum; None if there is no checksum, or it fails."""
    # At a fixed place only: the text itself may contain something that looks like a checksum.
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
    """Replace a file's content, durable on return. Raises OSError; the previous file is intact then."""
    fresh = path.with_name(f"{path.name}.new")
    # Left by a crash; if it is longer than the new content, its end would stay behind it.
    if disk.exists(fresh):
        disk.unlink(fresh)
    file = disk.open(fresh, create=True)
    try:
        write_all(file, [data], 0)
        file.fdatasync()
    finally:
        file.close()
    # Content, then name, then directory: whenever the power goes, the old file or the new one is there whole.
    disk.rename(fresh, path)
    disk.fsync_dir(path.parent)
