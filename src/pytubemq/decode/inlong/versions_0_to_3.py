"""InLongMsg 0 to 3: groups one after the other, between two equal magics.

Big-endian. Magic (0F, version) first and last; from version 1 on the time of making (int64, ms), from 2 on the number
of records (int32); then the number of groups (int32), and for each its attributes (uint16 length, modified UTF-8), in
version 2 the number of its records (int32), a length (int32) that counts the next byte too, that byte (1 = raw Snappy),
and the records, each after its length (int32). Version 3 has instead of a record a length and then, within it, records
in turn with their own attributes, each after its length (int32).
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import Final

from pytubemq.decode.inlong.attributes import parse_attributes
from pytubemq.decode.inlong.compression import unpack_snappy
from pytubemq.decode.inlong.group import MAGIC_BYTES, Bounds, Group, InLongError
from pytubemq.decode.inlong.modified_utf8 import read_utf
from pytubemq.decode.inlong.record_lists import joined, own_attributes, read_length, split_records

_SHORT: Final = Struct(">H")


def parse_versions_0_to_3(body: bytes, version: int, bounds: Bounds) -> list[Group]:
    """Return the groups of a message of version 0 to 3.

    Raises:
        InLongError: it is cut off, contradicts itself, or goes beyond the bounds.
    """
    try:
        return _groups(body, version, bounds)
    except StructError as error:
        raise InLongError(f"an InLongMsg of version {version} that is cut off") from error


def _groups(body: bytes, version: int, bounds: Bounds) -> list[Group]:
    end = len(body) - MAGIC_BYTES
    at = MAGIC_BYTES + (8 if version >= 1 else 0) + (4 if version >= 2 else 0)
    (count,) = read_length(body, at)
    at += 4
    left_bytes, left_records = bounds.size_bytes, bounds.records
    groups: list[Group] = []
    for _ in range(count):
        (size,) = _SHORT.unpack_from(body, at)
        at += 2 + size
        if size > bounds.attribute_bytes or at > end:
            raise InLongError("attributes beyond the message's end, or too long")
        attributes = parse_attributes(read_utf(body[at - size : at]))
        if version == 2:
            at += 4
        (size,) = read_length(body, at)
        at += 4
        if size < 1 or at + size > end:
            raise InLongError(f"a group of {size} bytes where {end - at} are left")
        content = body[at + 1 : at + size]
        if body[at] == 1:
            content = unpack_snappy(content, left_bytes)
        at += size
        left_bytes -= len(content)
        if left_bytes < 0:
            raise InLongError(f"records of more than {bounds.size_bytes} bytes")
        if version == 3:
            more = _with_own_attributes(content, attributes, bounds)
        else:
            more = [Group(attributes, split_records(content, left_records))]
        left_records -= sum(len(group.records) for group in more)
        if left_records < 0:
            raise InLongError(f"more than {bounds.records} records")
        groups += more
    if at != end:
        raise InLongError(f"{end - at} bytes after the last group")
    return groups


def _with_own_attributes(content: bytes, common: dict[str, str], bounds: Bounds) -> list[Group]:
    groups: list[Group] = []
    at, end = 0, len(content)
    while at < end:
        if end - at < 4:
            raise InLongError("a record that is cut off")
        (size,) = read_length(content, at)
        at += 4
        if size < 0 or at + size > end:
            raise InLongError(f"records of {size} bytes where {end - at} are left")
        groups += joined(own_attributes(content, at, at + size, bounds), common, bounds, common_wins=False)
        at += size
    return groups
