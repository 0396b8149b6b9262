"""The head of a journal block.

The invariant: a block counts only if its check, seeded with its file's random salt, fits head and records, so that no
bytes a client chooses can pass for one; each record of messages has a check of its own in its index entry.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

# Makes blocks easy to find behind damage; whether one is real is for its check to say.
BLOCK_MAGIC: Final = b"PTMQBLK1"
_BLOCK = Struct("<8sIIIIQQQ")
BLOCK_HEADER_BYTES: Final = _BLOCK.size  # 48
# What is before is outside the check: the magic, which is compared, and behind it the check itself.
_BLOCK_CHECK_AT: Final = 8


class BlockHeader(NamedTuple):
    """The head of a block; its check covers itself and the records, each message has its own in its index entry.

    `synced` is the last sequence that was known to be on the device when this block was written: it sets apart a
    torn tail (nothing lost) and a hole in what was promised.
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
    """Return the head of a block whose records are `meta`, followed by that many bytes of messages."""
    total = BLOCK_HEADER_BYTES + len(meta) + entries_bytes
    head = _BLOCK.pack(BLOCK_MAGIC, 0, total, len(meta), records, sequence, last_message_id, synced)
    # The messages are left out: each has a check in its index entry, which is among the records, so a damaged message
    # costs that message and not the block.
    crc = crc32(meta, crc32(head[_BLOCK_CHECK_AT + 4 :], salt))
    return head[:_BLOCK_CHECK_AT] + crc.to_bytes(4, "little") + head[_BLOCK_CHECK_AT + 4 :]


def decode_block_header(data: bytes, at: int, room: int) -> BlockHeader | None:
    """Return the head at `at`, not yet checked; None if it cannot be one that fits into `room` bytes."""
    if room < BLOCK_HEADER_BYTES or len(data) - at < BLOCK_HEADER_BYTES:
        return None
    magic, *fields = _BLOCK.unpack_from(data, at)
    head = BlockHeader(*fields)
    # Sizes are checked against the room before anything is read by them: the head is not proven yet.
    if magic != BLOCK_MAGIC or not BLOCK_HEADER_BYTES + head.meta_bytes <= head.total_bytes <= room:
        return None
    return head


def block_is_sound(head: BlockHeader, block: bytes | memoryview, salt: int) -> bool:
    """True if head and records pass their check; `block` begins with the head and contains the records."""
    end = BLOCK_HEADER_BYTES + head.meta_bytes
    covered = memoryview(block)[_BLOCK_CHECK_AT + 4 : end]
    return len(block) >= end and crc32(covered, salt) == head.crc
