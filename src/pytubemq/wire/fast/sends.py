"""Own ways for sends, one message or many in a request.

The invariant: every function here gives the same bytes or values as `message_bytes` does for the same message (a
property test holds it to that); it only takes a shorter way.
"""

from __future__ import annotations

from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from pytubemq.model.limits import MAX_BATCH_BYTES, MAX_BATCH_ENTRIES
from pytubemq.wire.batch.checksum import NOT_CHECKED
from pytubemq.wire.protobuf.varint import encode_varint
from pytubemq.wire.protocol.messages.broker import (
    AuthorizedInfo,
    SendMessageRequestP2B,
    SendMessageResponseB2P,
)
from pytubemq.wire.protocol.messages.extension import (
    SendBatchRequestP2B,
    SendBatchResponseB2P,
)
from pytubemq.wire.serialization.message_bytes import PB, encode, parse, text

if TYPE_CHECKING:
    from collections.abc import Sequence

_Send: Final = PB[SendMessageRequestP2B]
_SendResponse: Final = PB[SendMessageResponseB2P]
_Batch: Final = PB[SendBatchRequestP2B]
_BatchAnswer: Final = PB[SendBatchResponseB2P]


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


class BatchItem(NamedTuple):
    """One message of a batch; a blank type or time is None after decoding."""

    partition_id: int
    payload: bytes
    flag: int
    msg_type: str | None
    msg_time: str | None
    sequence: int | None


class SendBatch(NamedTuple):
    """A `SendBatchRequestP2B`, plain; with more than `MAX_BATCH_ENTRIES` messages there is one too many, not all."""

    client_id: str
    topic: str
    sent_addr: int
    items: list[BatchItem]
    producer_id: int | None
    producer_epoch: int | None
    refusals_seen: int | None = None


# --- one message at a time --------------------------------------------------------------------------------------


