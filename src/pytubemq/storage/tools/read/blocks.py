"""The blocks of a journal file, one after the other, also behind damage.

The invariant: a block that is given out has passed its check and has a higher sequence than those before it; every byte
of the part that was read is in a block or in `BadBytes`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pytubemq.storage.disk.disk import read_exactly
from pytubemq.storage.format.block import BLOCK_HEADER_BYTES, BLOCK_MAGIC, block_is_sound, decode_block_header
from pytubemq.storage.format.record import decode_records
from pytubemq.storage.journal.journal import is_padding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.storage.disk.disk import DiskFile
    from pytubemq.storage.format.block import BlockHeader
    from pytubemq.storage.format.record import Records


@dataclass(frozen=True, slots=True)
class FoundBlock:
    """A block whose head and records are sound; its messages have checks of their own."""

    position: int
    head: BlockHeader
    records: Records

    @property
    def end(self) -> int:
        """The byte behind it."""
        return self.position + self.head.total_bytes


class BadBytes(NamedTuple):
    """Bytes that are no block."""

    position: int
    size_bytes: int


def walk_blocks(
    file: DiskFile, salt: int, start: int, stop: int, *, sequence: int | None = None
) -> Iterator[FoundBlock | BadBytes]:
    """Yield all blocks between two bytes of a journal file.

    Args:
        sequence: of the block that should be at `start`; None: whichever is there.

    Raises:
        OSError: the file could not be read.
    """
    at = start
    while at < stop:
        block = _block(file, salt, at, stop)
        if block is None or (sequence is not None and block.head.sequence != sequence):
            block = _next_block(file, salt, at + 1, stop, sequence or 0)
            # Zeros at the end are no damage.
            if block is None and is_padding(file, at, stop):
                return
            end = stop if block is None else block.position
            yield BadBytes(at, end - at)
            if block is None:
                return
        yield block
        at, sequence = block.end, block.head.sequence + 1


def _block(file: DiskFile, salt: int, at: int, stop: int) -> FoundBlock | None:
    head = decode_block_header(read_exactly(file, BLOCK_HEADER_BYTES, at), 0, stop - at)
    if head is None:
        return None
    data = read_exactly(file, head.total_bytes, at)
    if len(data) < head.total_bytes or not block_is_sound(head, data, salt):
        return None
    view = memoryview(data)
    meta_end = BLOCK_HEADER_BYTES + head.meta_bytes
    try:
        return FoundBlock(at, head, decode_records(bytes(view[BLOCK_HEADER_BYTES:meta_end]), view[meta_end:]))
    # A check that passes by chance, or a fault of the writer: for a walk it is no block.
    except (ValueError, struct.error):
        return None


def _next_block(file: DiskFile, salt: int, at: int, stop: int, sequence: int) -> FoundBlock | None:
    # Rarely needed, and a file is at most some 64 MiB, so all of the rest is searched at once.
    rest = read_exactly(file, stop - at, at)
    found = rest.find(BLOCK_MAGIC)
    while found >= 0:
        block = _block(file, salt, at + found, stop)
        if block is not None and block.head.sequence >= sequence:
            return block
        found = rest.find(BLOCK_MAGIC, found + 1)
    return None
