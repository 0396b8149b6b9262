"""InLong's protobuf form, read by hand: `msgs` (1), each with msgTime (1, ms), sourceIp (2), body (3), params (4).

A body is not copied more than once, and nothing is allocated by a length before it is checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.decode.inlong.compression import unpack_gzip, unpack_snappy
from pytubemq.decode.inlong.group import Bounds, Group, InLongError
from pytubemq.decode.inlong.modified_utf8 import read_utf
from pytubemq.decode.inlong.varint import read_varint, varint

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_GZIP: Final = b"\x1f\x8b"
_COMPRESSION: Final = {"0": "none", "1": "gzip", "2": "snappy"}
_RENAMED: Final = {"inlongGroupId": "groupId", "inlongStreamId": "streamId"}
_SIGN: Final = 1 << 63
_TIME_TAG: Final = 0x08
_SOURCE_TAG: Final = 0x12
_BODY_TAG: Final = 0x1A
_PARAMS_TAG: Final = 0x22
_PIECE_TAGS: Final = frozenset((_SOURCE_TAG, _BODY_TAG, _PARAMS_TAG))


def parse_protobuf(body: bytes, attributes: Mapping[str, str], decompress: str, bounds: Bounds) -> list[Group]:
    """Parse the records of a message, one group for each run of equal time and params. `attributes` are the message's.

    Raises:
        InLongError: it is no such message, is cut off, or goes beyond the bounds.
    """
    content = _unpacked(body, attributes, decompress, bounds)
    common = dict(attributes)
    for name, ours in _RENAMED.items():
        if name in attributes:
            common[ours] = attributes[name]
    groups: list[Group] = []
    last: tuple[int, bytes, list[bytes]] | None = None
    count = pairs = 0
    for number, began, ended in _pieces(content, 0, len(content)):
        if number != 1:
            continue
        time_ms, source, record, params = _record(content, began, ended)
        count += 1
        if count > bounds.records:
            raise InLongError("too many records")
        key = (time_ms, source, params)
        if key == last:
            groups[-1].records.append(record)
            continue
        pairs += len(common) + len(params)
        if pairs > bounds.pairs:
            raise InLongError(f"more than {bounds.pairs} attributes")
        own = dict(_pair(entry, bounds) for entry in params)
        if source:
            own["sourceIp"] = read_utf(source)
        groups.append(Group({**common, "dt": str(time_ms), **own}, [record], time_ms))
        last = key
    return groups


def format_protobuf(records: list[tuple[int, str, bytes, Mapping[str, str]]]) -> bytes:
    """Encode records as (time in ms, source's address, body, params), uncompressed."""
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
        number = attributes.get("compressType")
        how = _COMPRESSION.get(number, "") if number is not None else "gzip" if body.startswith(_GZIP) else "none"
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


def _pieces(content: bytes, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield number, begin and end of each field that is a text, bytes or a message."""
    while at < end:
        began = at
        tag, at = read_varint(content, at, end)
        if tag & 7 == 2:
            size, at = read_varint(content, at, end)
            if tag >> 3 == 0 or size > end - at:
                raise InLongError("a protobuf message that is cut off")
            yield tag >> 3, at, at + size
            at += size
        else:
            at = _skipped(content, began, end)


def _record(content: bytes, at: int, end: int) -> tuple[int, bytes, bytes, list[bytes]]:
    """Parse one record. Written out, for it is called for each: lengths below 128 and known tags take no call."""
    time_ms, source, record = 0, b"", b""
    params: list[bytes] = []
    while at < end:
        tag = content[at]
        at += 1
        if tag == _TIME_TAG:
            time_ms, at = read_varint(content, at, end)
        elif tag in _PIECE_TAGS and at < end:
            size = content[at]
            at += 1
            if size > 0x7F:
                size, at = read_varint(content, at - 1, end)
            stop = at + size
            if stop > end:
                raise InLongError("a protobuf message that is cut off")
            piece = content[at:stop]
            at = stop
            if tag == _BODY_TAG:
                record = piece
            elif tag == _PARAMS_TAG:
                params.append(piece)
            else:
                source = piece
        else:
            at = _skipped(content, at - 1, end)
    return time_ms - (1 << 64) if time_ms & _SIGN else time_ms, source, record, params


def _skipped(content: bytes, at: int, end: int) -> int:
    """Return the end of a field with an unknown number."""
    tag, at = read_varint(content, at, end)
    match tag & 7:
        case 0:
            return read_varint(content, at, end)[1]
        case 2:
            size, at = read_varint(content, at, end)
        case 1:
            size = 8
        case 5:
            size = 4
        case _:
            raise InLongError("the bytes are not a protobuf message of InLong")
    if tag >> 3 == 0 or size > end - at:
        raise InLongError("a protobuf message that is cut off")
    return at + size


def _pair(entry: bytes, bounds: Bounds) -> tuple[str, str]:
    if len(entry) > bounds.attribute_bytes:
        raise InLongError("params that are too long")
    name = value = ""
    for number, began, ended in _pieces(entry, 0, len(entry)):
        text = read_utf(entry[began:ended])
        if number == 1:
            name = text
        elif number == 2:
            value = text
    return name, value
