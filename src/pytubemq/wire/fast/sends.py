"""Fast paths for encoding and decoding SendMessage requests and responses.

The invariant: every function here gives the same bytes or values as `message_bytes` does for the same message (a
property test holds it to that); it only takes a shorter way.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Final, NamedTuple

from pytubemq.wire.batch.checksum import NOT_CHECKED
from pytubemq.wire.protobuf.varint import encode_varint
from pytubemq.wire.protocol.messages.broker import (
    AuthorizedInfo,
    SendMessageRequestP2B,
    SendMessageResponseB2P,
)
from pytubemq.wire.serialization.message_bytes import PB, encode, parse, text

_Send: Final = PB[SendMessageRequestP2B]
_SendResponse: Final = PB[SendMessageResponseB2P]


class SendRequest(NamedTuple):
    """A `SendMessageRequestP2B`, plain; a blank type or time is None."""

    client_id: str
    topic: str
    partition_id: int
    payload: bytes
    flag: int
    check_sum: int
    sent_addr: int
    msg_type: str | None
    msg_time: str | None
    producer_id: int | None
    producer_epoch: int | None
    sequence: int | None


class SendTemplate:
    """An encoder of the sends of one producer to one topic; what is the same in all of them is encoded once."""

    __slots__ = ("_head", "_tail", "_who", "client_id", "sent_addr", "topic")

    def __init__(self, client_id: str, topic: str, sent_addr: int, *, auth_info: AuthorizedInfo | None = None) -> None:
        self.client_id = client_id
        self.topic = topic
        self.sent_addr = sent_addr
        client, name = client_id.encode(), topic.encode()
        # Client id and topic (1, 2), and the tag of the partition (3), whose number follows.
        self._head = b"\x0a%b%b\x12%b%b\x18" % (encode_varint(len(client)), client, encode_varint(len(name)), name)
        # Through protobuf: once for a template, not for each message.
        auth = b"" if auth_info is None else encode(auth_info)
        self._tail = (
            # checkSum and sentAddr (6, 7) are between flag and type, authInfo (10) behind the time: the order of the
            # numbers, as protobuf writes it.
            b"\x30%b\x38%b" % (encode_varint(NOT_CHECKED), encode_varint(sent_addr)),
            b"" if auth_info is None else b"\x52%b%b" % (encode_varint(len(auth)), auth),
        )
        self._who: tuple[tuple[int | None, int | None], bytes] = ((None, None), b"")
        """The producer of the last message, and its id and epoch as they are written."""

    def encode(
        self,
        partition_id: int,
        payload: bytes,
        flag: int,
        msg_type: str | None = None,
        msg_time: str | None = None,
        sequence: int | None = None,
        producer_id: int | None = None,
        producer_epoch: int | None = None,
    ) -> bytes:
        """Encode a `SendMessageRequestP2B`; its checksum is left to the Broker, as every producer does."""
        before, after = self.around(
            partition_id,
            len(payload),
            flag,
            msg_type,
            msg_time,
            producer_id,
            producer_epoch,
            numbered=sequence is not None,
        )
        # Without a number the message ends here; with one, its tag is at the end of `after`.
        if sequence is None:
            return before + payload + after
        return b"%b%b%b%b" % (before, payload, after, encode_varint(sequence))

    def around(
        self,
        partition_id: int,
        payload_bytes: int,
        flag: int,
        msg_type: str | None,
        msg_time: str | None,
        producer_id: int | None,
        producer_epoch: int | None,
        *,
        numbered: bool,
    ) -> tuple[bytes, bytes]:
        """Return the bytes before and after a payload of that size; if `numbered` the sequence's number follows."""
        fixed, auth = self._tail
        who, who_bytes = self._who
        # Nearly always that of the message before, so its bytes are kept.
        if producer_id != who[0] or producer_epoch != who[1]:
            who_bytes = b"" if producer_id is None else _PRODUCER_ID + encode_varint(producer_id)
            if producer_epoch is not None:
                who_bytes += _PRODUCER_EPOCH + encode_varint(producer_epoch)
            self._who = (producer_id, producer_epoch), who_bytes
        rest = b""
        # Empty counts as absent: Java and C++ send type and time only where they are not blank.
        if msg_type:
            item = msg_type.encode()
            rest = b"\x42%b%b" % (encode_varint(len(item)), item)
        if msg_time:
            item = msg_time.encode()
            rest += b"\x4a%b%b" % (encode_varint(len(item)), item)
        # The sequence is the last field, so the bytes around a payload serve all messages of its size.
        return (
            b"%b%b\x22%b" % (self._head, encode_varint(partition_id), encode_varint(payload_bytes)),
            b"\x28%b%b%b%b%b" % (encode_varint(flag), fixed, rest + auth, who_bytes, _SEQUENCE if numbered else b""),
        )


# Numbers from `ExtensionField`; in their order behind all fields of the original.
_PRODUCER_ID: Final = encode_varint(1002 << 3)
_PRODUCER_EPOCH: Final = encode_varint(1003 << 3)
_SEQUENCE: Final = encode_varint(1004 << 3)

# One call for all fields costs less than twelve of them.
_read_send: Final = attrgetter(
    "clientId",
    "topicName",
    "partitionId",
    "data",
    "flag",
    "checkSum",
    "sentAddr",
    "msgType",
    "msgTime",
    "producerId",
    "producerEpoch",
    "sequence",
)


def decode_send(body: bytes) -> SendRequest:
    """Decode a `SendMessageRequestP2B`.

    Raises:
        EnvelopeError: the bytes are no such request.
    """
    # The plain way: whatever the fast ones leave alone ends here.
    pb = parse(SendMessageRequestP2B, _Send, body)
    client_id, topic, *plain, msg_type, msg_time, producer, epoch, sequence = _read_send(pb)
    return SendRequest._make(
        (
            text(client_id),
            text(topic),
            *plain,
            # To the original's Broker a blank type is none.
            text(msg_type) or None,
            text(msg_time) or None,
            # Only a value that equals protobuf's default may be an absent one, so only then protobuf is asked.
            producer if producer or pb.HasField("producerId") else None,
            epoch if epoch or pb.HasField("producerEpoch") else None,
            sequence if sequence or pb.HasField("sequence") else None,
        )
    )


def encode_send_response(
    *,
    success: bool,
    err_code: int,
    err_msg: str,
    message_id: int | None = None,
    append_time: int | None = None,
    append_offset: int | None = None,
    require_auth: bool | None = None,
) -> bytes:
    """Encode a `SendMessageResponseB2P`."""
    # Only refusals come this way; what was accepted has `send_message.encode_send_response`.
    pb = _SendResponse()
    if require_auth is not None:
        pb.requireAuth = require_auth
    pb.success = success
    pb.errCode = err_code
    pb.errMsg = err_msg
    if message_id is not None:
        pb.messageId = message_id
    if append_time is not None:
        pb.appendTime = append_time
    if append_offset is not None:
        pb.appendOffset = append_offset
    data: bytes = pb.SerializeToString()
    return data
