"""The bytes of a connection as requests or as answers: frame and envelope in one pass where both are usual.

The invariant: what comes out is what `FrameDecoder` and `decode_request` or `decode_response` make of the same bytes,
however they are cut into reads. A frame that is not whole yet, that has several blocks, or whose envelope differs from
the one before it in more than its lengths, is given as a `Frame` for the caller to decode: it may be broken.

In a usual frame everything before the business message follows from the frame's length: so it is compared, not read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytubemq.model.limits import MAX_REQUEST_BYTES
from pytubemq.wire.framing.frame import ONE_BLOCK, TOKEN, Frame, FrameDecoder
from pytubemq.wire.framing.frame_run import LEAST_ALIKE, MOST_ALIKE, alike_frames, count_consecutive
from pytubemq.wire.protobuf.varint import encode_varint
from pytubemq.wire.rpc.envelope import (
    EnvelopeStart,
    Request,
    Response,
    front_method,
    request_start,
    response_start,
)
from pytubemq.wire.rpc.methods import REQUEST_BYTES
from pytubemq.wire.rpc.request_run import RequestRun
from pytubemq.wire.rpc.response_run import ResponseRun

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Mapping, Sequence

_MAX_LENGTHS = 1024
_MAX_PATTERNS = 64
_FIRST_REACH = 16
_FURTHER = 8
_FREQUENT = 1_000
"""A pattern costs as much as reading so many frames one by one."""
# Responses to sends have under 100 bytes. Those of fetches are long, few, and hardly ever of one length.
_MOST_ANSWER_STRIDE_BYTES = 512
_MOST_REQUEST_STRIDE_BYTES = 16_384
"""Longer frames are read one by one: there the bytes cost, not their number."""
_HEAD_BYTES = ONE_BLOCK.size
_LEAST_BEHIND = LEAST_ALIKE - 1
"""So many frames of its length must fit behind one that is to be the first of a run."""


class _Stream(FrameDecoder):
    """The common part of both sides of a stream."""

    __slots__ = (
        "_alike",
        "_by_length",
        "_frequency",
        "_kind",
        "_make",
        "_most_stride_bytes",
        "_read_start",
        "_run_kind",
        "_start",
    )

    def __init__(
        self,
        kind: type[Request | Response],
        read_start: Callable[[bytes], EnvelopeStart | None],
        run_kind: type[RequestRun | ResponseRun],
        most_stride_bytes: int,
    ) -> None:
        # Beyond it the method (or the call) decides, see `_bound`; both bounds are looked at before the bytes are kept.
        super().__init__(usual_frame_bytes=MAX_REQUEST_BYTES)
        self._run_kind = run_kind
        self._most_stride_bytes = most_stride_bytes
        self._alike: dict[tuple[bytes, int], re.Pattern[bytes]] = {}
        """The patterns that find frames which begin alike and have so many bytes of content."""
        self._frequency: dict[int, int] = {}
        """Counts of frames of a length, with others like them behind, that have no pattern yet."""
        self._kind = kind
        self._read_start = read_start
        self._start: EnvelopeStart | None = None
        self._make: Callable[[int, bytes], Any]
        """Gives what a usual frame says; there from when `_start` is."""
        self._by_length: dict[int, bytes] = {}
        """The bytes before the message in a usual frame with so many bytes of content."""

    def _cut(self, data: bytes, position: int, frames: list[Any]) -> int:
        end, most = len(data), self._usual_bytes
        unpack, append = ONE_BLOCK.unpack_from, frames.append
        while end - position >= _HEAD_BYTES:
            token, serial, blocks, length = unpack(data, position)
            at = position + _HEAD_BYTES
            stop = at + length
            # Left to `FrameDecoder._feed`, which also words the errors.
            if token != TOKEN or blocks != 1 or not 0 <= length <= most or stop > end:
                break
            position = stop
            start = self._start
            if start is not None:
                # On one connection the headers mostly repeat byte for byte: only lengths change, and they follow
                # from the frame's.
                lead = self._by_length.get(length)
                if lead is None:
                    lead = self._lead(start, length)
                # One comparison stands for decoding frame, headers and lengths. A single different byte sends the
                # frame the plain way.
                if lead and data.startswith(lead, at, stop):
                    # Looking for a run costs; it pays only if enough frames of this length can be in this read at all.
                    if end - stop >= _LEAST_BEHIND * (length + _HEAD_BYTES):
                        run = self._run(data, at - _HEAD_BYTES, serial, length, lead)
                        if run is not None:
                            append(run)
                            position += (len(run) - 1) * (length + _HEAD_BYTES)
                            continue
                    append(self._make(serial, bytes(data[at + len(lead) : stop])))
                    continue
            # Not as expected, or the first of its kind: decoded the plain way, from which what follows is learned.
            frame = Frame(serial, bytes(data[at:stop]))
            append(frame)
            self._follow(frame.content)
        return position

    def _whole(self, serial: int, parts: list[bytes | bytearray], size: int) -> Any:
        start = self._start
        if start is not None and parts:
            lead = self._by_length.get(size) or self._lead(start, size)
            if lead and parts[0].startswith(lead):  # so the message is put together without what comes before it
                body = b"".join([memoryview(parts[0])[len(lead) :], *parts[1:]])
                return self._make(serial, body)
        frame = Frame(serial, b"".join(parts))
        self._follow(frame.content)
        return frame

    def _lead(self, start: EnvelopeStart, length: int) -> bytes:
        """Return the bytes before the message in a usual frame with `length` bytes of content; empty if unknown."""
        rest = length - len(start.headers)
        # Two lengths, one within the other: of the third part, and of the message in it.
        whole = _length_of_rest(rest)
        body = _length_of_rest(rest - len(whole or b"") - len(start.begun))
        lead = b"" if whole is None or body is None else start.headers + whole + start.begun + body
        # A peer chooses the lengths, so what is remembered of them is bounded. Starting anew is cheaper than to keep
        # an order of use.
        if len(self._by_length) >= _MAX_LENGTHS:
            self._by_length.clear()
        self._by_length[length] = lead
        return lead

    def _run(self, data: bytes, at: int, serial: int, length: int, lead: bytes) -> Sequence[Any] | None:
        """Read the usual frame at `at`, and others like it that follow; None if there are too few."""
        stride = _HEAD_BYTES + length
        # The next frame decides whether the pattern is worth running: most single frames end here.
        following = ONE_BLOCK.unpack_from(data, at + stride)
        # Not below 0 either: the serial numbers are compared as unsigned bytes.
        if stride > self._most_stride_bytes or following != (TOKEN, serial + 1, 1, length) or serial < 0:
            return None
        pattern = self._alike.get((lead, length))
        if pattern is None:
            if not self._is_frequent(length):
                return None
            if len(self._alike) >= _MAX_PATTERNS:
                self._alike.clear()
            pattern = self._alike[lead, length] = alike_frames(lead, length)
        count = self._count_alike(pattern, data, at, serial, stride)
        if count < LEAST_ALIKE:
            return None
        return self._run_kind(
            self._make,
            bytes(data),  # no copy if it is bytes already
            serial=serial,
            at=at + _HEAD_BYTES + len(lead),
            body_bytes=length - len(lead),
            stride=stride,
            count=count,
        )

    def _count_alike(self, pattern: re.Pattern[bytes], data: bytes, at: int, serial: int, stride: int) -> int:
        """Count the frames from `at` on that are alike.

        It looks no further than some times what it finds: else a read full of frames that are alike, and not numbered
        in a row, would be looked through again from each of them.
        """
        reach = _FIRST_REACH
        while True:
            found = pattern.match(data, at, at + reach * stride)
            alike = 0 if found is None else (found.end() - at) // stride
            count = count_consecutive(data, at, stride, alike, serial)
            if count < reach or reach >= MOST_ALIKE:
                return count
            reach = min(_FURTHER * reach, MOST_ALIKE)

    def _is_frequent(self, length: int) -> bool:
        """True if frames of this length come often enough to pay for a pattern that finds them; counts this one."""
        count = self._frequency.get(length, 0) + 1
        if count < _FREQUENT:
            if len(self._frequency) >= _MAX_LENGTHS:
                self._frequency.clear()
            self._frequency[length] = count
            return False
        # It gets a pattern now, so it needs no count any more.
        del self._frequency[length]
        return True

    def _follow(self, content: bytes) -> None:
        """Expect more envelopes like this one, if its content is known."""
        try:
            # It knows only headers that the plain way has decoded before, so nothing broken is ever expected.
            start = self._read_start(content)
        except (IndexError, ValueError):
            return
        # The peer has changed its headers (another method, other capabilities): what was known of lengths is void.
        if start is not None and start != self._start:
            self._start = start
            self._make = _maker(self._kind, start)
            self._by_length = {}


def _maker(kind: type[Request | Response], start: EnvelopeStart) -> Callable[[int, bytes], Any]:
    """Return a maker of requests or responses from serial number and message: half the time of calling the class."""
    new, before, after = tuple.__new__, start.before, start.after
    # Closures over plain values: this runs once for each message.
    if kind is Request:
        service, method, timeout_ms, version, capabilities = before
        return lambda serial, body: new(kind, (serial, service, method, timeout_ms, version, capabilities, body))
    status, method = before
    capabilities, name, text = after
    return lambda serial, body: new(kind, (serial, status, method, body, capabilities, name, text))


def _length_of_rest(size: int) -> bytes | None:
    """Return the length that fits in front of the rest when both together have `size` bytes; None if none does."""
    # Five bytes hold any length below 2^35, and a frame has 28 MiB at most.
    for digits in range(1, 6):
        # The length counts the bytes behind itself, and its own size depends on it: tried from one byte up. There may
        # be no solution, for a total that no length gives.
        written = encode_varint(max(size - digits, 0))
        if len(written) == digits:
            return written
    return None


class RequestStream(_Stream):
    """A connection's bytes as requests."""

    __slots__ = ("_bounds",)

    def __init__(self, bounds: Mapping[int, int] = REQUEST_BYTES) -> None:
        """Limit request frames by method with `bounds`; a method that is not in it has the usual limit."""
        super().__init__(Request, request_start, RequestRun, _MOST_REQUEST_STRIDE_BYTES)
        self._bounds = bounds

    def feed_requests(self, data: bytes) -> list[Request | RequestRun | Frame]:
        """Return the requests that `data` completes, in order; as runs where several are alike, as frames those that
        are still to be decoded.

        Raises:
            FrameError: as `feed`.
        """
        found: list[Any] = self.feed(data)
        return found

    def _bound(self, serial: int, front: bytes) -> int | None:
        method = front_method(front)
        return None if method is None else self._bounds.get(method, self._usual_bytes)


class ResponseStream(_Stream):
    """A connection's bytes as responses."""

    __slots__ = ("_bound_of",)

    def __init__(self, bound_of: Callable[[int], int] | None = None) -> None:
        """Limit response frames with `bound_of`, which returns the limit for a request's serial number."""
        super().__init__(Response, response_start, ResponseRun, _MOST_ANSWER_STRIDE_BYTES)
        self._bound_of = bound_of

    def feed_responses(self, data: bytes) -> list[Response | ResponseRun | Frame]:
        """Return the responses that `data` completes, in order; as runs where several are alike, as frames those that
        are still to be decoded.

        Raises:
            FrameError: as `feed`.
        """
        found: list[Any] = self.feed(data)
        return found

    def _bound(self, serial: int, front: bytes) -> int | None:
        # By the call that was made, never by what the response says of itself.
        return self._max_bytes if self._bound_of is None else self._bound_of(serial)
