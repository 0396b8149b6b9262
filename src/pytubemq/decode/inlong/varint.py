"""Variable-length numbers, as Snappy's preamble and protobuf have them."""

from __future__ import annotations

from pytubemq.decode.inlong.group import InLongError


def read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Read the number at `at`, and return where it ends.

    Raises:
        InLongError: it does not end before `end`, or has more than 64 bits.
    """
    value = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            break
    raise InLongError("a variable-length number that does not end")


def varint(value: int) -> bytes:
    """Encode a number from 0 to 2**64 - 1."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
