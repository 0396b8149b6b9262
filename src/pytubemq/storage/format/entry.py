"""Encoder of single messages as a log holds them, many in a row, without protobuf.

The invariant: the bytes are those of `wire.batch.stored.stored_entry` for the same message; a property test holds it to
that. What stays the same from message to message (time, producer, the upper bits of ids and offsets) is encoded once.
"""

from __future__ import annotations

from typing import Final

from pytubemq.wire.protobuf.varint import encode_varint
from pytubemq.wire.protocol.extensions import ExtensionField

# What two bytes of a varint hold: one look into a table takes the place of two turns of a loop.
BITS: Final = 14
MASK: Final = (1 << BITS) - 1
LAST: Final = [encode_varint(value) for value in range(1 << BITS)]
"""The end of a number: at most two bytes, of which the last says that none follows."""
MORE: Final = [bytes((value & 0x7F | 0x80, value >> 7 | 0x80)) for value in range(1 << BITS)]
"""Two bytes of a number that goes on behind them."""

OFFSET_TAG: Final = encode_varint(ExtensionField.OFFSET << 3)
_APPEND_TIME: Final = encode_varint(ExtensionField.APPEND_TIME << 3)
_PRODUCER_ID: Final = encode_varint(ExtensionField.PRODUCER_ID << 3)
_PRODUCER_EPOCH: Final = encode_varint(ExtensionField.PRODUCER_EPOCH << 3)
_SEQUENCE: Final = encode_varint(ExtensionField.SEQUENCE << 3)


def varint(value: int) -> bytes:
    """Encode as `encode_varint` does, by tables."""
    if 0 <= value <= MASK:
        return LAST[value]
    # Rare, and the plain way is right for every value.
    if value < 0 or value >> 63:
        return encode_varint(value)
    low, high = MORE[value & MASK], value >> BITS
    if high <= MASK:
        return low + LAST[high]
    return low + varint(high)


class EntryEncoder:
    """Encoder of messages that came at the same time from the same producer, if any."""

    __slots__ = ("_id_high", "_id_rest", "_numbered", "_offset_high", "_offset_rest", "tail")

    def __init__(self, append_time_ms: int, producer_id: int | None = None, producer_epoch: int | None = None) -> None:
        """Prepare what all messages share. With a producer every message has a sequence, without one none has."""
        self.tail = _APPEND_TIME + varint(append_time_ms)
        """The bytes after every offset, up to the sequence."""
        self._numbered = producer_id is not None
        if producer_id is not None:
            self.tail += _PRODUCER_ID + varint(producer_id) + _PRODUCER_EPOCH + varint(producer_epoch or 0) + _SEQUENCE
        self._id_high = self._offset_high = 0
        self._id_rest = self._offset_rest = b""

    def encode(
        self, message_id: int, payload: bytes, flag: int, offset: int, check_sum: int, sequence: int = 0
    ) -> bytes:
        """Return the stored entry of a message; ids and offsets are positive."""
        head, tail = self.around(message_id, len(payload), b"\x20" + varint(flag), offset, check_sum, sequence)
        return b"%b%b%b" % (head, payload, tail)

    def around(
        self, message_id: int, payload_bytes: int, flag_bytes: bytes, offset: int, check_sum: int, sequence: int = 0
    ) -> tuple[bytes, bytes]:
        """Return the bytes before and after a message's payload; `flag_bytes` is the field of its flag."""
        # Ids and offsets rise in small steps, so their upper bits are encoded once for many messages.
        if message_id >> BITS != self._id_high:
            self._id_high = message_id >> BITS
            self._id_rest = varint(self._id_high)
        if offset >> BITS != self._offset_high:
            self._offset_high = offset >> BITS
            self._offset_rest = varint(self._offset_high)
        # In the order of the field numbers, as protobuf writes them.
        head = b"\x08%b%b\x10%b\x1a%b" % (
            (MORE if self._id_high else LAST)[message_id & MASK],
            self._id_rest if self._id_high else b"",
            varint(check_sum),
            varint(payload_bytes),
        )
        tail = b"%b%b%b%b%b%b" % (
            flag_bytes,
            OFFSET_TAG,
            (MORE if self._offset_high else LAST)[offset & MASK],
            self._offset_rest if self._offset_high else b"",
            self.tail,
            varint(sequence) if self._numbered else b"",
        )
        # The tag of field 4, length-delimited: `messages` of both fetch responses.
        return b"\x22%b%b" % (varint(len(head) + payload_bytes + len(tail)), head), tail
