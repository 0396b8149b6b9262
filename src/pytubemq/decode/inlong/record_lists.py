"""The records of a group, one after the other: alone, or each with attributes of its own.

The invariant: no length is believed that goes beyond the bytes that are there.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from pytubemq.decode.inlong.attributes import parse_attributes
from pytubemq.decode.inlong.group import Bounds, Group, InLongError
from pytubemq.decode.inlong.modified_utf8 import read_utf

if TYPE_CHECKING:
    from collections.abc import Callable

read_length: Final[Callable[..., tuple[int]]] = Struct(">i").unpack_from
"""Reads a length: int32, big-endian."""


def split_records(content: bytes, most: int) -> list[bytes]:
    """Split a group into its records, each after its length.

    Raises:
        InLongError: a length goes beyond the end, or there are more than `most`.
    """
    records: list[bytes] = []
    add = records.append
    at, end = 0, len(content)
    read = read_length
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
    """Parse records in turn with their attributes, each after its length.

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
    """Group records with attributes of their own: those in a row that have the same become one group.

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


def _piece(content: bytes, at: int, end: int) -> tuple[bytes, int]:
    if end - at < 4:
        raise InLongError("a record that is cut off")
    (size,) = read_length(content, at)
    at += 4
    if size < 0 or at + size > end:
        raise InLongError(f"a record of {size} bytes where {end - at} are left")
    return content[at : at + size], at + size
