"""Used signatures in a file, so that a Master that starts again accepts none of them a second time.

The invariants: what was recorded when the process ends, however it ends, is there at the next start; a record that
still counts is never overwritten; the size of the file is fixed. A record is written into mapped memory, without a
system call, so a slow disk holds up nobody. Only a power cut takes records that were not on the disk yet.

The file has records of 24 bytes: the time until which a signature counts (ms since 1970, big-endian, 0 in an empty
record), and 16 bytes that identify it. The oldest record is overwritten when all are used.
"""

from __future__ import annotations

import mmap
import os
import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_RECORD: Final = struct.Struct(">Q16s")
_PRIVATE: Final = 0o600


class UsedSignatures:
    """The file of one Master; use it with `most` signatures at a time."""

    def __init__(self, path: Path, *, most: int, now_ms: int) -> None:
        """Open the file, or make it; `found` are the signatures that count after `now_ms`, the oldest first.

        Raises:
            OSError: it cannot be read or written.
        """
        self._most = most
        self.found = _read(path, now_ms)[-most:]
        self._map = _write(path, self.found, most)
        self._next = len(self.found)

    def record(self, until_ms: int, digest: bytes) -> None:
        """Record a signature that counts until a time, in ms since 1970."""
        _RECORD.pack_into(self._map, self._next % self._most * _RECORD.size, until_ms, digest)
        self._next += 1

    def close(self) -> None:
        """Close the file. Idempotent; nothing can be recorded any more."""
        self._map.close()


def _read(path: Path, now_ms: int) -> list[tuple[int, bytes]]:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    whole = content[: len(content) // _RECORD.size * _RECORD.size]
    return sorted(record for record in _RECORD.iter_unpack(whole) if record[0] > now_ms)


def _write(path: Path, records: list[tuple[int, bytes]], most: int) -> mmap.mmap:
    """Write a file that begins with these records and has room for `most`, in place of the one before; map it."""
    new = path.with_name(f"{path.name}.new")
    handle = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _PRIVATE)
    try:
        with os.fdopen(handle, "wb", closefd=False) as file:
            # Zeros rather than a hole: on a full disk a write into a hole would end the process.
            file.write(b"".join(_RECORD.pack(*record) for record in records).ljust(most * _RECORD.size, b"\0"))
        mapped = mmap.mmap(handle, most * _RECORD.size)
    finally:
        os.close(handle)
    new.replace(path)
    return mapped
