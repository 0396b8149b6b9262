"""Frame and envelope in one pass give what they give one after the other."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pytubemq.errors import EnvelopeError, FrameError
from pytubemq.model.limits import BLOCK_BYTES
from pytubemq.wire.frame import Frame, FrameDecoder, encode_frame
from pytubemq.wire.rpc import (
    Request,
    Response,
    _any_request,
    _any_response,
    decode_request,
    decode_response,
    encode_exception,
    encode_request,
    encode_response,
)
from pytubemq.wire.stream import RequestStream, ResponseStream

SIZES = st.sampled_from([0, 1, 20, 80, *range(95, 130), 2_000, *range(16_345, 16_390), 40_000])
REQUESTS = st.builds(
    lambda serial, service, method, timeout_ms, size, capabilities, big: b"".join(
        encode_request(
            serial,
            service=service,
            method=method,
            timeout_ms=timeout_ms,
            body=[bytes(size)],
            capabilities=capabilities,
            block_bytes=None if big else BLOCK_BYTES,
        )
    ),
    st.integers(1, 9),
    st.sampled_from([2, 3]),
    st.sampled_from([13, 17, 100]),
    st.sampled_from([1, 127, 10_000, 0x1A1A]),
    SIZES,
    st.sampled_from([None, None, 0x3EF]),
    st.booleans(),
)
RESPONSES = st.builds(
    lambda serial, method, size, capabilities, big: b"".join(
        encode_response(
            serial,
            method=method,
            body=[bytes(size)],
            capabilities=capabilities,
            block_bytes=None if big else BLOCK_BYTES,
        )
    ),
    st.integers(1, 9),
    st.sampled_from([13, 17]),
    SIZES,
    st.sampled_from([None, None, 0x3EF]),
    st.booleans(),
) | st.just(b"".join(encode_exception(3, fatal=True, exception_name="a.B", text="no")))
TRAILING = st.sampled_from([b"", b"", b"", b"\0" * 7])


def plain(decode: Any, item: Any) -> Any:
    """A frame's envelope, or why there is none."""
    try:
        return decode(item) if isinstance(item, Frame) else item
    except EnvelopeError as error:
        return error.text


def in_reads(data: bytes, cuts: list[int], feed: Any) -> list[Any]:
    found: list[Any] = []
    bounds = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for start, stop in itertools.pairwise(bounds):
        found += feed(data[start:stop])
    return found


@given(st.lists(REQUESTS, max_size=8), st.lists(st.integers(0, 10**6), max_size=6))
def test_requests_come_out_as_frame_and_envelope_say(frames: list[bytes], cuts: list[int]):
    data = b"".join(frames)
    stream = RequestStream()
    decoded = [plain(decode_request, item) for item in in_reads(data, cuts, stream.feed_requests)]
    assert decoded == [plain(_any_request, frame) for frame in FrameDecoder().feed(data)]
    assert all(type(request) is Request for request in decoded)
    assert not stream.mid_frame


@given(st.lists(RESPONSES, max_size=8), st.lists(st.integers(0, 10**6), max_size=6))
def test_answers_come_out_as_frame_and_envelope_say(frames: list[bytes], cuts: list[int]):
    data = b"".join(frames)
    stream = ResponseStream()
    decoded = [plain(decode_response, item) for item in in_reads(data, cuts, stream.feed_responses)]
    assert decoded == [plain(_any_response, frame) for frame in FrameDecoder().feed(data)]
    assert all(type(response) is Response for response in decoded)


def test_most_requests_of_a_connection_take_the_short_way():
    data = b"".join(
        b"".join(encode_request(n, service=3, method=13, timeout_ms=10_000, body=[bytes(n * 40)])) for n in range(100)
    )
    stream = RequestStream()
    found = [plain(decode_request, item) for item in stream.feed_requests(data)]  # the first ones are learnt from
    assert len(found) == 100
    again = stream.feed_requests(data)
    assert sum(type(item) is Request for item in again) >= 99
    assert [plain(decode_request, item) for item in again] == found


@given(REQUESTS, TRAILING, st.data())
def test_a_changed_request_is_taken_only_where_protobuf_takes_it(whole: bytes, trailing: bytes, data: st.DataObject):
    """After a sound one, so that what comes is compared with it."""
    (frame,) = FrameDecoder().feed(whole)
    decode_request(frame)
    content = bytearray(frame.content + trailing)
    for _ in range(data.draw(st.integers(0, 2))):
        at = data.draw(st.integers(0, min(len(content), 30)))
        content[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    changed = b"".join(encode_frame(5, [bytes(content)], block_bytes=None))
    stream = RequestStream()
    found = stream.feed_requests(whole + whole + changed)
    wanted = [*FrameDecoder().feed(whole + whole), *FrameDecoder().feed(changed)]
    assert [plain(decode_request, item) for item in found] == [plain(_any_request, item) for item in wanted]


@given(RESPONSES, TRAILING, st.data())
def test_a_changed_answer_is_taken_only_where_protobuf_takes_it(whole: bytes, trailing: bytes, data: st.DataObject):
    (frame,) = FrameDecoder().feed(whole)
    decode_response(frame)
    content = bytearray(frame.content + trailing)
    for _ in range(data.draw(st.integers(0, 2))):
        at = data.draw(st.integers(0, min(len(content), 30)))
        content[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    changed = b"".join(encode_frame(5, [bytes(content)], block_bytes=None))
    found = ResponseStream().feed_responses(whole + whole + changed)
    wanted = [*FrameDecoder().feed(whole + whole), *FrameDecoder().feed(changed)]
    assert [plain(decode_response, item) for item in found] == [plain(_any_response, item) for item in wanted]


def test_a_length_that_nothing_can_have_is_not_taken():
    """129 bytes behind the headers: one byte of length leaves 128, which needs two; two leave 127, which needs one."""
    sound = encode_request(1, service=3, method=13, timeout_ms=10_000, body=[bytes(50)])
    (frame,) = FrameDecoder().feed(b"".join(sound))
    headers = frame.content[: frame.content.index(b"\x08\x0d") - 1]
    decode_request(frame)
    for claimed in (127, 128, 129, 130):
        content = headers + bytes([claimed & 0x7F | 0x80, claimed >> 7]) + b"\x08\x0d\x10\x90\x4e\x1a\x78" + bytes(120)
        changed = b"".join(encode_frame(5, [content]))
        (item,) = RequestStream().feed_requests(b"".join(sound) * 2 + changed)[2:]
        (whole,) = FrameDecoder().feed(changed)
        assert plain(decode_request, item) == plain(_any_request, whole)


@given(st.binary(max_size=60), st.booleans())
def test_noise_gives_items_or_a_frame_error(noise: bytes, after_a_request: bool):
    sound = b"".join(encode_request(1, service=3, method=13, timeout_ms=10, body=[b"x"])) if after_a_request else b""
    stream, decoder = RequestStream(), FrameDecoder()
    ends: list[Any] = []
    for feed in (stream.feed_requests, decoder.feed):
        try:
            ends.append([plain(decode_request, item) for item in feed(sound + noise)])
        except FrameError as error:
            ends.append(error.message)
    assert ends[0] == ends[1]
    assert (stream.mid_frame, stream.buffered_bytes) == (decoder.mid_frame, decoder.buffered_bytes)
