"""The envelope: what comes out of it is what was put in, and a broken one has one answer."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.errors import EnvelopeError
from pytubemq.wire.framing.frame import Frame, FrameDecoder
from pytubemq.wire.protobuf.schema import Status
from pytubemq.wire.protocol.extensions import OURS
from pytubemq.wire.protocol.messages.master import CloseRequestP2M, CloseResponseM2P
from pytubemq.wire.rpc.envelope import (
    Request,
    Response,
    decode_request,
    decode_response,
    encode_exception,
    encode_request,
    encode_response,
)
from pytubemq.wire.serialization.message_bytes import INVALID_PROTOBUF, decode
from tests.unit.wire.strategies import I32, TEXT, fault

if TYPE_CHECKING:
    from collections.abc import Callable

CAPABILITIES = st.none() | st.integers(0, 2**64 - 1)
BLOCKS = st.none() | st.integers(8, 8192)


def only(buffers: list[bytes]) -> Frame:
    (frame,) = FrameDecoder().feed(b"".join(buffers))
    return frame


@given(
    st.integers(-(2**31), 2**31 - 1),
    st.integers(1, 5),
    I32,
    st.integers(0, 2**40),
    st.lists(st.binary(max_size=100), max_size=4),
    CAPABILITIES,
    BLOCKS,
)
def test_request(
    serial: int,
    service: int,
    method: int,
    timeout_ms: int,
    body: list[bytes],
    capabilities: int | None,
    block_bytes: int | None,
) -> None:
    buffers = encode_request(
        serial,
        service=service,
        method=method,
        timeout_ms=timeout_ms,
        body=body,
        capabilities=capabilities,
        block_bytes=block_bytes,
    )
    expected = Request(serial, service, method, timeout_ms, 3, capabilities, b"".join(body))
    assert decode_request(only(buffers)) == expected


@given(I32, I32, st.lists(st.binary(max_size=100), max_size=4), CAPABILITIES, BLOCKS)
def test_response(
    serial: int, method: int, body: list[bytes], capabilities: int | None, block_bytes: int | None
) -> None:
    buffers = encode_response(serial, method=method, body=body, capabilities=capabilities, block_bytes=block_bytes)
    expected = Response(serial, Status.SUCCESS, method, b"".join(body), capabilities, "", "")
    assert decode_response(only(buffers)) == expected


@given(I32, st.booleans(), TEXT, TEXT, CAPABILITIES)
def test_exception(serial: int, fatal: bool, name: str, text: str, capabilities: int | None) -> None:
    buffers = encode_exception(serial, fatal=fatal, exception_name=name, text=text, capabilities=capabilities)
    status = Status.FATAL if fatal else Status.ERROR
    assert decode_response(only(buffers)) == Response(serial, status, 0, b"", capabilities, name, text)


def test_the_protocols_own_examples() -> None:
    request = bytes.fromhex("ff7ff4fe000000010000000100000014020800040801100" + "30b080310904e1a040a027031")
    frame = only([request])
    decoded = decode_request(frame)
    assert decoded == Request(1, 1, 3, 10_000, 3, None, bytes.fromhex("0a027031"))
    assert decode(CloseRequestP2M, decoded.body) == CloseRequestP2M(client_id="p1")
    again = encode_request(1, service=1, method=3, timeout_ms=10_000, body=[b"\x0a\x02", b"p1"])
    assert b"".join(again) == request

    answer = bytes.fromhex("ff7ff4fe00000001000000010000001702080104080018030e0803120a080110c8011a034f4b21")
    response = decode_response(only([answer]))
    assert decode(CloseResponseM2P, response.body) == CloseResponseM2P(success=True, err_code=200, err_msg="OK!")
    assert b"".join(encode_response(1, method=3, body=[response.body])) == answer


@pytest.mark.parametrize("zeros", [1, 6, 7, 8, 9])
def test_zeros_after_the_body_are_ignored(zeros: int) -> None:
    frame = only(encode_request(1, service=1, method=3, timeout_ms=5, body=[b"\x0a\x01p"]))
    padded = Frame(frame.serial, frame.content + bytes(zeros))
    assert decode_request(padded) == decode_request(frame)


def test_absent_fields_are_zero() -> None:
    request = decode_request(Frame(1, bytes.fromhex("020800" + "00" + "020809")))
    assert request == Request(1, 0, 9, 0, 0, None, b"")


def test_a_negative_timeout_counts_as_absent() -> None:
    frame = only(encode_request(1, service=1, method=3, timeout_ms=-5, body=[]))
    assert decode_request(frame).timeout_ms == 0


@given(st.binary(max_size=120))
def test_noise_gives_a_request_or_the_answer(noise: bytes) -> None:
    readers: tuple[Callable[[Frame], object], ...] = (decode_request, decode_response)
    for read in readers:
        error = fault(partial(read, Frame(1, noise)), EnvelopeError)
        if error is not None:
            assert error.fatal
            assert error.text.startswith("IPC server unable to read call parameters:")
            assert error.exception_name in {"java.io.EOFException", INVALID_PROTOBUF}


@given(st.binary(max_size=60), st.integers(0, 30))
def test_damaged_envelopes_give_a_request_or_the_answer(noise: bytes, at: int) -> None:
    whole = only(encode_request(1, service=1, method=3, timeout_ms=5, body=[b"\x0a\x01p"], capabilities=3)).content
    for content in (whole[:at], whole[:at] + noise, whole[:at] + noise + whole[at:]):
        error = fault(partial(decode_request, Frame(1, content)), EnvelopeError)
        assert error is None or error.text


def test_a_header_is_bounded() -> None:
    with pytest.raises(EnvelopeError, match="claims 5000 bytes; 4096 are allowed"):
        decode_request(Frame(1, b"\x88\x27" + bytes(5000)))


def test_a_length_beyond_the_frame() -> None:
    with pytest.raises(EnvelopeError, match="RpcConnHeader claims 40 bytes, 1 are there"):
        decode_request(Frame(1, b"\x28\x08"))


def test_old_peers_know_the_exception_under_their_package() -> None:
    name = "org.apache.inlong.tubemq.corerpc.exception.StandbyException"
    expected = {
        0: name,
        1: "com.tencent.tubemq.corerpc.exception.StandbyException",
        2: "com.apache.tubemq.corerpc.exception.StandbyException",
        3: name,
    }
    for version, told in expected.items():
        buffers = encode_exception(1, fatal=False, exception_name=name, text="x", protocol_version=version)
        assert decode_response(only(buffers)).exception_name == told
    other = encode_exception(1, fatal=False, exception_name="java.lang.Exception", text="x", protocol_version=1)
    assert decode_response(only(other)).exception_name == "java.lang.Exception"


def test_a_long_text_is_cut_between_characters() -> None:
    buffers = encode_exception(1, fatal=True, exception_name="java.lang.Exception", text="é" * 100_000)
    assert decode_response(only(buffers)).exception_text == "é" * 1024


def test_an_exception_that_is_not_utf8() -> None:
    content = b"\x02\x08\x01" + b"\x02\x08\x01" + b"\x04\x0a\x02\xff\xfe"
    assert decode_response(Frame(1, content)).exception_name == "\ufffd\ufffd"


def test_capabilities_go_both_ways() -> None:
    frame = only(encode_request(1, service=2, method=17, timeout_ms=1, body=[], capabilities=OURS))
    assert decode_request(frame).capabilities == OURS
    answer = only(encode_exception(1, fatal=False, exception_name="a", text="b", capabilities=OURS))
    assert decode_response(answer).capabilities == OURS
