"""Snappy and gzip with a bound: what would be larger is refused before it is unpacked."""

from __future__ import annotations

import zlib
from typing import Any

import pyarrow as pa

from pytubemq.decode.inlong.group import InLongError
from pytubemq.decode.inlong.varint import read_varint

_codec: Any = None


def unpack_snappy(data: bytes, most_bytes: int) -> bytes:
    """Decompress the bytes.

    Raises:
        InLongError: they are no raw Snappy, or would be more than `most_bytes`.
    """
    size, _ = read_varint(data, 0, len(data))
    if size > most_bytes:
        raise InLongError(f"{size} bytes after Snappy, more than the {most_bytes} allowed")
    if size == 0:
        return b""
    try:
        unpacked: bytes = _snappy().decompress(data, size, asbytes=True)
    except (OSError, pa.ArrowException) as error:
        raise InLongError("the bytes are not Snappy") from error
    return unpacked


def pack_snappy(data: bytes) -> bytes:
    """Compress the bytes."""
    if not data:
        return b"\0"
    packed: bytes = _snappy().compress(data, asbytes=True)
    return packed


def unpack_gzip(data: bytes, most_bytes: int) -> bytes:
    """Decompress the bytes.

    Raises:
        InLongError: they are no gzip, or would be more than `most_bytes`.
    """
    stream = zlib.decompressobj(wbits=31)
    try:
        unpacked = stream.decompress(data, most_bytes + 1)
    except zlib.error as error:
        raise InLongError("the bytes are not gzip") from error
    if len(unpacked) > most_bytes:
        raise InLongError(f"more than the {most_bytes} bytes allowed, after gzip")
    if not stream.eof:
        raise InLongError("the gzip ends too early")
    return unpacked


def _snappy() -> Any:
    global _codec
    if _codec is None:
        _codec = pa.Codec("snappy")
    return _codec
