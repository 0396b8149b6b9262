"""SEND_PACKS: its request and its response, without a copy of the batches where there need be none.

The invariant: every function gives the same bytes or values as `message_bytes` does for the same message. A request's
batches are views of its bytes, and no more of them are held than a request may have, and one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pytubemq.model.limits import MAX_RECORD_BATCHES
from pytubemq.wire.protobuf.fields import MAX_USUAL_FIELDS, UnusualError, read_field, signed32, signed64
from pytubemq.wire.protobuf.varint import encode_varint
from pytubemq.wire.protocol.messages.extension import SendPacksRequestP2B, SendPacksResponseB2P
from pytubemq.wire.serialization.message_bytes import PB, encode, parse, text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.wire.protocol.messages.broker import AuthorizedInfo

_Request: Final = PB[SendPacksRequestP2B]
_Response: Final = PB[SendPacksResponseB2P]


class BatchItem(NamedTuple):
    """A record batch on its way to a partition; `data` holds its columns, not looked at yet."""

    partition_id: int
    data: bytes | memoryview
    first_sequence: int | None = None


class SendPacks(NamedTuple):
    """A `SendPacksRequestP2B`, plain; with more than `MAX_RECORD_BATCHES` there is one of those too many, not all."""

    client_id: str
    topic: str
    sent_addr: int
    packs: list[BatchItem]
    producer_id: int | None = None
    producer_epoch: int | None = None
    refusals_seen: int | None = None


class SpanResult(NamedTuple):
    """The result of the next so many messages of a record batch (see `PackSpan`)."""

    messages: int
    code: int
    first_offset: int
    first_message_id: int
    repeated: bool = False
    text: str = ""


class SendPacksResponse(NamedTuple):
    """A `SendPacksResponseB2P`, plain: one list of spans for each record batch, or none when one code speaks for
    all."""

    success: bool
    err_code: int
    err_msg: str
    results: list[list[SpanResult]]
    append_time: int | None


# --- the request ------------------------------------------------------------------------------------------------


def encode_send_packs(
    client_id: str,
    topic: str,
    sent_addr: int,
    packs: Sequence[tuple[int, bytes, int | None]],
    producer_id: int | None = None,
    producer_epoch: int | None = None,
    *,
    auth_info: AuthorizedInfo | None = None,
    refusals_seen: int | None = None,
) -> list[bytes]:
    """Encode a `SendPacksRequestP2B` in parts.

    Args:
        client_id: the producer's.
        topic: of all batches.
        sent_addr: the producer's address as a number.
        packs: partition id, columns and first sequence of each; the columns become parts as they are.
        producer_id: whose sequences they are.
        producer_epoch: which of this producer's lives it is.
        auth_info: the visit token and the client's own, if the Master gave any.
        refusals_seen: how many refused batches of this connection the producer knows of.
    """
    # The head through protobuf: it is written once a request, while batches come in numbers and in megabytes.
    parts = [encode(SendPacksRequestP2B(client_id=client_id, topic_name=topic, sent_addr=sent_addr))]
    for partition_id, columns, first_sequence in packs:
        # Tags by hand, as there may be many batches: \x08 is field 1 as a number, \x12 field 2 with a length, \x18
        # field 3; \x22 is field 4 of the request, which has one value for each batch.
        lead = b"\x08%b\x12%b" % (encode_varint(partition_id), encode_varint(len(columns)))
        trail = b"" if first_sequence is None else b"\x18%b" % encode_varint(first_sequence)
        parts.append(b"\x22%b%b" % (encode_varint(len(lead) + len(columns) + len(trail)), lead))
        # As they are: joined to the rest they would be copied, a megabyte each time.
        parts.append(columns)
        parts.append(trail)
    # In the order of their numbers (5 to 8), each only if it is given, as protobuf would write them.
    tail = b""
    if producer_id is not None:
        tail += b"\x28%b" % encode_varint(producer_id)
    if producer_epoch is not None:
        tail += b"\x30%b" % encode_varint(producer_epoch)
    if auth_info is not None:
        auth = encode(auth_info)
        tail += b"\x3a%b%b" % (encode_varint(len(auth)), auth)
    if refusals_seen is not None:
        tail += b"\x40%b" % encode_varint(refusals_seen)
    parts.append(tail)
    return parts


def decode_send_packs(body: bytes) -> SendPacks:
    """Decode a `SendPacksRequestP2B`; its batches are views of `body`.

    Raises:
        EnvelopeError: the bytes are no such request.
    """
    try:
        return _read_request(body)
    except UnusualError:
        return _parse_by_protobuf(body)


def _read_request(body: bytes) -> SendPacks:
    client_id = topic = None
    numbers: dict[int, int] = {}
    packs: list[BatchItem] = []
    # Of a request of megabytes only what is around the record batches is copied.
    view = memoryview(body)
    at, end, others = 0, len(body), 0
    while at < end:
        key, value, at = read_field(body, at, end)
        # First, as nearly all fields of a large request are batches.
        if key == _PACKS:
            if len(packs) > MAX_RECORD_BATCHES:
                raise UnusualError  # the general reader counts the fields first
            packs.append(_read_item(body, view, value, at))
            continue
        others += 1
        if others > MAX_USUAL_FIELDS:
            raise UnusualError
        if key == _CLIENT_ID:
            # The last of several counts, as in protobuf.
            client_id = body[value:at]
        elif key == _TOPIC:
            topic = body[value:at]
        elif key in _NUMBERS:
            numbers[key] = value
        # Not decoded, but it must be whole: protobuf refuses a message with a part that is not.
        elif key == _AUTH_INFO:
            _read_auth(body, value, at)
        elif key >> 3 <= _LAST_FIELD:
            raise UnusualError  # one of ours in another wire type
    # Protobuf words what is missing.
    if client_id is None or topic is None or _SENT_ADDR not in numbers:
        raise UnusualError
    get = numbers.get
    producer, epoch, seen = get(_PRODUCER_ID), get(_PRODUCER_EPOCH), get(_REFUSALS_SEEN)
    return SendPacks(
        text(client_id),
        text(topic),
        # Addresses from 128.0.0.0 up are negative numbers.
        signed32(numbers[_SENT_ADDR]),
        packs,
        None if producer is None else signed64(producer),
        None if epoch is None else signed32(epoch),
        None if seen is None else signed64(seen),
    )


def _read_item(body: bytes, view: memoryview, at: int, end: int) -> BatchItem:
    partition = data = sequence = None
    fields = 0
    while at < end:
        key, value, at = read_field(body, at, end)
        fields += 1
        if fields > MAX_USUAL_FIELDS:
            raise UnusualError
        if key == _PARTITION:
            partition = signed32(value)
        elif key == _DATA:
            data = view[value:at]
        elif key == _FIRST_SEQUENCE:
            sequence = signed64(value)
        elif key >> 3 <= _LAST_ITEM_FIELD:
            raise UnusualError
    if partition is None or data is None:
        raise UnusualError
    return BatchItem(partition, data, sequence)


def _read_auth(body: bytes, at: int, end: int) -> None:
    """Check only that it is whole: who needs it decodes the message."""
    token = False
    fields = 0
    while at < end:
        key, _, at = read_field(body, at, end)
        fields += 1
        if fields > MAX_USUAL_FIELDS:
            raise UnusualError
        if key == _TOKEN:
            token = True
        # A text that is not UTF-8 is no fault here, as protobuf takes it, too.
        elif key != _AUTH_TOKEN:
            raise UnusualError
    if not token:
        raise UnusualError


def _parse_by_protobuf(body: bytes) -> SendPacks:
    pb = parse(SendPacksRequestP2B, _Request, body)
    return SendPacks(
        text(pb.clientId),
        text(pb.topicName),
        pb.sentAddr,
        [
            BatchItem(
                pack.partitionId,
                memoryview(pack.data),
                # 0 is a sequence; only a field that is absent says that there is none.
                pack.firstSequence if pack.HasField("firstSequence") else None,
            )
            # One more than allowed is enough to see that there are too many.
            for pack in pb.packs[: MAX_RECORD_BATCHES + 1]
        ],
        pb.producerId if pb.HasField("producerId") else None,
        pb.producerEpoch if pb.HasField("producerEpoch") else None,
        pb.refusalsSeen if pb.HasField("refusalsSeen") else None,
    )


# Keys: field number and wire type.
_CLIENT_ID: Final = 1 << 3 | 2
_TOPIC: Final = 2 << 3 | 2
_SENT_ADDR: Final = 3 << 3
_PACKS: Final = 4 << 3 | 2
_PRODUCER_ID: Final = 5 << 3
_PRODUCER_EPOCH: Final = 6 << 3
_AUTH_INFO: Final = 7 << 3 | 2
_REFUSALS_SEEN: Final = 8 << 3
_LAST_FIELD: Final = 8
_NUMBERS: Final = frozenset({_SENT_ADDR, _PRODUCER_ID, _PRODUCER_EPOCH, _REFUSALS_SEEN})
_PARTITION: Final = 1 << 3
_DATA: Final = 2 << 3 | 2
_FIRST_SEQUENCE: Final = 3 << 3
_LAST_ITEM_FIELD: Final = 3
_TOKEN: Final = 1 << 3
_AUTH_TOKEN: Final = 2 << 3 | 2


# --- the response -------------------------------------------------------------------------------------------------


def encode_send_packs_response(
    *,
    success: bool,
    err_code: int,
    err_msg: str,
    results: Sequence[Sequence[tuple[int, int, int, int, bool, str]]] = (),
    append_time: int | None = None,
) -> bytes:
    """Encode a `SendPacksResponseB2P`.

    Args:
        success: whether every message was taken.
        err_code: of the first refused message, else 200.
        err_msg: what it was refused for.
        results: for each batch its spans: count, code, first offset, first message id, whether they are repeats, and
            text; none when one code speaks for all messages.
        append_time: ms.
    """
    parts = [encode(SendPacksResponseB2P(success=success, err_code=err_code, err_msg=err_msg))]
    for spans in results:
        # Field 4 for each batch, and in it field 1 for each span; by hand, since a request may have thousands of
        # batches.
        items = b"".join([_span(*span) for span in spans])
        parts.append(b"\x22%b%b" % (encode_varint(len(items)), items))
    if append_time is not None:
        parts.append(b"\x28%b" % encode_varint(append_time))
    return b"".join(parts)


def _span(count: int, code: int, first_offset: int, first_message_id: int, repeated: bool, err_msg: str) -> bytes:
    # Fields 1 to 4 of `PackSpan`; the optional ones (5 and 6) follow where they say something.
    item = b"\x08%b\x10%b\x18%b\x20%b" % (
        encode_varint(count),
        encode_varint(code),
        encode_varint(first_offset),
        encode_varint(first_message_id),
    )
    # Only where it is true: most spans have no repeats, and absent reads as false.
    if repeated:
        item += b"\x28\x01"
    if err_msg:
        # A text of ours may repeat a peer's; what has no UTF-8 must not lose the whole response.
        words = err_msg.encode("utf-8", "replace")
        item += b"\x32%b%b" % (encode_varint(len(words)), words)
    return b"\x0a%b%b" % (encode_varint(len(item)), item)


def decode_send_packs_response(body: bytes) -> SendPacksResponse:
    """Decode a `SendPacksResponseB2P`.

    Raises:
        EnvelopeError: the bytes are no such response.
    """
    # Through protobuf: one response answers for many messages, so a shorter way would gain little.
    pb = parse(SendPacksResponseB2P, _Response, body)
    return SendPacksResponse(
        pb.success,
        pb.errCode,
        text(pb.errMsg),
        [[_read_span(span) for span in result.spans] for result in pb.results],
        pb.appendTime if pb.HasField("appendTime") else None,
    )


def _read_span(span: Any) -> SpanResult:
    return SpanResult(span.count, span.errCode, span.firstOffset, span.firstMessageId, span.repeated, text(span.errMsg))
