"""SendMessage without protobuf gives what the generic codec gives."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pytubemq.errors import EnvelopeError
from pytubemq.wire.fast import send_message, sends
from pytubemq.wire.protobuf.schema import specs
from pytubemq.wire.protocol.messages.broker import SendMessageRequestP2B, SendMessageResponseB2P
from pytubemq.wire.serialization.message_bytes import decode, encode
from tests.unit.wire.strategies import TEXT, messages

MAYBE = st.none() | TEXT
NATURAL = st.integers(0, 2**63 - 1)
MILLISECONDS = st.integers(0, 2**42)


@given(messages(SendMessageRequestP2B), st.binary(max_size=200), NATURAL)
def test_a_request_is_read_as_protobuf_reads_it(message: SendMessageRequestP2B, payload: bytes, sequence: int) -> None:
    """The first is learnt from; the next ones differ from it as a producer's do."""
    body = encode(message)
    assert send_message.decode_send(body) == sends.decode_send(body)
    for field, value in (("data", payload), ("sequence", sequence), ("partition_id", sequence % 2**31)):
        fields = {name: getattr(message, name) for name in specs(SendMessageRequestP2B)}
        again = encode(SendMessageRequestP2B(**{**fields, field: value}))
        assert send_message.decode_send(again) == sends.decode_send(again)


def test_requests_of_a_producer_take_the_short_way_from_the_second_on() -> None:
    template = sends.SendTemplate("producer-1", "topic", 77)
    for kind in (None, "kind"):
        first = template.encode(3, b"first", 0, kind, None, 1, 99, 0)
        assert send_message.decode_send(first) == sends.decode_send(first)
        for sequence in (2, 127, 128, 2**40):
            body = template.encode(20_001, bytes(sequence % 5_000), 0, kind, None, sequence, 99, 0)
            assert send_message._usual_send(body) == sends.decode_send(body)
        without = template.encode(0, b"x", 0, kind, None, None, 99, 0)
        assert send_message._usual_send(without) == sends.decode_send(without)


def outcome(read: Any, body: bytes) -> Any:
    try:
        return read(body)
    except EnvelopeError as error:
        return error.text


@given(messages(SendMessageRequestP2B), st.data())
def test_a_changed_request_is_read_as_protobuf_reads_it(message: SendMessageRequestP2B, data: st.DataObject) -> None:
    """Bytes changed, dropped, fields doubled or put in another order, after a sound request was learnt from."""
    sound = encode(message)
    send_message.decode_send(sound)
    body = bytearray(sound)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(body)))
        stop = data.draw(st.integers(at, min(at + 3, len(body))))
        start = data.draw(st.integers(0, len(sound)))
        body[at:stop] = data.draw(st.binary(max_size=4) | st.just(sound[start:]) | st.just(sound[:start]))
    for changed in (bytes(body), bytes(body) + b"\x20\x05", sound + sound, sound + b"\x0a\x01z", sound + b"\x1a\x00"):
        assert outcome(send_message.decode_send, changed) == outcome(sends.decode_send, changed)
        assert outcome(send_message.decode_send, changed) == outcome(sends.decode_send, changed), (
            "also when it was learnt from"
        )


@given(st.binary(max_size=80))
def test_noise_is_read_as_protobuf_reads_it(noise: bytes) -> None:
    assert outcome(send_message.decode_send, noise) == outcome(sends.decode_send, noise)
    for begin in (b"", b"\x08\x01\x10\xc8\x01\x1a"):
        assert outcome(send_message.decode_send_response, begin + noise) == outcome(by_codec, begin + noise)


def test_what_is_remembered_is_bounded() -> None:
    for n in range(3 * send_message._MAX_REMEMBERED):
        body = sends.SendTemplate(f"producer-{n}", "topic", n).encode(0, b"x", 0, f"kind-{n}")
        assert send_message.decode_send(body).client_id == f"producer-{n}"
        send_message.decode_send_response(
            send_message.encode_send_response((1 << 54) + (n << 14), 0, (1 << 40) + (n << 14))
        )
    for known in (send_message._WHO, send_message._TAILS, send_message._NUMBERS):
        assert len(known) <= send_message._MAX_REMEMBERED
    long = sends.SendTemplate("p" * 1_000, "topic", 0).encode(0, b"x", 0)
    assert send_message.decode_send(long).client_id == "p" * 1_000
    assert max(map(len, send_message._WHO)) <= send_message._MAX_REMEMBERED_BYTES


def by_codec(body: bytes) -> send_message.SendResponse:
    answer = decode(SendMessageResponseB2P, body)
    return send_message.SendResponse(
        answer.success,
        answer.err_code,
        answer.err_msg,
        answer.message_id,
        answer.append_time,
        answer.append_offset,
    )


@given(NATURAL, NATURAL, MILLISECONDS)
def test_an_answer_is_written_as_the_codec_writes_it(message_id: int, offset: int, append_time: int) -> None:
    body = send_message.encode_send_response(message_id, offset, append_time)
    wanted = SendMessageResponseB2P(
        success=True,
        err_code=200,
        err_msg=str(message_id),
        require_auth=False,
        message_id=message_id,
        append_time=append_time,
        append_offset=offset,
    )
    assert body == encode(wanted)
    assert send_message._decode_usual_response(body) == send_message._decode_usual_response(body) == by_codec(body)


@given(messages(SendMessageResponseB2P))
def test_an_answer_is_read_as_the_codec_reads_it(answer: SendMessageResponseB2P) -> None:
    body = encode(answer)
    assert send_message.decode_send_response(body) == by_codec(body)


@given(NATURAL, NATURAL, MILLISECONDS, st.data())
def test_a_changed_answer_is_read_as_the_codec_reads_it(
    message_id: int, offset: int, at_ms: int, data: st.DataObject
) -> None:
    body = bytearray(send_message.encode_send_response(message_id, offset, at_ms))
    send_message.decode_send_response(bytes(body))
    at = data.draw(st.integers(0, len(body) - 1))
    body[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    assert outcome(send_message.decode_send_response, bytes(body)) == outcome(by_codec, bytes(body))
