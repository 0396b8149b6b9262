"""Recovery of what a damaged journal file or checkpoint has that proves itself otherwise.

The invariant: nothing is taken for a message unless its own check says so; a group's position is taken from a damaged
checkpoint only if it makes sense, and is then said to be unproven.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final
from zlib import crc32

from pytubemq.errors import MessageError
from pytubemq.model.names import check_group
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.storage.disk.disk import read_exactly
from pytubemq.storage.format.block import BLOCK_HEADER_BYTES, BLOCK_MAGIC, BlockHeader, decode_block_header
from pytubemq.storage.format.checkpoint import RECORDS_AT
from pytubemq.storage.format.header import HEADER_BYTES
from pytubemq.storage.format.record import Records, decode_one, decode_records
from pytubemq.storage.tools.read.blocks import BadBytes, walk_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.storage.disk.disk import DiskFile
    from pytubemq.storage.format.record import GroupKey, LogEnd, PartitionKey
    from pytubemq.storage.format.record_range import RecordRange

# The place in a file's header, which fails as a whole here but may be sound at these four bytes.
_SALT_AT: Final = 40
_CHECKED_AT: Final = 12
"""The offset in a block from which on its check counts."""


def find_salt(file: DiskFile) -> int | None:
    """Return the salt of a journal file whose header is damaged: as the header has it, or as its blocks' checks prove
    it."""
    size = file.size()
    if size <= HEADER_BYTES:
        return None
    written = int.from_bytes(read_exactly(file, 4, _SALT_AT), "little")
    # Cheapest first: one block that passes its check proves a salt.
    for salt in (written, *_salts_of_blocks(file, size)):
        if any(not isinstance(found, BadBytes) for found in walk_blocks(file, salt, HEADER_BYTES, size)):
            return salt
    return None


def _salts_of_blocks(file: DiskFile, size: int) -> Iterator[int]:
    """Yield the salts with which a block passes its check while all its messages pass theirs, which depend on no
    salt."""
    data = read_exactly(file, size - HEADER_BYTES, HEADER_BYTES)
    at = data.find(BLOCK_MAGIC)
    while at >= 0:
        head = decode_block_header(data, at, len(data) - at)
        if head is not None:
            runs = _runs(data[at : at + head.total_bytes], head)
            # Messages prove themselves without the salt. Where all of a block do, its head most
            # likely is sound, and its check gives the salt.
            if runs and all(run.records and run.is_sound() for run in runs):
                salt = _solve(data[at + _CHECKED_AT : at + BLOCK_HEADER_BYTES + head.meta_bytes], head.crc)
                if salt is not None:
                    yield salt
        at = data.find(BLOCK_MAGIC, at + 1)


def _solve(covered: bytes, crc: int) -> int | None:
    """Return the seed with which a CRC-32 comes out as `crc`: each bit of the seed acts on the result independently."""
    # A CRC is linear: flipping a bit of the seed flips the same bits of the result, whatever
    # the others are. So 32 trials give 32 equations.
    zero = crc32(covered, 0)
    wanted = zero ^ crc
    rows: list[tuple[int, int]] = []
    """Effects, each with a leading bit of its own, and the seeds that have them."""
    for bit in range(32):
        seed = 1 << bit
        effect = crc32(covered, seed) ^ zero
        for other, other_seed in rows:
            if effect ^ other < effect:
                effect, seed = effect ^ other, seed ^ other_seed
        if effect:
            rows.append((effect, seed))
            rows.sort(reverse=True)
    found = 0
    for effect, seed in rows:
        if wanted ^ effect < wanted:
            wanted, found = wanted ^ effect, found ^ seed
    return None if wanted else found


def _runs(block: bytes, head: BlockHeader) -> list[RecordRange]:
    meta_end = BLOCK_HEADER_BYTES + head.meta_bytes
    try:
        return decode_records(block[BLOCK_HEADER_BYTES:meta_end], memoryview(block)[meta_end:]).runs
    except (ValueError, struct.error):
        return []


def runs_in(file: DiskFile, bad: BadBytes) -> list[RecordRange]:
    """Return the runs in a block that failed its check; nothing of them is proven but what their index entries say."""
    data = read_exactly(file, bad.size_bytes, bad.position)
    # With the magic put in, as it may be what was damaged.
    head = decode_block_header(BLOCK_MAGIC + data[len(BLOCK_MAGIC) :], 0, len(data))
    if head is None:
        return []
    # Up to where the next sound block begins, whatever the head says.
    return _runs(data, head._replace(total_bytes=len(data)))


def recover_checkpoint_parts(data: bytes, ends: dict[PartitionKey, LogEnd]) -> Records:
    """Return the positions and ends that a damaged checkpoint seems to have, of topics that exist.

    Args:
        ends: how far the partitions with files reach.
    """
    topics = {topic for topic, _ in ends}
    found = Records()
    # Byte after byte: a damaged record does not say where the next one begins.
    at = RECORDS_AT
    while at < len(data):
        try:
            one, end = decode_one(data, at)
        except (ValueError, struct.error):
            at += 1
            continue
        # Bytes that fail their check may look like a record by chance.
        if not _is_sensible(one, ends, topics):
            at += 1
            continue
        found.confirmed |= one.confirmed
        found.ends |= one.ends
        at = end
    return found


def _is_sensible(one: Records, ends: dict[PartitionKey, LogEnd], topics: set[str]) -> bool:
    if one.confirmed:
        return all(_fits(key, offset, ends) for key, offset in one.confirmed.items())
    if one.windows or one.lost_ranges:
        named = [topic for topic, *_ in one.windows] + [lost_range.topic for lost_range in one.lost_ranges]
        return all(topic in topics for topic in named)
    # Only partitions without files are of interest: those that expired whole.
    return all(
        key in ends or (end.first_ordinal == end.ordinal and end.first_position == end.position)
        for key, end in one.ends.items()
    ) and bool(one.ends)


def _fits(key: GroupKey, offset: int, ends: dict[PartitionKey, LogEnd]) -> bool:
    group, topic, partition_id = key
    end = ends.get((topic, partition_id))
    try:
        check_group(group)
    except MessageError:
        return False
    return end is not None and offset % OFFSET_UNIT == 0 and 0 <= offset <= end.ordinal * OFFSET_UNIT
