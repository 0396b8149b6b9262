"""Answers to SendMessages that were taken, many at a time.

The invariant: the bytes are those of `encode_response` and `send_answer` for each message by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.wire.frame import ONE_BLOCK, TOKEN
from pytubemq.wire.methods import Method
from pytubemq.wire.rpc import response_lead
from pytubemq.wire.varint import PAIRS, encode_rising, encode_varint

if TYPE_CHECKING:
    from collections.abc import Sequence

_LOW_BITS: Final = 14
_LOW: Final = (1 << _LOW_BITS) - 1
_FIXED_BYTES: Final = 6 + 1 + 3
"""What stands before the text, its length, and what stands behind it."""
_METHOD: Final = int(Method.SEND_MESSAGE_P2B)


def taken_answers(
    serials: Sequence[int], message_id: int, offset: int, append_time_ms: int, *, capabilities: int | None = None
) -> list[bytes]:
    """Frames of answers to requests whose messages were taken, one behind the other.

    Args:
        serials: of the requests, in the order of their messages.
        message_id: of the first message.
        offset: of the first message.
        append_time_ms: of all.
        capabilities: ours, if the peer is to be told.
    """
    parts: list[bytes] = []
    time = b"\x30%b\x38" % encode_varint(append_time_ms)
    add, pack, leads, high, shared = parts.append, ONE_BLOCK.pack, dict[int, tuple[int, bytes]](), -1, b""
    for serial in serials:
        if message_id >> _LOW_BITS != high:
            high = message_id >> _LOW_BITS
            shared = encode_varint(high) + time if high > 0 else time
        digits = b"%d" % message_id
        number = PAIRS[message_id & _LOW] if high > 0 else encode_varint(message_id)
        place = encode_rising(offset)
        size = _FIXED_BYTES + len(digits) + len(number) + len(shared) + len(place)
        known = leads.get(size)
        if known is None:
            lead = response_lead(_METHOD, capabilities, size)
            known = leads[size] = len(lead) + size, b"%b\x08\x01\x10\xc8\x01\x1a%c" % (lead, len(digits))
        add(b"%b%b%b\x20\x00\x28%b%b%b" % (pack(TOKEN, serial, 1, known[0]), known[1], digits, number, shared, place))
        message_id += 1
        offset += OFFSET_UNIT
    return parts
