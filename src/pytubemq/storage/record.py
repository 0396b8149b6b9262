"""The bytes on disk: file headers, journal blocks and their records, index entries.

The invariant: whatever is read back proves itself (magic, version, feature bits, checksum) before a field of it is
used, and a file of a newer version is refused before anything is changed. All numbers are little-endian.
`docs/design/storage.md` shows the same layout as tables.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

from pytubemq.errors import CorruptError, NewerVersionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

VERSION: Final = 1
"""Of every file kind; a kind that changes gets its own."""
KNOWN_FEATURES: Final = 0
"""Feature bits this version understands; a file with any other is refused."""


class FileKind(Enum):
    """What a file is; the value is its magic."""

    JOURNAL = b"PTMQJRNL"
    LOG = b"PTMQPLOG"
    INDEX = b"PTMQPIDX"
    CHECKPOINT = b"PTMQCKPT"


_HEADER = struct.Struct("<8sIIQQQI16xI")
HEADER_BYTES: Final = _HEADER.size  # 64
_CHECKED: Final = HEADER_BYTES - 4


class FileHeader(NamedTuple):
    """The first 64 bytes of a file.

    `number` is the journal's number or the segment's base ordinal; `base` the journal's first block sequence or the
    segment's base position; `salt` a random number that seeds the checks of a journal's blocks.
    """

    kind: FileKind
    number: int
    base: int
    salt: int = 0

    def encode(self) -> bytes:
        """The 64 bytes."""
        head = _HEADER.pack(self.kind.value, VERSION, 0, 0, self.number, self.base, self.salt, 0)[:_CHECKED]
        return head + crc32(head).to_bytes(4, "little")


def decode_header(data: bytes, kind: FileKind, path: Path) -> FileHeader | None:
    """The header at the start of `data`; None if the bytes are not a whole, sound header of this kind.

    Raises:
        NewerVersionError: the header is sound and from a newer version, or has feature bits unknown here.
    """
    if len(data) < HEADER_BYTES:
        return None
    magic, version, _, features, number, base, salt, check = _HEADER.unpack_from(data)
    if magic != kind.value or check != crc32(data[:_CHECKED]):
        return None
    if version > VERSION or features & ~KNOWN_FEATURES:
        raise NewerVersionError(
            f"{path} has version {version} and features {features:#x}; this program reads up to version {VERSION} "
            f"and features {KNOWN_FEATURES:#x}",
            hint="run the newer version of pytubemq that wrote it; the file was left untouched",
        )
    return FileHeader(kind, number, base, salt)


# --- index entries ----------------------------------------------------------------------------------------------

_ENTRY = struct.Struct("<QqIiI")
_ENTRY_FULL = struct.Struct("<QqIiII")
INDEX_BYTES: Final = _ENTRY_FULL.size  # 32
_POSITION = struct.Struct("<Q")
_SIZES_CODES = struct.Struct("<16xIi8x")


class IndexEntry(NamedTuple):
    """Where one message lies; `position` counts the partition's bytes from its very first message."""

    position: int
    append_time_ms: int
    size_bytes: int
    key_code: int
    crc: int


def encode_index_entry(
    ordinal: int, position: int, append_time_ms: int, size_bytes: int, key_code: int, crc: int
) -> bytes:
    """The 32 bytes; the self check also covers the ordinal, so an entry in another's place is found."""
    entry = _ENTRY.pack(position, append_time_ms, size_bytes, key_code, crc)
    return entry + crc32(entry, ordinal & 0xFFFFFFFF).to_bytes(4, "little")


def decode_index_entry(data: bytes, at: int, ordinal: int) -> IndexEntry | None:
    """Entry number `at` of an index blob, None if it fails its self check."""
    start = at * INDEX_BYTES
    position, time_ms, size, code, crc, check = _ENTRY_FULL.unpack_from(data, start)
    if check != crc32(data[start : start + INDEX_BYTES - 4], ordinal & 0xFFFFFFFF):
        return None
    return IndexEntry(position, time_ms, size, code, crc)


