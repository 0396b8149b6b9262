"""The short ways give what the generic codec gives."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.errors import EnvelopeError
from pytubemq.wire.batch import stored
from pytubemq.wire.fast import sends
from pytubemq.wire.protobuf.varint import encode_varint
from pytubemq.wire.protocol.messages.broker import (
    AuthorizedInfo,
    GetMessageResponseB2C,
    SendMessageRequestP2B,
    SendMessageResponseB2P,
    TransferedMessage,
)
from pytubemq.wire.protocol.messages.extension import (
    ReadRangeResponseB2C,
)
from pytubemq.wire.serialization.message_bytes import decode, encode
from tests.unit.wire.strategies import I32, I64, TEXT, fault, messages

BODY = st.binary(max_size=300)
NAME = TEXT.filter(bool)
MAYBE_NAME = st.none() | NAME
MAYBE_I32 = st.none() | I32
MAYBE_I64 = st.none() | I64

ENTRIES = st.tuples(I64, BODY, I32, I64, I64, I32, MAYBE_I64, MAYBE_I32, MAYBE_I64)


def as_message(entry: tuple[Any, ...]) -> TransferedMessage:
    message_id, payload, flag, offset, append_time, check, producer_id, epoch, sequence = entry
    return TransferedMessage(
        message_id=message_id,
        check_sum=check,
        pay_load_data=payload,
        flag=flag,
        offset=offset,
        append_time=append_time,
        producer_id=producer_id,
        producer_epoch=epoch,
        sequence=sequence,
    )


def as_stored(message: TransferedMessage) -> stored.StoredMessage:
    return stored.StoredMessage(
        message.message_id,
        message.check_sum,
        message.pay_load_data,
        message.flag,
        message.offset,
        message.append_time,
        message.producer_id,
        message.producer_epoch,
        message.sequence,
    )


@given(st.lists(ENTRIES, max_size=4))
def test_stored_entries_are_field_four_of_an_answer(entries: list[tuple[Any, ...]]) -> None:
    blob = b"".join([stored.stored_entry(*entry) for entry in entries])
    wanted = tuple([as_message(entry) for entry in entries])
    head = encode(GetMessageResponseB2C(success=True, err_code=200))
    whole = encode(GetMessageResponseB2C(success=True, err_code=200, messages=wanted))
    assert head + blob == whole
    assert stored.decode_stored(blob) == [as_stored(message) for message in wanted]
    assert stored.decode_stored(memoryview(blob)) == stored.decode_stored(blob)


@given(messages(GetMessageResponseB2C))
def test_fetch_answer(answer: GetMessageResponseB2C) -> None:
    body = encode(answer)
    head, messages = stored.decode_get_message(body)
    assert messages == [as_stored(message) for message in answer.messages]
    assert head.messages == ()
    slices = [b"\x22" + encode_varint(len(data)) + data for data in map(encode, answer.messages)]
    assert b"".join(stored.encode_get_message_response(head, slices)) == body
    assert decode(GetMessageResponseB2C, body) == answer


@given(messages(ReadRangeResponseB2C))
def test_range_answer(answer: ReadRangeResponseB2C) -> None:
    body = encode(answer)
    head, messages = stored.decode_read_range(body)
    assert messages == [as_stored(message) for message in answer.messages]
    slices = [b"\x22" + encode_varint(len(data)) + data for data in map(encode, answer.messages)]
    assert b"".join(stored.encode_read_range_response(head, slices)) == body


@given(NAME, NAME, I32, I32, BODY, I32, MAYBE_NAME, MAYBE_NAME, MAYBE_I64, MAYBE_I64, MAYBE_I32, MAYBE_I64, MAYBE_NAME)
def test_send_template(
    client_id: str,
    topic: str,
    sent_addr: int,
    partition_id: int,
    payload: bytes,
    flag: int,
    msg_type: str | None,
    msg_time: str | None,
    sequence: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
    token: int | None,
    own: str | None,
) -> None:
    auth_info = None if token is None else AuthorizedInfo(visit_authorized_token=token, auth_authorized_token=own)
    template = sends.SendTemplate(client_id, topic, sent_addr, auth_info=auth_info)
    body = template.encode(partition_id, payload, flag, msg_type, msg_time, sequence, producer_id, producer_epoch)
    assert body == encode(
        SendMessageRequestP2B(
            client_id=client_id,
            topic_name=topic,
            partition_id=partition_id,
            data=payload,
            flag=flag,
            check_sum=-1,
            sent_addr=sent_addr,
            msg_type=msg_type,
            msg_time=msg_time,
            auth_info=auth_info,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            sequence=sequence,
        )
    )


@given(messages(SendMessageRequestP2B))
def test_decode_send(message: SendMessageRequestP2B) -> None:
    assert sends.decode_send(encode(message)) == sends.SendRequest(
        message.client_id,
        message.topic_name,
        message.partition_id,
        message.data,
        message.flag,
        message.check_sum,
        message.sent_addr,
        message.msg_type or None,
        message.msg_time or None,
        message.producer_id,
        message.producer_epoch,
        message.sequence,
    )


@given(messages(SendMessageResponseB2P))
def test_send_answer(answer: SendMessageResponseB2P) -> None:
    assert decode(SendMessageResponseB2P, encode(answer)) == answer
    assert sends.encode_send_response(**dataclasses.asdict(answer)) == encode(answer)


READERS = (
    stored.decode_stored,
    stored.decode_get_message,
    stored.decode_read_range,
    sends.decode_send,
    partial(decode, SendMessageResponseB2P),
)


@given(st.sampled_from(READERS), st.binary(max_size=100))
def test_noise_gives_values_or_envelope_error(read: Any, noise: bytes) -> None:
    error = fault(lambda: read(noise), EnvelopeError)
    assert error is None or error.fatal


@pytest.mark.parametrize("cut", range(1, 20))
def test_a_cut_entry_is_refused(cut: int) -> None:
    blob = stored.stored_entry(1, b"payload", 0, 28, 5, 9) * 2
    with pytest.raises(EnvelopeError):
        stored.decode_stored(blob[:-cut])


def test_an_entry_without_its_required_fields_is_refused() -> None:
    with pytest.raises(EnvelopeError, match=r"messages\[0\]\.checkSum"):
        stored.decode_stored(b"\x22\x02\x08\x05")


def test_fields_may_come_in_another_order() -> None:
    """protobuf lets a writer order fields as it likes; ours stand in order, a peer's need not."""
    head = encode(GetMessageResponseB2C(success=True, err_code=200, curr_offset=3))
    entry = stored.stored_entry(1, b"x", 0, 28, 5, 9)
    assert stored.decode_get_message(entry + head) == stored.decode_get_message(head + entry)


def test_text_that_is_not_utf8_is_read_as_the_original_reads_it() -> None:
    body = sends.SendTemplate("abcd", "topic", 0).encode(0, b"x", 0, "gbk!").replace(b"gbk!", b"\xc0\xc1\xc0\xc1")
    assert sends.decode_send(body).msg_type == "\ufffd" * 4
