"""Fields of a protobuf message read one by one, for messages whose large parts should not be copied by protobuf.

The invariant: what is taken here protobuf takes as well, with the same value. Whatever is unusual (groups, fixed-size
numbers, numbers written longer than needed, ends that are cut) raises `UnusualError`, and the caller asks protobuf.
"""

from __future__ import annotations

from typing import Final

from pytubemq.wire.protobuf.varint import decode_varint

DELIMITED: Final = 2
_VARINT: Final = 0
_WIRE_TYPE: Final = 7
_FIRST_KEY: Final = 8
_MAX_KEY: Final = (1 << 32) - 1

MAX_USUAL_FIELDS: Final = 64
"""Fields of one message that are read one by one, without its nested messages; if there are more, protobuf reads the
message, because it skips ten million unknown fields in the time that a thousand take here."""


class UnusualError(Exception):
    """A field that is not read here; protobuf may be able to."""


def read_field(data: bytes | memoryview, at: int, end: int) -> tuple[int, int, int]:
    """Read the field at `at`: its key (number and wire type as they are there), its value, and where it ends.

    The value of a delimited field is where its bytes begin; they go up to its end.

    Raises:
        UnusualError: it is of another wire type, or not written as protobuf writes it, or goes beyond `end`.
    """
    try:
        # One byte is the usual case; a call for each number would cost more than reading it.
        key = data[at]
        at += 1
        if key > 0x7F:
            key, at = _short(data, at - 1)
        wire_type = key & _WIRE_TYPE
        # Number 0 is no field's and a key has 32 bits. Groups and fixed-size numbers occur in no message of the
        # protocol.
        if not _FIRST_KEY <= key <= _MAX_KEY or (wire_type != _VARINT and wire_type != DELIMITED):
            raise UnusualError
        value = data[at]
        at += 1
        if value > 0x7F:
            value, at = _short(data, at - 1)
    except (IndexError, ValueError) as error:
        raise UnusualError from error
    # Numbers do not overflow here, so a length however large ends behind `end` and is refused there.
    if wire_type == DELIMITED:
        value, at = at, at + value
    if at > end:
        raise UnusualError
    return key, value, at


def _short(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Read a number of more than one byte, as short as it can be."""
    value, end = decode_varint(data, at)
    last = data[end - 1]
    # Padded with zeros, or with more than 64 bits: what such a number means is protobuf's to say.
    if last == 0 or (end - at == _LONGEST and last != 1):
        raise UnusualError
    return value, end


_LONGEST: Final = 10


def signed32(value: int) -> int:
    """Convert a varint's value to an int32: its low 32 bits."""
    # Negative ones come as 64 bits in ten bytes, and protobuf takes the low 32 of whatever it gets.
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def signed64(value: int) -> int:
    """Convert a varint's value to an int64."""
    return value - (1 << 64) if value >> 63 else value
