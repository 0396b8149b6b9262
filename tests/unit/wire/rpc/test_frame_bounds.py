"""How large a frame may be: by its method, and decided before more than its front is kept."""

from __future__ import annotations

import struct

import pytest

from pytubemq.errors import FrameError
from pytubemq.model.limits import KIB, MAX_FRAME_BYTES, MAX_REPORT_BYTES, MAX_REQUEST_BYTES, MIB
from pytubemq.wire.framing.frame import FRONT_BYTES, TOKEN, Frame
from pytubemq.wire.rpc.envelope import decode_request, encode_request, encode_response, front_method
from pytubemq.wire.rpc.methods import METHODS, REQUEST_BYTES, Method
from pytubemq.wire.rpc.stream import RequestStream, ResponseStream

READ = 256 * KIB
"""What a transport reads at once."""


def request(method: int, size: int, *, block_bytes: int | None) -> bytes:
    parts = encode_request(
        1, service=3, method=method, timeout_ms=10_000, body=[bytes(size)], capabilities=7, block_bytes=block_bytes
    )
    return b"".join(parts)


def fed(stream: RequestStream | ResponseStream, data: bytes, *, read: int = READ) -> list[object]:
    found: list[object] = []
    for at in range(0, len(data), read):
        found += stream.feed(data[at : at + read])
    return found


@pytest.mark.parametrize("block_bytes", [None, 8 * KIB, 3 * MIB])
@pytest.mark.parametrize("method", [Method.SEND_MESSAGE_P2B, Method.SEND_PACKS_P2B])
def test_sends_may_be_as_large_as_a_frame(method: Method, block_bytes: int | None) -> None:
    data = request(method, MAX_FRAME_BYTES - KIB, block_bytes=block_bytes)
    (one,) = fed(RequestStream(), data)
    assert isinstance(one, Frame)
    assert len(decode_request(one).body) == MAX_FRAME_BYTES - KIB


@pytest.mark.parametrize("block_bytes", [None, 8 * KIB, 3 * MIB])
@pytest.mark.parametrize("spec", METHODS.values(), ids=lambda spec: spec.method.name)
def test_every_other_request_ends_at_its_bound(spec: object, block_bytes: int | None) -> None:
    method = spec.method  # type: ignore[attr-defined]
    bound = REQUEST_BYTES[method]
    if bound == MAX_FRAME_BYTES:
        return
    assert bound in (MAX_REQUEST_BYTES, MAX_REPORT_BYTES)
    assert len(fed(RequestStream(), request(method, bound - 100, block_bytes=block_bytes))) == 1
    with pytest.raises(FrameError, match=f"{bound} are allowed"):
        fed(RequestStream(), request(method, bound + 1, block_bytes=block_bytes))


@pytest.mark.parametrize("read", [1_000, READ, 64 * MIB])
def test_a_frame_in_one_block_is_refused_by_its_front(read: int) -> None:
    stream = RequestStream()
    data = request(Method.CONSUMER_COMMIT_C2B, 20 * MIB, block_bytes=None)
    with pytest.raises(FrameError, match="has 20971"):
        fed(stream, data[: FRONT_BYTES + 100], read=read)


def test_before_its_front_is_there_nothing_is_decided() -> None:
    stream = RequestStream()
    data = request(Method.SEND_MESSAGE_P2B, 20 * MIB, block_bytes=None)
    for at in range(60):
        assert stream.feed(data[at : at + 1]) == []
    assert len(fed(stream, data[60:])) == 1


def test_what_does_not_show_its_method_may_be_as_large_as_most() -> None:
    head = struct.pack(">Iiii", TOKEN, 1, 1, 20 * MIB)
    for front in (
        b"\x00" * FRONT_BYTES,
        b"\xff" * FRONT_BYTES,
        b"\x02\x08\x00\x04\x08\x02\x10\x03\x05\x18\x01" * 2_000,
    ):
        stream = RequestStream()
        with pytest.raises(FrameError, match=f"{MAX_REQUEST_BYTES} are allowed"):
            fed(stream, head + front + bytes(READ))


def test_a_server_takes_large_frames_only_for_what_it_serves() -> None:
    data = request(Method.SEND_MESSAGE_P2B, 3 * MIB, block_bytes=None)
    with pytest.raises(FrameError, match=f"{MAX_REQUEST_BYTES} are allowed"):
        fed(RequestStream({Method.BROKER_REGISTER_B2M: MAX_REPORT_BYTES}), data)
    data = request(Method.BROKER_REGISTER_B2M, 3 * MIB, block_bytes=None)
    assert len(fed(RequestStream({Method.BROKER_REGISTER_B2M: MAX_REPORT_BYTES}), data)) == 1


@pytest.mark.parametrize("block_bytes", [None, 8 * KIB])
def test_an_answer_ends_at_the_bound_of_its_call(block_bytes: int | None) -> None:
    def answer(serial: int) -> bytes:
        return b"".join(encode_response(serial, method=17, body=[bytes(3 * MIB)], block_bytes=block_bytes))

    bounds = {1: MAX_FRAME_BYTES, 2: MAX_REQUEST_BYTES}
    stream = ResponseStream(bounds.__getitem__)
    assert len(fed(stream, answer(1))) == 1
    with pytest.raises(FrameError, match=f"frame 2 has .* {MAX_REQUEST_BYTES} are allowed"):
        fed(stream, answer(2))
    assert stream.buffered_bytes <= MAX_REQUEST_BYTES


def test_the_front_of_a_request_tells_its_method() -> None:
    for method in METHODS:
        whole = request(method, 100, block_bytes=None)[16:]
        assert front_method(whole) == method
        assert {front_method(whole[:size]) for size in range(20)} <= {None, method}


def test_a_frame_may_follow_one_of_another_bound() -> None:
    stream = RequestStream()
    large = request(Method.SEND_MESSAGE_P2B, 5 * MIB, block_bytes=8 * KIB)
    assert len(fed(stream, large + large)) == 2
    with pytest.raises(FrameError):
        fed(stream, request(Method.CONSUMER_COMMIT_C2B, 5 * MIB, block_bytes=8 * KIB))
