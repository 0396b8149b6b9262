"""The bytes of a connection as requests or as answers: frame and envelope in one pass where both are usual.

The invariant: what comes out is what `FrameDecoder` and `decode_request` or `decode_response` make of the same bytes,
however they are cut into reads. A frame that is not whole yet, that has several blocks, or whose envelope differs from
the one before it in more than its lengths, is given as a `Frame` for the caller to decode: it may be broken.

In a usual frame everything before the business message follows from the frame's length: so it is compared, not read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytubemq.wire.frame import ONE_BLOCK, TOKEN, Frame, FrameDecoder
from pytubemq.wire.response_run import (
    LEAST_ALIKE,
    MOST_STRIDE_BYTES,
    ResponseRun,
    alike_frames,
    count_consecutive,
)
from pytubemq.wire.rpc import EnvelopeStart, Request, Response, request_start, response_start
from pytubemq.wire.varint import encode_varint

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

_MAX_LENGTHS = 1024
_MAX_PATTERNS = 64
_HEAD_BYTES = ONE_BLOCK.size


class _Stream(FrameDecoder):
    """What both sides share."""

    __slots__ = ("_by_length", "_kind", "_least_behind", "_make", "_read_start", "_start")

    def __init__(self, kind: type[Request | Response], read_start: Callable[[bytes], EnvelopeStart | None]) -> None:
        super().__init__()
        self._kind = kind
        self._read_start = read_start
        self._start: EnvelopeStart | None = None
        self._make: Callable[[int, bytes], Any]
        """Gives what a usual frame says; there from when `_start` is."""
        self._by_length: dict[int, bytes] = {}
        """What stands before the message in a usual frame with so many bytes of content."""
        self._least_behind: int | None = None
        """So many more bytes behind a frame, counted in its own length, and it may be the first of a run."""

    def _cut(self, data: bytes, position: int, frames: list[Any]) -> int:
        end, most = len(data), self._max_bytes
        unpack, append, behind = ONE_BLOCK.unpack_from, frames.append, self._least_behind
        while end - position >= _HEAD_BYTES:
            token, serial, blocks, length = unpack(data, position)
            at = position + _HEAD_BYTES
            stop = at + length
            if token != TOKEN or blocks != 1 or not 0 <= length <= most or stop > end:
                break
            position = stop
            start = self._start
            if start is not None:
                lead = self._by_length.get(length)
                if lead is None:
                    lead = self._lead(start, length)
                if lead and data.startswith(lead, at, stop):
                    if behind is not None and end - stop >= behind * (length + _HEAD_BYTES):
                        run = self._run(data, at - _HEAD_BYTES, serial, length, lead)
                        if run is not None:
                            append(run)
                            position += (len(run) - 1) * (length + _HEAD_BYTES)
                            continue
                    append(self._make(serial, bytes(data[at + len(lead) : stop])))
                    continue
            frame = Frame(serial, bytes(data[at:stop]))
            append(frame)
            self._follow(frame.content)
        return position

    def _whole(self, serial: int, parts: list[bytes | bytearray], size: int) -> Any:
        start = self._start
        if start is not None and parts:
            lead = self._by_length.get(size) or self._lead(start, size)
            if lead and parts[0].startswith(lead):  # so the message is put together without what stands before it
                body = b"".join([memoryview(parts[0])[len(lead) :], *parts[1:]])
                return self._make(serial, body)
        frame = Frame(serial, b"".join(parts))
        self._follow(frame.content)
        return frame

    def _lead(self, start: EnvelopeStart, length: int) -> bytes:
        """What stands before the message in a usual frame with `length` bytes of content; empty if there is none."""
        rest = length - len(start.headers)
        whole = _length_of_rest(rest)
        body = _length_of_rest(rest - len(whole or b"") - len(start.begun))
        lead = b"" if whole is None or body is None else start.headers + whole + start.begun + body
        if len(self._by_length) >= _MAX_LENGTHS:
            self._by_length.clear()
        self._by_length[length] = lead
        return lead

    def _run(self, data: bytes, at: int, serial: int, length: int, lead: bytes) -> ResponseRun | None:
        """The usual frame at `at`, and others like it that follow; None if there are too few."""
        return None

    def _follow(self, content: bytes) -> None:
        """Expect more envelopes like this one, if it is known what it says."""
        try:
            start = self._read_start(content)
        except (IndexError, ValueError):
            return
        if start is not None and start != self._start:
            self._start = start
            self._make = _maker(self._kind, start)
            self._by_length = {}


def _maker(kind: type[Request | Response], start: EnvelopeStart) -> Callable[[int, bytes], Any]:
    """Makes a request or an answer of its serial number and message: half the time of calling the class."""
    new, before, after = tuple.__new__, start.before, start.after
    if kind is Request:
        service, method, timeout_ms, version, capabilities = before
        return lambda serial, body: new(kind, (serial, service, method, timeout_ms, version, capabilities, body))
    status, method = before
    capabilities, name, text = after
    return lambda serial, body: new(kind, (serial, status, method, body, capabilities, name, text))


def _length_of_rest(size: int) -> bytes | None:
    """The length that fits in front of the rest when both together have `size` bytes; None if none does."""
    for digits in range(1, 6):
        written = encode_varint(max(size - digits, 0))
        if len(written) == digits:
            return written
    return None


class RequestStream(_Stream):
    """Turns a connection's bytes into requests."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(Request, request_start)

    def feed_requests(self, data: bytes) -> list[Request | Frame]:
        """The requests that `data` completes, in order; as frames those that are still to be decoded.

        Raises:
            FrameError: as `feed`.
        """
        found: list[Any] = self.feed(data)
        return found


class ResponseStream(_Stream):
    """Turns a connection's bytes into answers."""

    __slots__ = ("_alike",)

    def __init__(self) -> None:
        super().__init__(Response, response_start)
        self._least_behind = LEAST_ALIKE - 1
        self._alike: dict[tuple[bytes, int], re.Pattern[bytes]] = {}
        """What finds frames like one that begins so and has so many bytes of content."""

    def feed_responses(self, data: bytes) -> list[Response | ResponseRun | Frame]:
        """The answers that `data` completes, in order; as frames those that are still to be decoded.

        Raises:
            FrameError: as `feed`.
        """
        found: list[Any] = self.feed(data)
        return found

    def _run(self, data: bytes, at: int, serial: int, length: int, lead: bytes) -> ResponseRun | None:
        stride = _HEAD_BYTES + length
        following = ONE_BLOCK.unpack_from(data, at + stride)
        if stride > MOST_STRIDE_BYTES or following != (TOKEN, serial + 1, 1, length) or serial < 0:
            return None
        pattern = self._alike.get((lead, length))
        if pattern is None:
            if len(self._alike) >= _MAX_PATTERNS:
                self._alike.clear()
            pattern = self._alike[lead, length] = alike_frames(lead, length)
        found = pattern.match(data, at)
        alike = 0 if found is None else (found.end() - at) // stride
        count = count_consecutive(data, at, stride, alike, serial)
        if count < LEAST_ALIKE:
            return None
        return ResponseRun(
            self._make,
            bytes(data),  # no copy if it is bytes already
            serial=serial,
            at=at + _HEAD_BYTES + len(lead),
            body_bytes=length - len(lead),
            stride=stride,
            count=count,
        )
