"""Batch-encoded responses for accepted SendMessage requests.

The invariant: the bytes are those of `encode_response` and `encode_send_response` for each message individually.
"""

from __future__ import annotations

import sys
from array import array
from typing import TYPE_CHECKING, Final

from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.wire.framing.frame import ONE_BLOCK, TOKEN
from pytubemq.wire.protobuf.varint import PAIRS, encode_rising, encode_varint
from pytubemq.wire.rpc.envelope import response_lead
from pytubemq.wire.rpc.methods import Method

if TYPE_CHECKING:
    from collections.abc import Sequence

_LOW_BITS: Final = 14
_LOW: Final = (1 << _LOW_BITS) - 1
_FIXED_BYTES: Final = 6 + 1 + 3
"""The bytes before the text, its length, and the bytes after it."""
_METHOD: Final = int(Method.SEND_MESSAGE_P2B)
_LEAST_TOGETHER: Final = 12
"""Fewer are sooner written one by one."""
_THOUSAND: Final = 1000
_DIGITS: Final = b"".join(b"%03d" % number for number in range(_THOUSAND))
_SERIAL_AT: Final = 4
_BEHIND_DIGITS: Final = 3
"""Between the digits of the text and the message id."""
_AROUND_TIME: Final = 2
"""Between the message id and the time, and behind it."""
_INT: Final = "i" if array("i").itemsize == 4 else "l"
_FIRST: Final = bytes(pair[0] for pair in PAIRS)
_SECOND: Final = bytes(pair[1] for pair in PAIRS)


def encode_accepted_responses(
    serials: Sequence[int], message_id: int, offset: int, append_time_ms: int, *, capabilities: int | None = None
) -> list[bytes]:
    """Encode the responses to requests whose messages were accepted as consecutive frames, in one or more pieces.

    Args:
        serials: of the requests, in the order of their messages.
        message_id: of the first message.
        offset: of the first message.
        append_time_ms: of all.
        capabilities: ours, if they are sent to the peer.
    """
    parts: list[bytes] = []
    left, at = len(serials), 0
    while left:
        # Within these bounds the upper digits and bits of all numbers are the same.
        count = min(
            left,
            _THOUSAND - message_id % _THOUSAND,
            (_LOW - (message_id & _LOW)) + 1,
            (_LOW - (offset & _LOW)) // OFFSET_UNIT + 1,
        )
        here = serials[at : at + count]
        # Offsets below 16,384, those of a partition's first messages, have no upper bytes to share.
        if count < _LEAST_TOGETHER or not (message_id >> _LOW_BITS and offset >> _LOW_BITS):
            parts += _one_by_one(here, message_id, offset, append_time_ms, capabilities)
        else:
            parts.append(_together(here, message_id, offset, append_time_ms, capabilities))
        at, left = at + count, left - count
        message_id, offset = message_id + count, offset + count * OFFSET_UNIT
    return parts


def _together(
    serials: Sequence[int], message_id: int, offset: int, append_time_ms: int, capabilities: int | None
) -> bytes:
    """Repeat the first response, and then set byte by byte what is different in the others."""
    # The frame as it is made for one message; so both ways cannot come apart.
    (first,) = _one_by_one(serials[:1], message_id, offset, append_time_ms, capabilities)
    stride, count = len(first), len(serials)
    low_id, low_offset = message_id & _LOW, offset & _LOW
    # Counted from the end, where the lengths are those of numbers that are known here.
    place_at = stride - len(encode_varint(offset))
    id_at = place_at - len(encode_varint(append_time_ms)) - _AROUND_TIME - len(encode_varint(message_id))
    digits_end = id_at - _BEHIND_DIGITS
    frames = bytearray(first * count)
    # Columns are written by slices with a stride: one assignment in C for one byte of all frames.
    numbers = array(_INT, serials)
    if sys.byteorder == "little":
        numbers.byteswap()
    serial_bytes, low = numbers.tobytes(), message_id % _THOUSAND
    # The id as text changes in its last three digits only, as `count` ends with the thousand.
    thousandths = _DIGITS[3 * low : 3 * (low + count)]
    for column in range(4):
        frames[_SERIAL_AT + column :: stride] = serial_bytes[column::4]
    for column in range(3):
        frames[digits_end - 3 + column :: stride] = thousandths[column::3]
    stop = low_offset + count * OFFSET_UNIT
    for table, column in ((_FIRST, 0), (_SECOND, 1)):
        frames[id_at + column :: stride] = table[low_id : low_id + count]
        frames[place_at + column :: stride] = table[low_offset:stop:OFFSET_UNIT]
    return bytes(frames)


def _one_by_one(
    serials: Sequence[int], message_id: int, offset: int, append_time_ms: int, capabilities: int | None
) -> list[bytes]:
    parts: list[bytes] = []
    # All that is the same for these messages is put together before the loop.
    time = b"\x30%b\x38" % encode_varint(append_time_ms)
    add, pack, leads, high, shared = parts.append, ONE_BLOCK.pack, dict[int, tuple[int, bytes]](), -1, b""
    for serial in serials:
        if message_id >> _LOW_BITS != high:
            high = message_id >> _LOW_BITS
            shared = encode_varint(high) + time if high > 0 else time
        # As text as well, for older clients (see `send_message.encode_send_response`).
        digits = b"%d" % message_id
        number = PAIRS[message_id & _LOW] if high > 0 else encode_varint(message_id)
        place = encode_rising(offset)
        size = _FIXED_BYTES + len(digits) + len(number) + len(shared) + len(place)
        # Sizes differ by a byte now and then, when a number gets one longer.
        known = leads.get(size)
        if known is None:
            lead = response_lead(_METHOD, capabilities, size)
            known = leads[size] = len(lead) + size, b"%b\x08\x01\x10\xc8\x01\x1a%c" % (lead, len(digits))
        add(b"%b%b%b\x20\x00\x28%b%b%b" % (pack(TOKEN, serial, 1, known[0]), known[1], digits, number, shared, place))
        message_id += 1
        offset += OFFSET_UNIT
    return parts