def index_position(data: bytes, at: int) -> int:
    """The position in entry number `at`, unchecked."""
    position: int = _POSITION.unpack_from(data, at * INDEX_BYTES)[0]
    return position


def sizes_and_codes(data: bytes) -> Iterator[tuple[int, int]]:
    """Size and key code of each entry of an index blob, unchecked."""
    return _SIZES_CODES.iter_unpack(data)


# --- runs and confirmations ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive messages of one partition: the very bytes of its index and of its log."""

    topic: str
    partition_id: int
    base_ordinal: int
    base_position: int
    count: int
    index: bytes
    entries: bytes

    @property
    def end_ordinal(self) -> int:
        return self.base_ordinal + self.count

    @property
    def end_position(self) -> int:
        return self.base_position + len(self.entries)

    def position_of(self, ordinal: int) -> int:
        """Position of a message of the run, or of its end."""
        at = ordinal - self.base_ordinal
        return self.end_position if at == self.count else index_position(self.index, at)

    def from_ordinal(self, ordinal: int) -> Run:
        """The run without its messages before `ordinal`."""
        if ordinal <= self.base_ordinal:
            return self
        at, position = ordinal - self.base_ordinal, self.position_of(ordinal)
        index, entries = self.index[at * INDEX_BYTES :], self.entries[position - self.base_position :]
        return Run(self.topic, self.partition_id, ordinal, position, self.count - at, index, entries)

    def is_sound(self) -> bool:
        """Whether every index entry passes its self check and names exactly its own, intact bytes of `entries`."""
        position = self.base_position
        for at in range(self.count):
            entry = decode_index_entry(self.index, at, self.base_ordinal + at)
            if entry is None or entry.position != position:
                return False
            start = position - self.base_position
            position += entry.size_bytes
            if position > self.end_position or crc32(self.entries[start : start + entry.size_bytes]) != entry.crc:
                return False
        return position == self.end_position


GroupKey = tuple[str, str, int]
"""Group, topic, partition id."""
FORGOTTEN: Final = -1
"""In the place of a confirmed offset: the group has none in that partition any more."""

_RECORD = struct.Struct("<BBH")  # kind, bytes of the topic's name, bytes of the group's name
_MESSAGES = struct.Struct("<IQQII")  # partition id, base ordinal, base position, count, bytes of entries
_OFFSET = struct.Struct("<Iq")  # partition id, confirmed offset or FORGOTTEN
_END = struct.Struct("<IQQ")  # partition id, end ordinal, end position
_KIND_MESSAGES: Final = 1
_KIND_OFFSET: Final = 2
_KIND_END: Final = 3


def encode_meta(runs: Iterable[Run], confirmed: Mapping[GroupKey, int]) -> list[bytes]:
    """The records of a block, without the messages' own bytes."""
    parts: list[bytes] = []
    for run in runs:
        topic = run.topic.encode()
        parts += (
            _RECORD.pack(_KIND_MESSAGES, len(topic), 0),
            topic,
            _MESSAGES.pack(run.partition_id, run.base_ordinal, run.base_position, run.count, len(run.entries)),
            run.index,
        )
    parts += (encode_offset(key, offset) for key, offset in confirmed.items())
    return parts


def encode_offset(key: GroupKey, offset: int) -> bytes:
    """A confirmed offset as a record."""
    group, topic = key[0].encode(), key[1].encode()
    return _RECORD.pack(_KIND_OFFSET, len(topic), len(group)) + topic + group + _OFFSET.pack(key[2], offset)


def encode_end(topic: str, partition_id: int, end_ordinal: int, end_position: int) -> bytes:
    """How far a partition's log is on the device, as a record of the checkpoint."""
    name = topic.encode()
    return _RECORD.pack(_KIND_END, len(name), 0) + name + _END.pack(partition_id, end_ordinal, end_position)


@dataclass(slots=True)
class Records:
    """What a sequence of records said."""

    runs: list[Run]
    confirmed: dict[GroupKey, int]
    ends: dict[tuple[str, int], tuple[int, int]]


