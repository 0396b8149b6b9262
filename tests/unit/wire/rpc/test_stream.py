"""Frame and envelope in one pass give what they give one after the other."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, TypeVar

from hypothesis import given
from hypothesis import strategies as st

from pytubemq.errors import EnvelopeError, FrameError
from pytubemq.model.limits import BLOCK_BYTES
from pytubemq.wire.framing.frame import Frame, FrameDecoder, encode_frame
from pytubemq.wire.framing.frame_run import MOST_ALIKE, FrameRun, count_consecutive
from pytubemq.wire.rpc.envelope import (
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
from pytubemq.wire.rpc.request_run import RequestRun
from pytubemq.wire.rpc.response_run import ResponseRun
from pytubemq.wire.rpc.stream import _FREQUENT, RequestStream, ResponseStream

if TYPE_CHECKING:
    import pytest

AnyStream = TypeVar("AnyStream", RequestStream, ResponseStream)

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
        found += flat(feed(data[start:stop]))
    return found


def flat(items: list[Any]) -> list[Any]:
    """Each request or answer by itself."""
    return [one for item in items for one in (item if isinstance(item, FrameRun) else [item])]


@given(st.lists(REQUESTS, max_size=8), st.lists(st.integers(0, 10**6), max_size=6))
def test_requests_come_out_as_frame_and_envelope_say(frames: list[bytes], cuts: list[int]) -> None:
    data = b"".join(frames)
    stream = RequestStream()
    decoded = [plain(decode_request, item) for item in in_reads(data, cuts, stream.feed_requests)]
    assert decoded == [plain(_any_request, frame) for frame in FrameDecoder().feed(data)]
    assert all(type(request) is Request for request in decoded)
    assert not stream.mid_frame


@given(st.lists(RESPONSES, max_size=8), st.lists(st.integers(0, 10**6), max_size=6))
def test_answers_come_out_as_frame_and_envelope_say(frames: list[bytes], cuts: list[int]) -> None:
    data = b"".join(frames)
    stream = ResponseStream()
    decoded = [plain(decode_response, item) for item in in_reads(data, cuts, stream.feed_responses)]
    assert decoded == [plain(_any_response, frame) for frame in FrameDecoder().feed(data)]
    assert all(type(response) is Response for response in decoded)


def answer(serial: int, body: bytes, capabilities: int | None = None) -> bytes:
    return b"".join(encode_response(serial, method=13, body=[body], capabilities=capabilities))


def eager(stream: AnyStream) -> AnyStream:
    """It looks for frames that are alike from the first on."""
    stream._frequency = dict.fromkeys(range(10_000), _FREQUENT - 1)
    return stream


def request(serial: int, body: bytes, capabilities: int | None = None) -> bytes:
    return b"".join(
        encode_request(serial, service=3, method=13, timeout_ms=10_000, body=[body], capabilities=capabilities)
    )


RUNS, REQUEST_RUNS = (
    st.builds(
        lambda first, count, size, step, capabilities, make=make: b"".join(
            make(min(max(1, first + step * number), 0x7FFFFFFF), bytes([number & 0xFF]) * size, capabilities)
            for number in range(count)
        ),
        st.one_of(st.integers(1, 300), st.integers(65_400, 65_600), st.integers(0x7FFFFF00, 0x7FFFFFF0 - 64)),
        st.integers(1, 60),
        st.sampled_from([0, 1, 40, 90, 126, 127, 128, 500]),
        st.sampled_from([1, 1, 1, 0, -1, 2]),
        st.sampled_from([None, None, None, 0x3EF]),
    )
    for make in (answer, request)
)


@given(st.lists(REQUEST_RUNS | REQUESTS, max_size=6), st.lists(st.integers(0, 10**6), max_size=4))
def test_requests_that_are_alike_come_out_as_each_by_itself(frames: list[bytes], cuts: list[int]) -> None:
    data = b"".join(frames)
    stream = eager(RequestStream())
    decoded = [plain(decode_request, item) for item in in_reads(data, cuts, stream.feed_requests)]
    assert decoded == [plain(_any_request, frame) for frame in FrameDecoder().feed(data)]


def test_frames_are_looked_for_together_once_many_of_a_length_came() -> None:
    stream = RequestStream()
    plain(decode_request, FrameDecoder().feed(request(1, b"x"))[0])  # how requests begin is learned from those decoded
    found: list[Any] = []
    for start in range(1, 3 * _FREQUENT, 100):
        found += stream.feed_requests(b"".join(request(start + n, b"x" * 50) for n in range(100)))
    alone = sum(not isinstance(item, FrameRun) for item in found)
    assert _FREQUENT <= alone < 2 * _FREQUENT
    assert [len(item) for item in found if isinstance(item, RequestRun)][-1] == 100


@given(st.lists(RUNS | RESPONSES, max_size=6), st.lists(st.integers(0, 10**6), max_size=4))
def test_answers_that_are_alike_come_out_as_each_by_itself(frames: list[bytes], cuts: list[int]) -> None:
    data = b"".join(frames)
    stream = eager(ResponseStream())
    decoded = [plain(decode_response, item) for item in in_reads(data, cuts, stream.feed_responses)]
    assert decoded == [plain(_any_response, frame) for frame in FrameDecoder().feed(data)]


@given(st.integers(9, 40), st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=3))
def test_an_answer_among_those_alike_that_was_changed_is_read_as_it_is(
    count: int, changes: list[tuple[int, int]]
) -> None:
    sound = answer(7, b"first")
    data = bytearray(b"".join(answer(8 + number, b"%05d" % number) for number in range(count)))
    for at, byte in changes:
        data[at % len(data)] = byte
    ends: list[Any] = []
    for feed, decode in ((eager(ResponseStream()).feed, decode_response), (FrameDecoder().feed, _any_response)):
        try:
            ends.append([plain(decode, item) for item in flat(feed(sound + bytes(data)))])
        except FrameError as error:
            ends.append(error.message)
    assert ends[0] == ends[1]


def test_answers_to_what_was_asked_together_come_as_one_run() -> None:
    stream = eager(ResponseStream())
    stream.feed_responses(answer(1, b"x"))
    (warm,) = stream.feed_responses(answer(2, b"x"))
    assert isinstance(warm, Response | Frame)
    data = b"".join(answer(250 + number, b"%06d" % number) for number in range(600))
    (run,) = stream.feed_responses(data)
    assert isinstance(run, ResponseRun)
    assert len(run) == 600
    assert run[599] == run[-1] == Response(849, run[0].status, 13, b"000599", None, "", "")
    assert [one.body for one in run[5:9]] == [b"%06d" % number for number in range(5, 9)]
    assert list(run[3:3]) == []
    many = stream.feed_responses(b"".join(answer(1 + n, b"y") for n in range(MOST_ALIKE + 1)))
    assert [len(item) for item in many if isinstance(item, ResponseRun)] == [MOST_ALIKE]


def test_most_requests_of_a_connection_take_the_short_way() -> None:
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
def test_a_changed_request_is_taken_only_where_protobuf_takes_it(
    whole: bytes, trailing: bytes, data: st.DataObject
) -> None:
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
def test_a_changed_answer_is_taken_only_where_protobuf_takes_it(
    whole: bytes, trailing: bytes, data: st.DataObject
) -> None:
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


def test_a_length_that_nothing_can_have_is_not_taken() -> None:
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
def test_noise_gives_items_or_a_frame_error(noise: bytes, after_a_request: bool) -> None:
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


def test_frames_that_are_alike_and_not_numbered_in_a_row_are_not_looked_through_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = eager(RequestStream())
    plain(decode_request, FrameDecoder().feed(request(1, b"x"))[0])
    looked: list[int] = []

    def counting(data: bytes, at: int, stride: int, count: int, serial: int) -> int:
        looked.append(count)
        return count_consecutive(data, at, stride, count, serial)

    monkeypatch.setattr("pytubemq.wire.rpc.stream.count_consecutive", counting)
    stream.feed_requests(request(1, b"x"))
    found = stream.feed_requests(b"".join(request(10 * (n // 2) + n % 2, b"x") for n in range(4_000)))
    assert len(found) == 4_000
    assert len(looked) >= 1_000
    assert sum(looked) <= 16 * 4_000
