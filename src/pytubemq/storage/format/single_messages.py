"""Single messages in a row as a log holds them, and their index entries, at a price for the row.

The invariant: the bytes are those of `EntryEncoder.encode` and `encode_index_entry` for each message individually.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.storage.format.entry import BITS, LAST, MASK, MORE, OFFSET_TAG, EntryEncoder, varint
from pytubemq.storage.format.index import encode_single_entries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.core.sequences import ProducerMark

_CHECK_SUM: Final = 0x7FFFFFFF
_FIVE_BYTES: Final = 1 << 28
"""Checksums from here on take five bytes: nearly all."""


class Singles(NamedTuple):
    """The result of building."""

    entries: list[bytes]
    """In parts."""
    slots: list[bytes]
    """Their index entries, in parts."""
    size_bytes: int
    """The size of the entries."""


class _Row(NamedTuple):
    """The bytes between the parts that differ from message to message."""

    flag: bytes
    behind_id: bytes
    behind_offset: bytes
    size_bytes: int
    """The size of an entry without its own tag and length, the payload's length, the payload and the sequence; 0 if ids
    or offsets are too low for this way."""


def _row(encoder: EntryEncoder, flag_bytes: bytes, message_id: int, offset: int) -> _Row:
    # Low ids and offsets have shorter numbers than the row allows for; the plain way encodes them.
    if not message_id >> BITS or not offset >> BITS:
        return _Row(b"", b"", b"", 0)
    flag, behind_id = flag_bytes + OFFSET_TAG, varint(message_id >> BITS) + b"\x10"
    behind_offset = varint(offset >> BITS) + encoder.tail
    return _Row(flag, behind_id, behind_offset, 1 + 2 + len(behind_id) + 5 + len(flag) + 2 + len(behind_offset))


def build_singles(
    payloads: Sequence[bytes],
    flag: int,
    key_code: int,
    *,
    message_id: int,
    ordinal: int,
    position: int,
    time_ms: int,
    mark: ProducerMark | None,
) -> Singles:
    """Build the entries of these messages; id, ordinal, position and the sequence of `mark` are those of the first
    one."""
    encoder = EntryEncoder(time_ms) if mark is None else EntryEncoder(time_ms, mark.producer_id, mark.epoch)
    around, flag_bytes = encoder.around, b"\x20" + varint(flag)
    sequence = 0 if mark is None else mark.sequence
    entries: list[bytes] = []
    sizes: list[int] = []
    crcs: list[int] = []
    add_size, add_crc = sizes.append, crcs.append
    offset, size_bytes = ordinal * OFFSET_UNIT, 0
    # What messages have in common as long as the upper bits of their ids and offsets are the same.
    upper, row = (-1, -1), _Row(b"", b"", b"", 0)
    # Messages of one sender often have few sizes, so each is encoded once.
    lengths: dict[int, bytes] = {}
    for payload in payloads:
        size = len(payload)
        check = crc32(payload)
        if (message_id >> BITS, offset >> BITS) != upper:
            upper = message_id >> BITS, offset >> BITS
            row = _row(encoder, flag_bytes, message_id, offset)
        check_sum = check & _CHECK_SUM
        number = varint(sequence) if mark is not None else b""
        length = lengths.get(size)
        if length is None:
            length = lengths[size] = b"\x1a" + varint(size)
        if row.size_bytes and check_sum >= _FIVE_BYTES:
            whole = row.size_bytes + len(length) + size + len(number)
            head = b"\x22%b\x08%b%b%b%b%b%b" % (
                LAST[whole] if whole <= MASK else varint(whole),
                MORE[message_id & MASK],
                row.behind_id,
                MORE[check_sum & MASK],
                MORE[check_sum >> BITS & MASK],
                LAST[check_sum >> 2 * BITS],
                length,
            )
            tail = b"%b%b%b%b" % (row.flag, MORE[offset & MASK], row.behind_offset, number)
        else:
            # What the row does not fit; the bytes come out as if this were the only way.
            head, tail = around(message_id, size, flag_bytes, offset, check_sum, sequence)
        entries += (head, payload, tail)
        # Over the parts, so that an entry need not be joined to be checked.
        add_crc(crc32(tail, crc32(payload, crc32(head))))
        size += len(head) + len(tail)
        add_size(size)
        size_bytes += size
        message_id += 1
        offset += OFFSET_UNIT
        sequence += 1
    return Singles(entries, encode_single_entries(position, ordinal, time_ms, sizes, key_code, crcs), size_bytes)