def decode_records(meta: bytes, entries: bytes = b"") -> Records:
    """The inverse of the encoders above; `entries` are the messages' bytes that the runs refer to, in order.

    Raises:
        ValueError, struct.error: the bytes are no records (only if something passed its checksum and is yet wrong).
    """
    found = Records([], {}, {})
    at = taken = 0
    while at < len(meta):
        kind, topic_bytes, group_bytes = _RECORD.unpack_from(meta, at)
        at += _RECORD.size
        topic = meta[at : at + topic_bytes].decode()
        at += topic_bytes
        group = meta[at : at + group_bytes].decode()
        at += group_bytes
        if kind == _KIND_MESSAGES:
            partition_id, ordinal, position, count, size = _MESSAGES.unpack_from(meta, at)
            at += _MESSAGES.size
            index = meta[at : at + count * INDEX_BYTES]
            at += len(index)
            run = Run(topic, partition_id, ordinal, position, count, index, entries[taken : taken + size])
            taken += size
            if len(run.entries) != size or len(index) != count * INDEX_BYTES:
                raise ValueError("a run is shorter than it says")
            found.runs.append(run)
        elif kind == _KIND_OFFSET:
            partition_id, offset = _OFFSET.unpack_from(meta, at)
            at += _OFFSET.size
            found.confirmed[group, topic, partition_id] = offset
        elif kind == _KIND_END:
            partition_id, ordinal, position = _END.unpack_from(meta, at)
            at += _END.size
            found.ends[topic, partition_id] = (ordinal, position)
        else:
            raise ValueError(f"unknown record kind {kind}")
    if taken != len(entries):
        raise ValueError("messages that no run claims")
    return found


# --- blocks -------------------------------------------------------------------------------------------------------

BLOCK_MAGIC: Final = b"PTMQBLK1"
_BLOCK = struct.Struct("<8sIIIIQQQ")
BLOCK_HEADER_BYTES: Final = _BLOCK.size  # 48
_BLOCK_CHECK_AT: Final = 8


class BlockHeader(NamedTuple):
    """The head of a block; its check covers itself and the records, each message has its own in its index entry.

    `synced` is the last sequence that was known to be on the device when this block was written: it tells a torn
    tail (nothing lost) from a hole in what was promised.
    """

    crc: int
    total_bytes: int
    meta_bytes: int
    record_count: int
    sequence: int
    last_message_id: int
    synced: int


def encode_block_header(
    meta: bytes, entries_bytes: int, *, records: int, sequence: int, last_message_id: int, synced: int, salt: int
) -> bytes:
    """The head of a block whose records are `meta`, followed by that many bytes of messages."""
    total = BLOCK_HEADER_BYTES + len(meta) + entries_bytes
    head = _BLOCK.pack(BLOCK_MAGIC, 0, total, len(meta), records, sequence, last_message_id, synced)
    crc = crc32(meta, crc32(head[_BLOCK_CHECK_AT + 4 :], salt))
    return head[:_BLOCK_CHECK_AT] + crc.to_bytes(4, "little") + head[_BLOCK_CHECK_AT + 4 :]


def decode_block_header(data: bytes, at: int, room: int) -> BlockHeader | None:
    """The head at `at`, not yet checked; None if it cannot be one that fits into `room` bytes."""
    if room < BLOCK_HEADER_BYTES or len(data) - at < BLOCK_HEADER_BYTES:
        return None
    magic, *fields = _BLOCK.unpack_from(data, at)
    head = BlockHeader(*fields)
    if magic != BLOCK_MAGIC or not BLOCK_HEADER_BYTES + head.meta_bytes <= head.total_bytes <= room:
        return None
    return head


def block_is_sound(head: BlockHeader, block: bytes, salt: int) -> bool:
    """Whether head and records pass their check; `block` begins with the head."""
    covered = memoryview(block)[_BLOCK_CHECK_AT + 4 : BLOCK_HEADER_BYTES + head.meta_bytes]
    return crc32(covered, salt) == head.crc


def corrupt(path: Path, position: int, what: str) -> CorruptError:
    """The error for bytes that fail their check where nothing may be cut."""
    return CorruptError(
        f"{path} is damaged at byte {position}: {what}",
        hint="restore the file from a backup; nothing was changed",
    )
