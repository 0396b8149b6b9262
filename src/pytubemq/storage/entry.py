"""Encodes single messages as a log holds them, many in a row, without protobuf.

The invariant: the bytes are those of `wire.hot.stored_entry` for the same message; a property test holds it to that.
What stays the same from message to message (time, producer, the upper bits of ids and offsets) is encoded once.
"""

from __future__ import annotations

from typing import Final

from pytubemq.wire.extensions import ExtensionField
from pytubemq.wire.varint import encode_varint

_BITS: Final = 14
_MASK: Final = (1 << _BITS) - 1
_LAST: Final = [encode_varint(value) for value in range(1 << _BITS)]
"""The end of a number: at most two bytes, of which the last says that none follows."""
_MORE: Final = [bytes((value & 0x7F | 0x80, value >> 7 | 0x80)) for value in range(1 << _BITS)]
"""Two bytes of a number that goes on behind them."""

_OFFSET: Final = encode_varint(ExtensionField.OFFSET << 3)
_APPEND_TIME: Final = encode_varint(ExtensionField.APPEND_TIME << 3)
_PRODUCER_ID: Final = encode_varint(ExtensionField.PRODUCER_ID << 3)
_PRODUCER_EPOCH: Final = encode_varint(ExtensionField.PRODUCER_EPOCH << 3)
_SEQUENCE: Final = encode_varint(ExtensionField.SEQUENCE << 3)


def varint(value: int) -> bytes:
    """As `encode_varint`, by tables."""
    if 0 <= value <= _MASK:
        return _LAST[value]
    if value < 0 or value >> 63:
        return encode_varint(value)
    low, high = _MORE[value & _MASK], value >> _BITS
    if high <= _MASK:
        return low + _LAST[high]
    return low + varint(high)


class EntryEncoder:
    """Of messages that came at the same time from the same producer, if any."""

    __slots__ = ("_id_high", "_id_rest", "_numbered", "_offset_high", "_offset_rest", "_tail")

    def __init__(self, append_time_ms: int, producer_id: int | None = None, producer_epoch: int | None = None) -> None:
        """With a producer every message has a sequence, without one none has."""
        self._tail = _APPEND_TIME + varint(append_time_ms)
        self._numbered = producer_id is not None
        if producer_id is not None:
            self._tail += _PRODUCER_ID + varint(producer_id) + _PRODUCER_EPOCH + varint(producer_epoch or 0) + _SEQUENCE
        self._id_high = self._offset_high = 0
        self._id_rest = self._offset_rest = b""

    def encode(
        self, message_id: int, payload: bytes, flag: int, offset: int, check_sum: int, sequence: int = 0
    ) -> bytes:
        """The stored entry of a message; ids and offsets are positive."""
        if message_id >> _BITS != self._id_high:
            self._id_high = message_id >> _BITS
            self._id_rest = varint(self._id_high)
        if offset >> _BITS != self._offset_high:
            self._offset_high = offset >> _BITS
            self._offset_rest = varint(self._offset_high)
        body = b"\x08%b%b\x10%b\x1a%b%b\x20%b%b%b%b%b%b" % (
            (_MORE if self._id_high else _LAST)[message_id & _MASK],
            self._id_rest if self._id_high else b"",
            varint(check_sum),
            varint(len(payload)),
            payload,
            varint(flag),
            _OFFSET,
            (_MORE if self._offset_high else _LAST)[offset & _MASK],
            self._offset_rest if self._offset_high else b"",
            self._tail,
            varint(sequence) if self._numbered else b"",
        )
        # The tag of field 4, length-delimited: `messages` of both fetch answers.
        return b"\x22%b%b" % (varint(len(body)), body)
