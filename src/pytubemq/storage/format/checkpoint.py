"""The checkpoint: one small file that says how far the partition logs may be trusted, and all confirmed offsets.

The invariant: it replaces its predecessor in one step, and only after everything it speaks of is on the device; what
it does not cover is in the journal from the place it names.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from zlib import crc32

from pytubemq.storage.disk.disk import flush_directory, open_file, read_exactly, write_all
from pytubemq.storage.format.header import HEADER_BYTES, FileHeader, FileKind, corrupt_error, decode_header
from pytubemq.storage.format.record import (
    GroupKey,
    LogEnd,
    LostRange,
    PartitionKey,
    WindowKey,
    decode_records,
    encode_end,
    encode_lost_range,
    encode_offset,
    encode_window,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pytubemq.core.sequences import Window
    from pytubemq.storage.disk.disk import Disk

NAME: Final = "checkpoint"
_BODY = struct.Struct("<QQQQ")  # next sequence, last message id, known sequence, bytes of records
RECORDS_AT: Final = HEADER_BYTES + _BODY.size
"""The byte of the file at which the first record begins."""


@dataclass(slots=True)
class Checkpoint:
    """Replay starts at byte `journal_position` of journal file `journal` with block `next_sequence`."""

    journal: int = 1
    journal_position: int = HEADER_BYTES
    next_sequence: int = 1
    last_message_id: int = 0
    known_sequence: int = 1
    """Positions and windows are as of the block before this one, which may be behind the place: of blocks before it a
    replay takes the messages alone. All of them were on the device."""
    ends: dict[PartitionKey, LogEnd] = field(default_factory=dict)
    """The part of each partition's log that is on the device."""
    confirmed: dict[GroupKey, int] = field(default_factory=dict)
    windows: dict[WindowKey, Window] = field(default_factory=dict)
    """The known sequences of producers, the longest unused first."""
    lost_ranges: list[LostRange] = field(default_factory=list)
    """Holes known so far."""

    def forget(self) -> None:
        """Drop all but the place in the journal."""
        self.ends, self.confirmed, self.windows, self.lost_ranges = {}, {}, {}, []


def write_checkpoint(disk: Disk, root: Path, checkpoint: Checkpoint) -> None:
    """Put `checkpoint` in the place of the one before; durable on return. Raises OSError, the old one then counts."""
    # The header's two numbers are the place to replay from.
    header = FileHeader(FileKind.CHECKPOINT, checkpoint.journal, checkpoint.journal_position).encode()
    parts = [encode_end(*partition, end) for partition, end in checkpoint.ends.items()]
    parts += (encode_offset(key, offset) for key, offset in checkpoint.confirmed.items())
    parts += (encode_window(key, window) for key, window in checkpoint.windows.items())
    parts += map(encode_lost_range, checkpoint.lost_ranges)
    records = b"".join(parts)
    body = _BODY.pack(checkpoint.next_sequence, checkpoint.last_message_id, checkpoint.known_sequence, len(records))
    body += records
    fresh = root / f"{NAME}.tmp"
    file = open_file(disk, fresh, create=True)
    try:
        # A crash may have left an unfinished one, and a longer one's end must not follow this one's check.
        file.truncate(0)
        write_all(file, [header, body, crc32(body).to_bytes(4, "little")], 0)
        # Before it gets the name: a rename can reach the device ahead of the content.
        file.fdatasync()
    finally:
        file.close()
    disk.rename(fresh, root / NAME)
    # Until this returns a power loss may bring the old checkpoint back, so callers remove nothing before.
    flush_directory(disk, root)


def read_checkpoint(disk: Disk, root: Path) -> Checkpoint | None:
    """Return the checkpoint of a store, None if it never made one.

    Raises:
        CorruptError: it fails its check. NewerVersionError: a newer version wrote it.
    """
    path = root / NAME
    # A new store, or a lost file: the caller decides, who sees the others.
    if not disk.exists(path):
        return None
    file = disk.open(path)
    try:
        data = read_exactly(file, file.size(), 0)
    finally:
        file.close()
    header = decode_header(data, FileKind.CHECKPOINT, path)
    if header is None:
        raise corrupt_error(path, 0, "the header fails its check")
    body, check = data[HEADER_BYTES:-4], data[-4:]
    # Used as a whole or not at all; what a damaged one still has is for a repair to judge.
    if len(body) < _BODY.size or crc32(body).to_bytes(4, "little") != check:
        raise corrupt_error(path, HEADER_BYTES, "the content fails its check")
    next_sequence, last_message_id, known_sequence, _ = _BODY.unpack_from(body)
    try:
        records = decode_records(body[_BODY.size :])
    except (ValueError, struct.error) as error:
        raise corrupt_error(path, HEADER_BYTES, f"the records contradict each other ({error})") from error
    return Checkpoint(
        header.number,
        header.base,
        next_sequence,
        last_message_id,
        known_sequence,
        ends=records.ends,
        confirmed=records.confirmed,
        windows=records.windows,
        lost_ranges=records.lost_ranges,
    )