class SendTemplate:
    """Encodes the sends of one producer to one topic; what is the same in all of them is encoded once."""

    __slots__ = ("_head", "_tail", "_who", "client_id", "sent_addr", "topic")

    def __init__(self, client_id: str, topic: str, sent_addr: int, *, token: int | None = None) -> None:
        self.client_id = client_id
        self.topic = topic
        self.sent_addr = sent_addr
        client, name = client_id.encode(), topic.encode()
        self._head = b"\x0a%b%b\x12%b%b\x18" % (encode_varint(len(client)), client, encode_varint(len(name)), name)
        auth = b"" if token is None else encode(AuthorizedInfo(visit_authorized_token=token))
        self._tail = (
            b"\x30%b\x38%b" % (encode_varint(NOT_CHECKED), encode_varint(sent_addr)),
            b"" if token is None else b"\x52%b%b" % (encode_varint(len(auth)), auth),
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
        """A `SendMessageRequestP2B`; its checksum is left to the Broker, as every producer does."""
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
        if producer_id != who[0] or producer_epoch != who[1]:
            who_bytes = b"" if producer_id is None else _PRODUCER_ID + encode_varint(producer_id)
            if producer_epoch is not None:
                who_bytes += _PRODUCER_EPOCH + encode_varint(producer_epoch)
            self._who = (producer_id, producer_epoch), who_bytes
        rest = b""
        if msg_type:
            item = msg_type.encode()
            rest = b"\x42%b%b" % (encode_varint(len(item)), item)
        if msg_time:
            item = msg_time.encode()
            rest += b"\x4a%b%b" % (encode_varint(len(item)), item)
        return (
            b"%b%b\x22%b" % (self._head, encode_varint(partition_id), encode_varint(payload_bytes)),
            b"\x28%b%b%b%b%b" % (encode_varint(flag), fixed, rest + auth, who_bytes, _SEQUENCE if numbered else b""),
        )


_PRODUCER_ID: Final = encode_varint(1002 << 3)
_PRODUCER_EPOCH: Final = encode_varint(1003 << 3)
_SEQUENCE: Final = encode_varint(1004 << 3)

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
    """A `SendMessageRequestP2B`.

    Raises:
        EnvelopeError: the bytes are no such request.
    """
    pb = parse(SendMessageRequestP2B, _Send, body)
    client_id, topic, *plain, msg_type, msg_time, producer, epoch, sequence = _read_send(pb)
    return SendRequest._make(
        (
            text(client_id),
            text(topic),
            *plain,
            text(msg_type) or None,
            text(msg_time) or None,
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
    """A `SendMessageResponseB2P`."""
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


# --- many messages at a time ------------------------------------------------------------------------------------


def encode_send_batch(
    client_id: str,
    topic: str,
    sent_addr: int,
    items: Sequence[BatchItem],
    producer_id: int | None = None,
    producer_epoch: int | None = None,
    *,
    token: int | None = None,
    refusals_seen: int | None = None,
) -> list[bytes]:
    """A `SendBatchRequestP2B` in parts."""
    head = SendBatchRequestP2B(client_id=client_id, topic_name=topic, sent_addr=sent_addr)
    tail = b""
    if producer_id is not None:
        tail += b"\x28" + encode_varint(producer_id)
    if producer_epoch is not None:
        tail += b"\x30" + encode_varint(producer_epoch)
    if token is not None:
        auth = encode(AuthorizedInfo(visit_authorized_token=token))
        tail += b"\x3a%b%b" % (encode_varint(len(auth)), auth)
    if refusals_seen is not None:
        tail += b"\x40" + encode_varint(refusals_seen)
    parts = [encode(head)]
    append = parts.append
    varint = encode_varint
    for partition_id, payload, flag, msg_type, msg_time, sequence in items:
        rest = b""
        if msg_type is not None:
            item = msg_type.encode()
            rest = b"\x22%b%b" % (varint(len(item)), item)
        if msg_time is not None:
            item = msg_time.encode()
            rest += b"\x2a%b%b" % (varint(len(item)), item)
        if sequence is not None:
            rest += b"\x30" + varint(sequence)
        lead = b"\x08%b\x12%b" % (varint(partition_id), varint(len(payload)))
        trail = b"\x18%b%b" % (varint(flag), rest)
        append(b"\x22%b%b" % (varint(len(lead) + len(payload) + len(trail)), lead))
        append(payload)
        append(trail)
    append(tail)
    return [b"".join(parts)]


_UNCOUNTED_BYTES: Final = 2 * MAX_BATCH_BYTES
"""Batches up to this size are not counted first: protobuf takes at most 100 MB for them; producers send half of it."""
_read_entry: Final = attrgetter("partitionId", "data", "flag", "msgType", "msgTime", "sequence")


def decode_send_batch(body: bytes) -> SendBatch:
    """A `SendBatchRequestP2B`.

    Raises:
        EnvelopeError: the bytes are no such request.
    """
    # Only MAX_BATCH_ENTRIES are read in any case; counting all of them first would cost a fifth of the reading time.
    pb = parse(SendBatchRequestP2B, _Batch, body, counted=len(body) <= _UNCOUNTED_BYTES)
    items: list[BatchItem] = []
    append, new = items.append, tuple.__new__
    for entry in islice(pb.entries, MAX_BATCH_ENTRIES + 1):
        partition_id, data, flag, msg_type, msg_time, sequence = _read_entry(entry)
        if not sequence and not entry.HasField("sequence"):
            sequence = None
        append(
            # half the time of calling the class, and this is done for every message
            new(
                BatchItem,
                (
                    partition_id,
                    data,
                    flag,
                    text(msg_type) if msg_type else None,
                    text(msg_time) if msg_time else None,
                    sequence,
                ),
            )
        )
    return SendBatch(
        text(pb.clientId),
        text(pb.topicName),
        pb.sentAddr,
        items,
        pb.producerId if pb.HasField("producerId") else None,
        pb.producerEpoch if pb.HasField("producerEpoch") else None,
        pb.refusalsSeen if pb.HasField("refusalsSeen") else None,
    )


def encode_send_batch_response(
    *,
    success: bool,
    err_code: int,
    err_msg: str,
    err_codes: Sequence[int] = (),
    message_ids: Sequence[int] = (),
    offsets: Sequence[int] = (),
    append_time: int | None = None,
) -> bytes:
    """A `SendBatchResponseB2P`; the lists by position, or empty when one code speaks for all."""
    pb = _BatchAnswer()
    pb.success = success
    pb.errCode = err_code
    pb.errMsg = err_msg
    pb.errCodes.extend(err_codes)
    pb.messageIds.extend(message_ids)
    pb.offsets.extend(offsets)
    if append_time is not None:
        pb.appendTime = append_time
    data: bytes = pb.SerializeToString()
    return data
