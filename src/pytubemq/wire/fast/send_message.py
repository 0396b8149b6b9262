"""Fast paths for one SendMessage without protobuf: the request and the response as producers and Brokers write them.

The invariant: every function gives the same bytes or values as `message_bytes` does for the same message. What is
in another order than usual, or is unusual in another way, is left to protobuf. What is remembered of earlier messages
is what their bytes mean and nothing else, and it is bounded in number and in size.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeVar

from pytubemq.errors import Code
from pytubemq.model.limits import MAX_INT32
from pytubemq.wire.fast import sends
from pytubemq.wire.fast.sends import SendRequest
from pytubemq.wire.protobuf.fields import MAX_USUAL_FIELDS, UnusualError, read_field
from pytubemq.wire.protobuf.varint import MAX_ONE_BYTE, decode_varint, encode_rising, encode_shared, encode_varint
from pytubemq.wire.protocol.extensions import ExtensionField
from pytubemq.wire.protocol.messages.broker import SendMessageResponseB2P
from pytubemq.wire.serialization.message_bytes import decode

K = TypeVar("K")
V = TypeVar("V")

_MAX_REMEMBERED: Final = 1024
_MAX_REMEMBERED_BYTES: Final = 256

# Keys: field number and wire type.
_CLIENT_ID: Final = 1 << 3 | 2
_TOPIC: Final = 2 << 3 | 2
_PARTITION: Final = 3 << 3
_DATA: Final = 4 << 3 | 2
_SEQUENCE: Final = ExtensionField.SEQUENCE << 3
_SEQUENCE_TAG: Final = encode_varint(_SEQUENCE)
# Everything after the payload but for the sequence, which is another in each message.
_IN_TAIL: Final = frozenset(
    {
        *(5 << 3, 6 << 3, 7 << 3, 8 << 3 | 2, 9 << 3 | 2, 10 << 3 | 2),
        *(ExtensionField.PRODUCER_ID << 3, ExtensionField.PRODUCER_EPOCH << 3),
    }
)

_Tail = tuple[int, int, int, str | None, str | None, int | None, int | None]
# For all connections of a process: what the bytes mean does not depend on who sent them.
_WHO: Final[dict[bytes, tuple[str, str]]] = {}
"""Client id and topic by the bytes with which requests begin."""
_TAILS: Final[dict[bytes, _Tail]] = {}
"""Flag, checksum, address, type, time, producer id and epoch by the bytes between payload and sequence."""


# --- the request ------------------------------------------------------------------------------------------------


def decode_send(body: bytes) -> SendRequest:
    """Decode a `SendMessageRequestP2B`.

    Raises:
        EnvelopeError: the bytes are no such request.
    """
    try:
        usual = _usual_send(body)
    except (IndexError, ValueError):  # it ends too early, or a number is too long
        usual = None
    if usual is not None:
        return usual
    request = sends.decode_send(body)
    _learn(body, request)
    return request


def _usual_send(body: bytes) -> SendRequest | None:
    """Decode a request of which all but partition, payload and sequence was seen before; None if it is none."""
    # Client id and topic are shorter than 128 bytes here, so their lengths are one byte. A longer one makes a start
    # that nobody has learned.
    at = body[1] + 2
    at += body[at + 1] + 2
    who = _WHO.get(body[:at])
    if who is None or body[at] != _PARTITION:
        return None
    partition_id = body[at + 1]
    at += 2
    if partition_id > MAX_ONE_BYTE:
        partition_id, at = decode_varint(body, at - 1)
    if body[at] != _DATA or partition_id > MAX_INT32:
        return None
    size, at = decode_varint(body, at + 1)
    end = at + size
    rest = body[end:]
    cut = rest.rfind(_SEQUENCE_TAG)  # most producers number their messages; the number comes last
    tail = _TAILS.get(rest[:cut]) if cut >= 0 else None
    if tail is not None:
        sequence, stop = decode_varint(rest, cut + len(_SEQUENCE_TAG))
        # Below 0, or with bytes behind it: protobuf's to decide.
        if stop != len(rest) or sequence >> 63:
            return None
        # half the time of calling the class
        return tuple.__new__(SendRequest, (*who, partition_id, body[at:end], *tail, sequence))
    tail = _TAILS.get(rest)
    if tail is None:
        return None
    return tuple.__new__(SendRequest, (*who, partition_id, body[at:end], *tail, None))


def _learn(body: bytes, request: SendRequest) -> None:
    """Remember the parts of a request that will come again, if its fields are in the usual order, each once."""
    try:
        parts = split_send(body)
    except UnusualError:
        return
    if parts is None:
        return
    who, tail = parts
    # Not longer, or a peer could fill 1,024 places with megabytes.
    if 0 < len(who) <= _MAX_REMEMBERED_BYTES and 0 < len(tail) <= _MAX_REMEMBERED_BYTES:
        _remember(_WHO, who, (request.client_id, request.topic))
        _remember(
            _TAILS,
            tail,
            (
                request.flag,
                request.check_sum,
                request.sent_addr,
                request.msg_type,
                request.msg_time,
                request.producer_id,
                request.producer_epoch,
            ),
        )


def split_send(body: bytes) -> tuple[bytes, bytes] | None:
    """Return the bytes before the partition, and those between payload and sequence, of a request in the usual form.

    Raises:
        UnusualError: a field cannot be read.
    """
    end = len(body)
    keys = []
    starts = [0]
    at = 0
    while at < end:
        key, _, at = read_field(body, at, end)
        keys.append(key)
        starts.append(at)
        if len(keys) > MAX_USUAL_FIELDS:
            return None
    # As every client writes them: in the order of their numbers.
    if keys[:4] != [_CLIENT_ID, _TOPIC, _PARTITION, _DATA]:
        return None
    rest = keys[4:]
    if rest and rest[-1] == _SEQUENCE:
        rest.pop()
    # An unknown or repeated field is legal and rare; what it means is left to protobuf.
    if not _IN_TAIL.issuperset(rest) or len(set(rest)) != len(rest):
        return None
    return body[: starts[2]], body[starts[4] : starts[4 + len(rest)]]


def _remember(known: dict[K, V], key: K, value: V) -> None:
    if len(known) >= _MAX_REMEMBERED:
        # Emptied as a whole: to keep an order of use would cost each message something.
        known.clear()
    known[key] = value


# --- the response -------------------------------------------------------------------------------------------------


class SendResponse(NamedTuple):
    """A `SendMessageResponseB2P`, plain."""

    success: bool
    err_code: int
    err_msg: str
    message_id: int | None
    append_time: int | None
    append_offset: int | None


_TAKEN: Final = b"\x08\x01\x10\xc8\x01\x1a"
"""success, 200, and the tag of the text."""
_AFTER_TEXT: Final = b"\x20\x00\x28"
"""requireAuth false, and the tag of the message id."""
_APPEND_TIME: Final = 6 << 3
_OFFSET: Final = 7 << 3


def encode_send_response(message_id: int, offset: int, append_time_ms: int) -> bytes:
    """Encode the `SendMessageResponseB2P` for a message that was accepted.

    Its text is the message id, where old clients look for it.
    """
    # The original writes the id as text as well, and its older clients look for it only there.
    digits = b"%d" % message_id
    return b"\x08\x01\x10\xc8\x01\x1a%b%b\x20\x00\x28%b\x30%b\x38%b" % (
        encode_varint(len(digits)),
        digits,
        encode_rising(message_id),
        encode_shared(append_time_ms),
        encode_varint(offset),
    )


def decode_send_response(body: bytes) -> SendResponse:
    """Decode a `SendMessageResponseB2P`.

    Raises:
        EnvelopeError: the bytes are no such answer.
    """
    try:
        # Refusals are read by protobuf.
        usual = _decode_usual_response(body) if body.startswith(_TAKEN) else None
    except (IndexError, ValueError):
        usual = None
    if usual is not None:
        return usual
    answer = decode(SendMessageResponseB2P, body)
    return SendResponse(
        answer.success,
        answer.err_code,
        answer.err_msg,
        answer.message_id,
        answer.append_time,
        answer.append_offset,
    )


def decode_accepted(body: bytes) -> tuple[int, int, int] | None:
    """Return message id, offset and append time of a `SendMessageResponseB2P` with 200 and all three; None for another.

    It costs half of `decode_send_response`, for those who do not want the text.

    Raises:
        EnvelopeError: the bytes are no such answer.
    """
    end = len(body)
    if end > _TEXT_AT and body.startswith(_TAKEN):
        text_end = _TEXT_AT + body[len(_TAKEN)]
        at = text_end + len(_AFTER_TEXT)
        shared_end = at + _SHARED_BYTES
        # Answers of one write share their time and, up to 14 bits, their ids: one lookup instead of two numbers.
        shared = _SHARED.get(body[at + 2 : shared_end])
        if (
            shared is not None
            and shared_end < end
            and body[text_end:at] == _AFTER_TEXT
            # Digits are the id once more; any other text says something, and is decoded.
            and body[_TEXT_AT:text_end].isdigit()
            and body[at] > MAX_ONE_BYTE
            and body[at + 1] > MAX_ONE_BYTE
        ):
            try:
                offset, stop = decode_varint(body, shared_end)
            except (IndexError, ValueError):
                stop = 0
            if stop == end and not offset >> 63:
                return body[at] & MAX_ONE_BYTE | (body[at + 1] & MAX_ONE_BYTE) << 7 | shared[0], offset, shared[1]
    answer = decode_send_response(body)
    message_id, sent_offset, sent_time = answer.message_id, answer.append_offset, answer.append_time
    # Old Brokers of the original send the id as text only, and neither offset nor time.
    if answer.err_code != Code.SUCCESS or message_id is None or sent_offset is None or sent_time is None:
        return None
    # Learned only from bytes that are exactly what we would write.
    if body == encode_send_response(message_id, sent_offset, sent_time):
        at = _TEXT_AT + body[len(_TAKEN)] + len(_AFTER_TEXT)
        if message_id >> 56 and len(encode_varint(sent_time)) == _TIME_BYTES:  # so the id has _LONG_ID_BYTES
            _remember(_SHARED, body[at + 2 : at + _SHARED_BYTES], (message_id >> 14 << 14, sent_time))
    return message_id, sent_offset, sent_time


_SHARED: Final[dict[bytes, tuple[int, int]]] = {}
"""The upper part of a message id, and the time, by the bytes from there to the tag of the offset."""
_SHARED_BYTES: Final = 9 + 1 + 6 + 1
"""A message id of usual length, a tag, a time of usual length, a tag."""
_NUMBERS: Final[dict[bytes, int]] = {}
"""Upper parts of message ids, and times, by their bytes: thousands of answers share them."""
_LONG_ID_BYTES: Final = 9
_TIME_BYTES: Final = 6
_TEXT_AT: Final = len(_TAKEN) + 1


def _decode_usual_response(body: bytes) -> SendResponse | None:
    """Decode the response for an accepted message, with all fields in order; None else."""
    at = _TEXT_AT + body[len(_TAKEN)]
    digits = body[_TEXT_AT:at]
    if not digits.isdigit() or body[at : at + len(_AFTER_TEXT)] != _AFTER_TEXT:
        return None
    message_id, at = _number(body, at + len(_AFTER_TEXT), _LONG_ID_BYTES)
    if body[at] != _APPEND_TIME:
        return None
    append_time, at = _number(body, at + 1, _TIME_BYTES)
    if body[at] != _OFFSET:
        return None
    offset, at = decode_varint(body, at + 1)
    # Negative numbers are left to protobuf.
    if at != len(body) or (message_id | append_time | offset) >> 63:
        return None
    return tuple.__new__(SendResponse, (True, 200, digits.decode(), message_id, append_time, offset))


def _number(body: bytes, at: int, size: int) -> tuple[int, int]:
    """Read the varint at `at`, most likely one of `size` bytes, and return where it ends."""
    end = at + size
    upper = _NUMBERS.get(body[at + 2 : end])
    if upper is not None and body[at] > MAX_ONE_BYTE and body[at + 1] > MAX_ONE_BYTE:
        return body[at] & MAX_ONE_BYTE | (body[at + 1] & MAX_ONE_BYTE) << 7 | upper << 14, end
    value, stop = decode_varint(body, at)
    # Only numbers of the usual size, since the next lookup takes so many bytes.
    if stop == end:
        _remember(_NUMBERS, body[at + 2 : end], value >> 14)
    return value, stop
