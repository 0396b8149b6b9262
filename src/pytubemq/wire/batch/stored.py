"""Stored entries: messages as a partition's log and a fetch response hold them, and the responses made of them.

The invariant: every function here gives the same bytes or values as `message_bytes` does for the same message (a
property test holds it to that). A stored entry is field 4 of a fetch response as it goes over the wire, so a fetch
sends slices of the log as they are.
"""

from __future__ import annotations

from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from google.protobuf.message import DecodeError

from pytubemq.wire.protobuf.varint import encode_rising, encode_varint
from pytubemq.wire.protocol.extensions import ExtensionField
from pytubemq.wire.protocol.messages.broker import GetMessageResponseB2C, TransferedMessage
from pytubemq.wire.protocol.messages.extension import ReadRangeResponseB2C
from pytubemq.wire.serialization.message_bytes import PB, decode, encode, malformed, missing, parse

if TYPE_CHECKING:
    from collections.abc import Sequence

_GetResponse: Final = PB[GetMessageResponseB2C]
_RangeResponse: Final = PB[ReadRangeResponseB2C]
_APPEND_TIME: Final = encode_varint(ExtensionField.APPEND_TIME << 3)
_PRODUCER_ID: Final = encode_varint(ExtensionField.PRODUCER_ID << 3)
_PRODUCER_EPOCH: Final = encode_varint(ExtensionField.PRODUCER_EPOCH << 3)
_SEQUENCE: Final = encode_varint(ExtensionField.SEQUENCE << 3)


class StoredMessage(NamedTuple):
    """One message of a fetch response or of a partition's log; None where its Broker did not send it."""

    message_id: int
    check_sum: int
    payload: bytes
    flag: int
    offset: int | None
    append_time: int | None
    producer_id: int | None
    producer_epoch: int | None
    sequence: int | None


def stored_entry(
    message_id: int,
    payload: bytes,
    flag: int,
    offset: int,
    append_time_ms: int,
    check_sum: int,
    producer_id: int | None = None,
    producer_epoch: int | None = None,
    sequence: int | None = None,
) -> bytes:
    """Encode a message as log and wire hold it: tag, length, `TransferedMessage`."""
    size = len(payload)
    # Messages of one write have ids and offsets that count up, so most of their bytes come from a cache.
    # The tags of `TransferedMessage`, written out: id, checksum and payload before the payload, the flag behind it.
    lead = b"\x08%b\x10%b\x1a%b" % (encode_rising(message_id), encode_varint(check_sum), encode_varint(size))
    # The tag \xc0\x3e is that of field 1000, the offset: written out, for this runs once for each message.
    rest = b"\x20%b\xc0\x3e%b%b" % (
        encode_varint(flag),
        encode_rising(offset),
        _time_and_producer(append_time_ms, producer_id, producer_epoch),
    )
    if sequence is not None:
        rest += _SEQUENCE + encode_varint(sequence)
    # the tag of field 4, length-delimited: `messages` of both fetch responses
    return b"".join((b"\x22", encode_varint(len(lead) + size + len(rest)), lead, payload, rest))


# One write has one append time, and most come from few producers.
@lru_cache(maxsize=1024)
def _time_and_producer(append_time_ms: int, producer_id: int | None, producer_epoch: int | None) -> bytes:
    """Encode the fields that the messages of a producer in one write share."""
    written = _APPEND_TIME + encode_varint(append_time_ms)
    if producer_id is not None:
        written += _PRODUCER_ID + encode_varint(producer_id)
    if producer_epoch is not None:
        written += _PRODUCER_EPOCH + encode_varint(producer_epoch)
    return written


def decode_stored(blob: bytes | memoryview) -> list[StoredMessage]:
    """Decode the messages of stored entries that follow each other.

    Raises:
        EnvelopeError: the bytes are no stored entries.
    """
    pb = _GetResponse()
    try:
        # By the class of a fetch response: its field 4 is what a stored entry is.
        pb.MergeFromString(blob)
    except (DecodeError, UnicodeDecodeError) as error:
        raise malformed(TransferedMessage, error) from error
    # the response's own required fields are not in the log; give them, so that only the entries are checked
    pb.success = True
    pb.errCode = 0
    if not pb.IsInitialized():
        raise missing(GetMessageResponseB2C, pb)
    return _decode_messages(pb.messages)


_read_stored: Final = attrgetter(
    "messageId", "checkSum", "payLoadData", "flag", "offset", "appendTime", "producerId", "producerEpoch", "sequence"
)


def _decode_messages(messages: Any) -> list[StoredMessage]:
    out: list[StoredMessage] = []
    append = out.append
    for pb in messages:
        message_id, check, payload, flag, offset, time_ms, producer, epoch, sequence = _read_stored(pb)
        # Only a value that equals protobuf's default may be an absent one, so only then protobuf is asked.
        if not offset and not pb.HasField("offset"):
            offset = None
        if not time_ms and not pb.HasField("appendTime"):
            time_ms = None
        if not producer and not pb.HasField("producerId"):
            producer = None
        if not epoch and not pb.HasField("producerEpoch"):
            epoch = None
        if not sequence and not pb.HasField("sequence"):
            sequence = None
        append(StoredMessage(message_id, check, payload, flag, offset, time_ms, producer, epoch, sequence))
    return out


# --- fetch responses ----------------------------------------------------------------------------------------------


def encode_get_message_response(head: GetMessageResponseB2C, slices: Sequence[bytes]) -> list[bytes]:
    """Encode a fetch response in parts: `head` without messages, and slices of stored entries in their place."""
    return _encode_fetched(head, slices)


def encode_read_range_response(head: ReadRangeResponseB2C, slices: Sequence[bytes]) -> list[bytes]:
    """Encode a range response in parts, as `encode_get_message_response`."""
    return _encode_fetched(head, slices)


def _encode_fetched(head: GetMessageResponseB2C | ReadRangeResponseB2C, slices: Sequence[bytes]) -> list[bytes]:
    whole = encode(head)
    # Messages are field 4 of both, between the text and the numbers: so here, and not at the end, protobuf would write
    # them.
    before = len(encode(type(head)(success=head.success, err_code=head.err_code, err_msg=head.err_msg)))
    return [whole[:before], *slices, whole[before:]]


def decode_get_message(body: bytes, *, counted: bool = False) -> tuple[GetMessageResponseB2C, list[StoredMessage]]:
    """Decode a fetch response into its head without messages, and the messages; `counted` as in `message_bytes.parse`.

    Raises:
        EnvelopeError: the bytes are no such response.
    """
    head, messages = _decode_fetched(GetMessageResponseB2C, _GetResponse, body, counted=counted)
    return head, messages


def decode_read_range(body: bytes, *, counted: bool = False) -> tuple[ReadRangeResponseB2C, list[StoredMessage]]:
    """Decode a range response, as `decode_get_message` does.

    Raises:
        EnvelopeError: the bytes are no such response.
    """
    head, messages = _decode_fetched(ReadRangeResponseB2C, _RangeResponse, body, counted=counted)
    return head, messages


def _decode_fetched(cls: Any, pb_class: Any, body: bytes, *, counted: bool) -> tuple[Any, list[StoredMessage]]:
    pb = parse(cls, pb_class, body, counted=counted)
    messages = _decode_messages(pb.messages)
    # Else `decode` would make objects of the messages once more.
    pb.ClearField("messages")
    # Through bytes once more; without its messages a head is short.
    return decode(cls, pb.SerializeToString()), messages
