"""The seal beside a metadata file: a second copy of the totals that the file should have.

The invariant: the seal is written after the change that it counts, so a file with fewer changes than its seal has lost
some. It has two alternating slots; if one is torn or damaged, the other has the previous totals.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, Final
from zlib import crc32

from pytubemq.storage.metastore.checks import Totals

if TYPE_CHECKING:
    from pathlib import Path

_SLOT: Final = struct.Struct("<4sQQQ")
_CHECK: Final = struct.Struct("<I")
_MAGIC: Final = b"PTS1"
_SLOT_BYTES: Final = 512
"""Each slot fills a sector, so that a torn write leaves the other intact."""


def seal_path(path: Path) -> Path:
    """Return where the seal of the metadata file `path` is."""
    return path.with_suffix(".seal")


def read_seal(path: Path) -> Totals | None:
    """Return the newest sound slot of the seal at `path`; None if there is no file, or no sound slot. Blocks."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    found = [_parse(data[begin : begin + _SLOT_BYTES]) for begin in (0, _SLOT_BYTES)]
    # The other one has the totals before these, or is torn.
    return max((slot for slot in found if slot is not None), key=lambda slot: slot.generation, default=None)


def write_seal(path: Path, totals: Totals) -> None:
    """Write a slot; it is on the device when this returns. Raises OSError. Blocks."""
    body = _SLOT.pack(_MAGIC, totals.generation, totals.records, totals.total)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        # Into the slot of the totals before the last: a torn write never costs both.
        os.pwrite(fd, body + _CHECK.pack(crc32(body)), totals.generation % 2 * _SLOT_BYTES)
        os.fdatasync(fd)
    finally:
        os.close(fd)


def _parse(slot: bytes) -> Totals | None:
    if len(slot) < _SLOT.size + _CHECK.size:
        return None
    body = slot[: _SLOT.size]
    magic, generation, records, total = _SLOT.unpack(body)
    (check,) = _CHECK.unpack_from(slot, _SLOT.size)
    return Totals(generation, records, total) if (magic, check) == (_MAGIC, crc32(body)) else None
