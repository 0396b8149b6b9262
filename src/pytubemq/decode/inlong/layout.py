"""InLongMsg 0 to 3: groups one after the other, between two equal magics. Version 4 stands in `binary`.

Big-endian. Magic (0F, version) first and last; from version 1 on the time of making (int64, ms), from 2 on the number
of records (int32); then the number of groups (int32), and for each its attributes (uint16 length, modified UTF-8), in
version 2 the number of its records (int32), a length (int32) that counts the next byte too, that byte (1 = raw Snappy),
and the records, each after its length (int32). Version 3 has instead of a record a length and then, within it, records
in turn with their own attributes, each after its length (int32).
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Final

from pytubemq.decode.inlong.attributes import parse_attributes
from pytubemq.decode.inlong.group import Bounds, Group, InLongError
from pytubemq.decode.inlong.snappy import unpack_snappy
from pytubemq.decode.inlong.utf import read_utf

if TYPE_CHECKING:
    from collections.abc import Callable

MAGIC_BYTES: Final = 2
_int: Final[Callable[..., tuple[int]]] = Struct(">i").unpack_from
_SHORT: Final = Struct(">H")


def version_of(body: bytes) -> int | None:
    """The version that both ends of a message tell; None: it is no InLongMsg."""
    if len(body) < 2 * MAGIC_BYTES or body[0] != 0x0F or body[1] > 4 or body[:2] != body[-2:]:
        return None
    return body[1]


def parse(body: bytes, bounds: Bounds) -> list[Group]:
    """The groups of a message of version 0 to 4.

    Raises:
        InLongError: it is none, is cut off, or goes beyond the bounds.
    """
    version = version_of(body)
    if version is None:
        raise InLongError("no InLongMsg: it does not begin and end with 0F and a version from 0 to 4")
    if version == 4:
        from pytubemq.decode.inlong.binary import parse_binary

        return parse_binary(body, bounds)
    try:
        return _groups(body, version, bounds)
    except StructError as error:
        raise InLongError(f"an InLongMsg of version {version} that is cut off") from error


def _groups(body: bytes, version: int, bounds: Bounds) -> list[Group]:
    end = len(body) - MAGIC_BYTES
    at = MAGIC_BYTES + (8 if version >= 1 else 0) + (4 if version >= 2 else 0)
    (count,) = _int(body, at)
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
        (size,) = _int(body, at)
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
            made = _with_own_attributes(content, attributes, bounds)
        else:
            made = [Group(attributes, split_records(content, left_records))]
        left_records -= sum(len(group.records) for group in made)
        if left_records < 0:
            raise InLongError(f"more than {bounds.records} records")
        groups += made
    if at != end:
        raise InLongError(f"{end - at} bytes after the last group")
    return groups


def split_records(content: bytes, most: int) -> list[bytes]:
    """The records of a group, each after its length.

    Raises:
        InLongError: a length goes beyond the end, or there are more than `most`.
    """
    records: list[bytes] = []
    add = records.append
    at, end = 0, len(content)
    read = _int
    while at < end:
        if end - at < 4:
            raise InLongError("a record that is cut off")
        (size,) = read(content, at)
        at += 4
        last = at + size
        if size < 0 or last > end:
            raise InLongError(f"a record of {size} bytes where {end - at} are left")
        add(content[at:last])
        at = last
    if len(records) > most:
        raise InLongError("too many records")
    return records


def own_attributes(content: bytes, at: int, end: int, bounds: Bounds) -> list[tuple[bytes, str]]:
    """Records in turn with their attributes, each after its length.

    Raises:
        InLongError: a length goes beyond the end.
    """
    found: list[tuple[bytes, str]] = []
    while at < end:
        record, at = _piece(content, at, end)
        text, at = _piece(content, at, end)
        if len(text) > bounds.attribute_bytes:
            raise InLongError("attributes that are too long")
        found.append((record, read_utf(text)))
        if len(found) > bounds.records:
            raise InLongError("too many records")
    return found


def joined(
    records: list[tuple[bytes, str]], common: dict[str, str], bounds: Bounds, *, common_wins: bool
) -> list[Group]:
    """Records with own attributes as groups: those in a row that have the same become one.

    Raises:
        InLongError: the attributes of all groups together are more than the bound.
    """
    groups: list[Group] = []
    last: str | None = None
    left = bounds.pairs
    for record, text in records:
        if text == last:
            groups[-1].records.append(record)
            continue
        own = parse_attributes(text)
        left -= len(common) + len(own)
        if left < 0:
            raise InLongError(f"more than {bounds.pairs} attributes")
        groups.append(Group({**own, **common} if common_wins else {**common, **own}, [record]))
        last = text
    return groups


def _with_own_attributes(content: bytes, common: dict[str, str], bounds: Bounds) -> list[Group]:
    groups: list[Group] = []
    at, end = 0, len(content)
    while at < end:
        if end - at < 4:
            raise InLongError("a record that is cut off")
        (size,) = _int(content, at)
        at += 4
        if size < 0 or at + size > end:
            raise InLongError(f"records of {size} bytes where {end - at} are left")
        groups += joined(own_attributes(content, at, at + size, bounds), common, bounds, common_wins=False)
        at += size
    return groups


def _piece(content: bytes, at: int, end: int) -> tuple[bytes, int]:
    if end - at < 4:
        raise InLongError("a record that is cut off")
    (size,) = _int(content, at)
    at += 4
    if size < 0 or at + size > end:
        raise InLongError(f"a record of {size} bytes where {end - at} are left")
    return content[at : at + size], at + size
