"""SEND_PACKS in its own way gives what the generic codec gives."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.errors import EnvelopeError
from pytubemq.model.limits import MAX_RECORD_BATCHES
from pytubemq.wire.batch import send_batches
from pytubemq.wire.protocol.messages.broker import AuthorizedInfo
from pytubemq.wire.protocol.messages.extension import (
    PackEntry,
    PackResult,
    PackSpan,
    SendPacksRequestP2B,
    SendPacksResponseB2P,
)
from pytubemq.wire.serialization.message_bytes import decode, encode
from tests.unit.wire.strategies import I32, I64, TEXT, fault, messages

MAYBE_I32 = st.none() | I32
MAYBE_I64 = st.none() | I64
PACKS = st.lists(st.tuples(I32, st.binary(max_size=300), MAYBE_I64), max_size=4)


def plain(request: SendPacksRequestP2B) -> send_batches.SendPacks:
    return send_batches.SendPacks(
        request.client_id,
        request.topic_name,
        request.sent_addr,
        [send_batches.BatchItem(pack.partition_id, pack.data, pack.first_sequence) for pack in request.packs],
        request.producer_id,
        request.producer_epoch,
        request.refusals_seen,
    )


@given(TEXT, TEXT, I32, PACKS, MAYBE_I64, MAYBE_I32, MAYBE_I64, MAYBE_I64)
def test_a_request_is_written_as_the_codec_writes_it(
    client_id: str,
    topic: str,
    sent_addr: int,
    packs: list[tuple[int, bytes, int | None]],
    producer_id: int | None,
    epoch: int | None,
    token: int | None,
    seen: int | None,
) -> None:
    auth_info = None if token is None else AuthorizedInfo(visit_authorized_token=token, auth_authorized_token="t")
    parts = send_batches.encode_send_packs(
        client_id, topic, sent_addr, packs, producer_id, epoch, auth_info=auth_info, refusals_seen=seen
    )
    assert all(any(part is columns for part in parts) for _, columns, _ in packs), "columns are not copied"
    assert b"".join(parts) == encode(
        SendPacksRequestP2B(
            client_id=client_id,
            topic_name=topic,
            sent_addr=sent_addr,
            packs=tuple(
                [
                    PackEntry(partition_id=partition, data=columns, first_sequence=first)
                    for partition, columns, first in packs
                ]
            ),
            producer_id=producer_id,
            producer_epoch=epoch,
            auth_info=auth_info,
            refusals_seen=seen,
        )
    )


@given(messages(SendPacksRequestP2B))
def test_a_request_is_read_as_the_codec_reads_it(request: SendPacksRequestP2B) -> None:
    body = encode(request)
    read = send_batches.decode_send_packs(body)
    assert read == plain(request)
    assert read == send_batches._parse_by_protobuf(body)
    assert all(isinstance(pack.data, memoryview) and pack.data.obj is body for pack in read.packs), (
        "packs are views of the request"
    )


def outcome(read: Any, body: bytes) -> Any:
    """What a reader gives, or that it refuses."""
    try:
        return read(body)
    except EnvelopeError as error:
        return error.text.split(":")[0]


@given(messages(SendPacksRequestP2B), st.data())
def test_a_damaged_request_is_read_as_protobuf_reads_it(request: SendPacksRequestP2B, data: st.DataObject) -> None:
    """Bytes changed, dropped, doubled: the direct way takes nothing that protobuf refuses, nor reads it otherwise."""
    body = bytearray(encode(request))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(body)))
        stop = data.draw(st.integers(at, min(at + 3, len(body))))
        body[at:stop] = data.draw(st.binary(max_size=4) | st.just(bytes(body[: at + 1])))
    assert outcome(send_batches.decode_send_packs, bytes(body)) == outcome(send_batches._parse_by_protobuf, bytes(body))


@given(st.binary(max_size=60))
def test_noise_is_read_as_protobuf_reads_it(noise: bytes) -> None:
    assert outcome(send_batches.decode_send_packs, noise) == outcome(send_batches._parse_by_protobuf, noise)


@pytest.mark.parametrize("read", [send_batches.decode_send_packs, send_batches._parse_by_protobuf])
def test_no_more_packs_are_held_than_may_be_and_one(read: Any) -> None:
    head = encode(SendPacksRequestP2B(client_id="c", topic_name="t", sent_addr=0))
    one = b"\x22\x04\x08\x01\x12\x00"
    assert len(read(head + one * MAX_RECORD_BATCHES).packs) == MAX_RECORD_BATCHES
    assert len(read(head + one * (2 * MAX_RECORD_BATCHES)).packs) == MAX_RECORD_BATCHES + 1
    with pytest.raises(EnvelopeError, match=f"more than {2 * MAX_RECORD_BATCHES} packs"):
        read(head + one * (2 * MAX_RECORD_BATCHES + 1))


def test_a_request_without_what_it_needs_is_refused_by_name() -> None:
    with pytest.raises(EnvelopeError, match="topicName"):
        send_batches.decode_send_packs(b"\x0a\x01c\x18\x00")
    with pytest.raises(EnvelopeError, match=r"packs\[0\]\.data"):
        send_batches.decode_send_packs(b"\x0a\x01c\x12\x01t\x18\x00\x22\x02\x08\x01")


@given(messages(SendPacksResponseB2P))
def test_an_answer_is_written_and_read_as_the_codec_does(answer: SendPacksResponseB2P) -> None:
    results = [
        [
            send_batches.SpanResult(
                span.count,
                span.err_code,
                span.first_offset,
                span.first_message_id,
                bool(span.repeated),
                span.err_msg or "",
            )
            for span in result.spans
        ]
        for result in answer.results
    ]
    assert send_batches.decode_send_packs_response(encode(answer)) == send_batches.SendPacksResponse(
        answer.success, answer.err_code, answer.err_msg, results, answer.append_time
    )
    written = send_batches.encode_send_packs_response(
        success=answer.success,
        err_code=answer.err_code,
        err_msg=answer.err_msg,
        results=results,
        append_time=answer.append_time,
    )
    assert decode(SendPacksResponseB2P, written) == SendPacksResponseB2P(
        success=answer.success,
        err_code=answer.err_code,
        err_msg=answer.err_msg,
        results=tuple([PackResult(spans=tuple(map(as_sent, result.spans))) for result in answer.results]),
        append_time=answer.append_time,
    )
    assert written == encode(decode(SendPacksResponseB2P, written))


def as_sent(span: PackSpan) -> PackSpan:
    """What is the default is left out."""
    return PackSpan(
        count=span.count,
        err_code=span.err_code,
        first_offset=span.first_offset,
        first_message_id=span.first_message_id,
        repeated=span.repeated or None,
        err_msg=span.err_msg or None,
    )


@given(st.binary(max_size=60))
def test_noise_as_an_answer_gives_values_or_an_envelope_error(noise: bytes) -> None:
    fault(lambda: send_batches.decode_send_packs_response(noise), EnvelopeError)
