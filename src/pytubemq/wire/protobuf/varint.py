"""Protobuf's variable-length integers, for the few places where calling protobuf would cost more than the work."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

MAX_ONE_BYTE: Final = 0x7F
"""The largest value of one byte; also the mask of a byte's seven bits."""
_MASK_64: Final = (1 << 64) - 1
# Tables, since a lookup costs less than shifts and a call of `bytes`.
_SMALL: Final = [bytes((value,)) for value in range(0x80)] + [
    bytes((value & 0x7F | 0x80, value >> 7)) for value in range(0x80, 0x800)
]
_MORE: Final = [bytes((value | 0x80,)) for value in range(0x80)]
PAIRS: Final = [low + high for high in _MORE for low in _MORE]
"""The two bytes of each value of 14 bits when more bytes follow."""


def encode_varint(value: int) -> bytes:
    """Encode `value` as protobuf writes an int32, int64 or length: negative ones take ten bytes."""
    if 0 <= value < 0x800:
        return _SMALL[value]
    if 0x1000_0000 <= value < 0x80_0000_0000:  # most checksums, in one step
        return PAIRS[value & 0x3FFF] + PAIRS[value >> 14 & 0x3FFF] + _SMALL[value >> 28]
    value &= _MASK_64
    out = b""
    # Two bytes a step, of at most ten.
    while value >= 0x4000:
        out += PAIRS[value & 0x3FFF]
        value >>= 14
    return out + (_SMALL[value] if value < 0x800 else bytes((value & 0x7F | 0x80, value >> 7)))


# Bounded: ids, sequences and times rise for as long as a process lives.
encode_shared: Final = lru_cache(maxsize=1024)(encode_varint)
"""As `encode_varint`, for numbers that many messages share."""


def encode_rising(value: int) -> bytes:
    """Encode numbers that count up, as `encode_varint`: thousands of them share all but their lower 14 bits."""
    high = value >> 14
    return PAIRS[value & 0x3FFF] + encode_shared(high) if high > 0 else encode_varint(value)


def decode_varint(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """Decode the unsigned value at `position`, and return where it ends.

    Raises:
        ValueError: it has more than ten bytes.
        IndexError: the data ends inside it.
    """
    # One and two bytes first: tags, lengths of names and most sizes have no more.
    byte = data[position]
    if byte < 0x80:
        return byte, position + 1
    second = data[position + 1]
    if second < 0x80:
        return byte & 0x7F | second << 7, position + 2
    value = byte & 0x7F
    shift = 7
    while True:
        position += 1
        byte = data[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            # The tenth byte may bring more than 64 bits; protobuf drops them.
            return value & _MASK_64, position + 1
        shift += 7
        # Without this a frame full of bytes that say "more follows" would become a number of megabytes.
        if shift > 63:
            raise ValueError("a varint has more than ten bytes")
