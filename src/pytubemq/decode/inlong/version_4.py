"""InLongMsg 4: one binary message of the SDKs between the magics.

Big-endian: total length (int32) @0, type @4 (its upper three bits: 1 = Snappy), numbers of group and stream (uint16) @5
and @7, flags (uint16) @9 (1: records have own attributes; 4 clear: the numbers are valid), seconds since 1970 (int32)
@11, number of records (uint16) @15, length of the body (int32) @21, body @25, then attributes after their length
(uint16), then EE 01. The total counts all after itself.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from pytubemq.decode.inlong.attributes import parse_attributes
from pytubemq.decode.inlong.compression import unpack_snappy
from pytubemq.decode.inlong.group import MAGIC_BYTES, Bounds, Group, InLongError
from pytubemq.decode.inlong.modified_utf8 import read_utf
from pytubemq.decode.inlong.record_lists import joined, own_attributes, split_records

HEAD: Final = Struct(">iBHHHiHI")
"""Up to the length of the body; the four bytes before that are a number of the sender's."""
FRAME_BYTES: Final = 29
"""All but the body and the attributes."""
TAIL: Final = b"\xee\x01"
OWN_ATTRIBUTES: Final = 0x1
NO_NUMBERS: Final = 0x4
SNAPPY: Final = 1
_SHORT: Final = Struct(">H")
_LENGTH: Final = Struct(">i")


def parse_version_4(body: bytes, bounds: Bounds) -> list[Group]:
    """Return the groups of a message of version 4.

    Raises:
        InLongError: it is cut off, contradicts itself, or goes beyond the bounds.
    """
    message = body[MAGIC_BYTES:-MAGIC_BYTES]
    if len(message) < FRAME_BYTES:
        raise InLongError("an InLongMsg of version 4 that is cut off")
    total, kind, group, stream, flags, seconds, count, _ = HEAD.unpack_from(message)
    (size,) = _LENGTH.unpack_from(message, HEAD.size)
    first = HEAD.size + _LENGTH.size
    if size < 0 or first + size + 4 > len(message):
        raise InLongError(f"a body of {size} bytes in a message of {len(message)}")
    (attribute_bytes,) = _SHORT.unpack_from(message, first + size)
    if total + 4 != size + attribute_bytes + FRAME_BYTES or total + 4 != len(message) or message[-2:] != TAIL:
        raise InLongError("an InLongMsg of version 4 whose lengths contradict each other")
    if attribute_bytes > bounds.attribute_bytes:
        raise InLongError("attributes that are too long")
    content = message[first : first + size]
    if kind >> 5 == SNAPPY:
        content = unpack_snappy(content, bounds.size_bytes)
    if len(content) > bounds.size_bytes:
        raise InLongError(f"records of more than {bounds.size_bytes} bytes")
    common = parse_attributes(read_utf(message[first + size + 2 : -2]))
    time_ms = seconds * 1000
    common["dt"] = str(time_ms)
    if not flags & NO_NUMBERS:
        common["groupId"], common["streamId"] = str(group), str(stream)
    common["cnt"] = str(count)
    if not flags & OWN_ATTRIBUTES:
        return [Group(common, split_records(content, bounds.records), time_ms)]
    records = own_attributes(content, 0, len(content), bounds)
    return [Group(each.attributes, each.records, time_ms) for each in joined(records, common, bounds, common_wins=True)]
