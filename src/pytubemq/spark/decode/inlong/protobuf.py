"""InLong's protobuf form, read by hand: `msgs` (1), each with msgTime (1, ms), sourceIp (2), body (3), params (4).

A body is not copied more than once, and nothing is allocated by a length before it is checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.spark.decode.inlong.group import Bounds, Group, InLongError
from pytubemq.spark.decode.inlong.snappy import unpack_gzip, unpack_snappy
from pytubemq.spark.decode.inlong.utf import read_utf
from pytubemq.spark.decode.inlong.varint import read_varint, varint

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_GZIP: Final = b"\x1f\x8b"
_COMPRESSION: Final = {"0": "none", "1": "gzip", "2": "snappy"}
_RENAMED: Final = {"inlongGroupId": "groupId", "inlongStreamId": "streamId"}
_SIGN: Final = 1 << 63


def parse_protobuf(body: bytes, attributes: Mapping[str, str], decompress: str, bounds: Bounds) -> list[Group]:
    """The records of a message, one group for each run of equal time and params. `attributes` are the message's.

    Raises:
        InLongError: it is no such message, is cut off, or goes beyond the bounds.
    """
    content = _unpacked(body, attributes, decompress, bounds)
    common = dict(attributes)
    for name, ours in _RENAMED.items():
        if name in attributes:
            common[ours] = attributes[name]
    groups: list[Group] = []
    last: tuple[int, tuple[bytes, ...]] | None = None
    count = 0
    for number, value in _fields(content, 0, len(content)):
        if number != 1 or not isinstance(value, tuple):
            continue
        time_ms, source, record, params = _record(content, *value)
        count += 1
        if count > bounds.records:
            raise InLongError("too many records")
        key = (time_ms, (source, *params))
        if key == last:
            groups[-1].records.append(record)
            continue
        own = dict(_pair(entry, bounds) for entry in params)
        if source:
            own["sourceIp"] = read_utf(source)
        groups.append(Group({**common, "dt": str(time_ms), **own}, [record], time_ms))
        last = key
    return groups


def format_protobuf(records: list[tuple[int, str, bytes, Mapping[str, str]]]) -> bytes:
    """Records as (time in ms, source's address, body, params), uncompressed."""
    out = bytearray()
    for time_ms, source, body, params in records:
        one = bytearray(b"\x08" + varint(time_ms % (1 << 64)))
        if source:
            one += _piece(2, source.encode())
        one += _piece(3, body)
        for name, value in params.items():
            one += _piece(4, _piece(1, name.encode()) + _piece(2, value.encode()))
        out += _piece(1, bytes(one))
    return bytes(out)


def _piece(number: int, value: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(value)) + value


def _unpacked(body: bytes, attributes: Mapping[str, str], decompress: str, bounds: Bounds) -> bytes:
    how = decompress
    if how == "auto":
        told = attributes.get("compressType")
        how = _COMPRESSION.get(told, "") if told is not None else "gzip" if body.startswith(_GZIP) else "none"
    match how:
        case "gzip":
            return unpack_gzip(body, bounds.size_bytes)
        case "snappy":
            return unpack_snappy(body, bounds.size_bytes)
        case "none":
            if len(body) > bounds.size_bytes:
                raise InLongError(f"records of more than {bounds.size_bytes} bytes")
            return body
        case _:
            raise InLongError(f"compressType = {attributes.get('compressType')!r} is not known")


def _fields(content: bytes, at: int, end: int) -> Iterator[tuple[int, int | tuple[int, int]]]:
    """Number and value of each field; of a text or bytes where it begins and ends."""
    while at < end:
        tag, at = read_varint(content, at, end)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            value, at = read_varint(content, at, end)
            yield number, value
            continue
        if kind == 2:
            size, at = read_varint(content, at, end)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise InLongError("the bytes are no protobuf message of InLong")
        if number == 0 or size > end - at:
            raise InLongError("a protobuf message that is cut off")
        if kind == 2:
            yield number, (at, at + size)
        at += size


def _record(content: bytes, at: int, end: int) -> tuple[int, bytes, bytes, list[bytes]]:
    time_ms, source, record = 0, b"", b""
    params: list[bytes] = []
    for number, value in _fields(content, at, end):
        if isinstance(value, int):
            if number == 1:
                time_ms = value - (1 << 64) if value & _SIGN else value
            continue
        piece = content[value[0] : value[1]]
        if number == 2:
            source = piece
        elif number == 3:
            record = piece
        elif number == 4:
            params.append(piece)
    return time_ms, source, record, params


def _pair(entry: bytes, bounds: Bounds) -> tuple[str, str]:
    if len(entry) > bounds.attribute_bytes:
        raise InLongError("params that are too long")
    name = value = ""
    for number, place in _fields(entry, 0, len(entry)):
        if isinstance(place, int):
            continue
        text = read_utf(entry[place[0] : place[1]])
        if number == 1:
            name = text
        elif number == 2:
            value = text
    return name, value
