"""The RPC envelope: everything around a business message in a frame.

A request is `RpcConnHeader`, `RequestHeader`, `RequestBody`, a response `RpcConnHeader`, `ResponseHeader` and
`RspResponseBody` or `RspExceptionBody`, each behind its length. The invariant: a frame whose envelope is broken gives
EnvelopeError with the original's answer and nothing else, so its connection goes on.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from google.protobuf.message import DecodeError

from pytubemq.errors import EnvelopeError
from pytubemq.model.limits import BLOCK_BYTES, KIB, MAX_FRAME_BYTES, MAX_HEADER_BYTES, MAX_INT32
from pytubemq.wire.framing.frame import ONE_BLOCK, TOKEN, Frame, encode_frame
from pytubemq.wire.protobuf.schema import Status
from pytubemq.wire.protobuf.varint import MAX_ONE_BYTE, decode_varint, encode_varint
from pytubemq.wire.protocol.messages.rpc import (
    RequestBody,
    RequestHeader,
    ResponseHeader,
    RpcConnHeader,
    RspExceptionBody,
    RspResponseBody,
)
from pytubemq.wire.serialization.message_bytes import INVALID_PROTOBUF, PB, missing_fields, text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")

PROTOCOL_VERSION: Final = 3
"""The protocol version that we send; peers send 1 (very old), 2 (C++, Go) or 3 (Java)."""

PARAMETER_PREFIX: Final = "IPC server unable to read call parameters:"

# As the original sets them; neither its servers nor its clients look at them.
_REQUEST_FLAG: Final = 0
_RESPONSE_FLAG: Final = 1
_MASK_64: Final = (1 << 64) - 1
_ORIGINAL_PACKAGE: Final = "org.apache.inlong.tubemq."
# `com.apache` for version 2 is no slip: the original writes it so.
_OLD_PACKAGES: Final = {1: "com.tencent.tubemq.", 2: "com.apache.tubemq."}


class Request(NamedTuple):
    """A request's envelope; 0 stands for an absent service, version or timeout (milliseconds)."""

    serial: int
    service: int
    method: int
    timeout_ms: int
    protocol_version: int
    capabilities: int | None
    body: bytes


class Response(NamedTuple):
    """A response's envelope: `method` and `body` with SUCCESS, the exception's name and text else."""

    serial: int
    status: Status
    method: int
    body: bytes
    capabilities: int | None
    exception_name: str
    exception_text: str


def encode_request(
    serial: int,
    *,
    service: int,
    method: int,
    timeout_ms: int,
    body: Sequence[bytes],
    capabilities: int | None = None,
    block_bytes: int | None = BLOCK_BYTES,
) -> list[bytes]:
    """Encode a request as buffers for `writelines`; `body` is the business message in parts.

    Raises:
        FrameError: it is larger than a frame may be.
    """
    size = len(body[0]) if len(body) == 1 else sum(map(len, body))
    return _frame(serial, request_lead(service, method, timeout_ms, capabilities, size), body, size, block_bytes)


def _frame(serial: int, lead: bytes, body: Sequence[bytes], size: int, block_bytes: int | None) -> list[bytes]:
    """Encode a frame of what precedes the message, and the message."""
    total = len(lead) + size
    if total > (MAX_FRAME_BYTES if block_bytes is None else block_bytes):
        return encode_frame(serial, [lead, *body], block_bytes=block_bytes)
    if size < _SMALL_BYTES and len(body) == 1:
        return [ONE_BLOCK.pack(TOKEN, serial, 1, total) + lead + body[0]]
    return [ONE_BLOCK.pack(TOKEN, serial, 1, total) + lead, *body]


_SMALL_BYTES: Final = 4 * KIB
"""A body below this size goes into one buffer with what comes before it: fewer buffers cost less than a copy."""


# A client's requests differ in method and size, hardly in anything else.
@lru_cache(maxsize=4096)
def request_lead(service: int, method: int, timeout_ms: int, capabilities: int | None, size: int) -> bytes:
    """Return the bytes before a message of `size` bytes; the same for many requests."""
    length = encode_varint(size)
    begun = b"\x08%b\x10%b\x1a%b" % (encode_varint(method), encode_varint(timeout_ms), length)
    return b"%b%b%b%b" % (
        _connection_header(_REQUEST_FLAG, capabilities),
        _delimit(b"\x08%b\x10%b" % (encode_varint(service), _VERSION)),
        encode_varint(len(begun) + size),
        begun,
    )


def encode_response(
    serial: int,
    *,
    method: int,
    body: Sequence[bytes],
    capabilities: int | None = None,
    block_bytes: int | None = BLOCK_BYTES,
) -> list[bytes]:
    """Encode a response as buffers for `writelines`; `body` is the business message in parts.

    Raises:
        FrameError: it is larger than a frame may be.
    """
    size = len(body[0]) if len(body) == 1 else sum(map(len, body))
    return _frame(serial, response_lead(method, capabilities, size), body, size, block_bytes)


@lru_cache(maxsize=4096)
def response_lead(method: int, capabilities: int | None, size: int) -> bytes:
    begun = b"\x08%b\x12%b" % (encode_varint(method), encode_varint(size))
    return b"%b%b%b%b" % (
        _connection_header(_RESPONSE_FLAG, capabilities),
        _SUCCESS_HEADER,
        encode_varint(len(begun) + size),
        begun,
    )


def encode_exception(
    serial: int,
    *,
    fatal: bool,
    exception_name: str,
    text: str,
    capabilities: int | None = None,
    protocol_version: int = PROTOCOL_VERSION,
) -> list[bytes]:
    """Encode an exception as a response.

    Args:
        serial: the request's.
        fatal: FATAL (envelope or message not understood) instead of ERROR.
        exception_name: a Java class name; peers of versions 1 and 2 know the original's own under another package.
        text: what went wrong; with an empty one a Java client does not see the class.
        capabilities: ours, if they are sent to the peer.
        protocol_version: the request's.
    """
    old = _OLD_PACKAGES.get(protocol_version)
    # Only the original's own exceptions: those of `java.*` are the same for every version.
    if old is not None and exception_name.startswith(_ORIGINAL_PACKAGE):
        exception_name = old + exception_name[len(_ORIGINAL_PACKAGE) :]
    name_bytes = exception_name.encode("utf-8", "replace")
    # A fault may repeat what the peer sent; the response does not grow with that.
    text_bytes = text[:_MAX_TEXT_CHARS].encode("utf-8", "replace")
    body = b"\x0a%b%b\x12%b%b" % (
        encode_varint(len(name_bytes)),
        name_bytes,
        encode_varint(len(text_bytes)),
        text_bytes,
    )
    parts = (
        _connection_header(_RESPONSE_FLAG, capabilities),
        _FATAL_HEADER if fatal else _ERROR_HEADER,
        encode_varint(len(body)),
        body,
    )
    # In small blocks, which every peer takes: an exception is short.
    return encode_frame(serial, [b"".join(parts)])


def decode_request(frame: Frame) -> Request:
    """Decode the envelope of a request; bytes after it are ignored (C++ sends 6 to 9 zeros there).

    Raises:
        EnvelopeError: the envelope is broken.
    """
    usual = _usual(frame, request_start)
    return _any_request(frame) if usual is None else Request._make(usual)


def _any_request(frame: Frame) -> Request:
    content = frame.content
    connection, position = _delimited(RpcConnHeader, content, 0)
    header, headers_end = _delimited(RequestHeader, content, position)
    body, _ = _delimited(RequestBody, content, headers_end)
    capabilities = _capabilities(connection)
    fields = (header.serviceType, header.protocolVer, capabilities)
    # Only now that protobuf has taken them: what is remembered is what these bytes mean, for any later frame.
    _remember(_REQUEST_HEADERS, content[:headers_end], fields)
    return Request(
        frame.serial,
        header.serviceType,
        body.method,
        # Below 0 it would be a deadline that has passed. 0 is no timeout, for which the server has its own.
        max(body.timeout, 0),
        header.protocolVer,
        capabilities,
        body.request,
    )


class EnvelopeStart(NamedTuple):
    """The layout of an envelope: the two headers, a length, the start of the third part, a length, the message.

    `before` and `after` are the fields of `Request` or `Response` around the message, without the serial number.
    """

    headers: bytes
    begun: bytes
    before: tuple[Any, ...]
    after: tuple[Any, ...]


def _usual(frame: Frame, read_start: Callable[[bytes], EnvelopeStart | None]) -> tuple[Any, ...] | None:
    """Read an envelope whose headers were seen before and whose third part has the layout that all peers write."""
    serial, content = frame
    try:
        start = read_start(content)
        if start is None:
            return None
        size, at = decode_varint(content, len(start.headers))
        end = at + size
        size, at = decode_varint(content, at + len(start.begun))
    except (IndexError, ValueError):  # it ends too early, or a number is too long
        return None
    # The message has to end with its part. What follows the part is ignored, as behind C++'s requests.
    if at + size != end or end > len(content):
        return None
    return (serial, *start.before, content[at:end], *start.after)


def request_start(content: bytes) -> EnvelopeStart | None:
    """Return the layout of a request whose headers were seen before and that all clients write so.

    Raises:
        IndexError, ValueError: it is not laid out so.
    """
    # Both headers are shorter than 128 bytes here, so their lengths are one byte each: longer ones are not remembered,
    # and take the other way.
    at = content[0] + 1
    at += content[at] + 1
    headers = content[:at]
    cached = _REQUEST_HEADERS.get(headers)
    if cached is None:
        return None
    _, at = decode_varint(content, at)
    # Up to the tag of the message. Should the tag's byte be part of the timeout, `_read_start` refuses what was cut,
    # and the envelope is decoded as a whole.
    begun = content[at : content.index(_REQUEST, at, at + _MOST_BEGUN_BYTES) + 1]
    call = _REQUEST_STARTS.get(begun) or _read_start(begun)
    if call is None:
        return None
    service, version, capabilities = cached
    return EnvelopeStart(headers, begun, (service, *call, version, capabilities), ())


def _read_start(begun: bytes) -> tuple[int, int] | None:
    """Read method and timeout, if nothing else is before the tag of the request."""
    # All methods have numbers below 128, so a longer one is left to protobuf, as is a negative timeout: ten bytes, and
    # a large number here.
    if begun[0] != _METHOD or begun[1] > MAX_ONE_BYTE or begun[2] != _TIMEOUT:
        return None
    timeout_ms, stop = decode_varint(begun, 3)
    if stop != len(begun) - 1 or timeout_ms > MAX_INT32:
        return None
    _remember(_REQUEST_STARTS, begun, (begun[1], timeout_ms))
    return begun[1], timeout_ms


def front_method(front: bytes) -> int | None:
    """Return the method of a request that begins with `front`; None if it is not where all clients write it."""
    at = 0
    try:
        # A size may point behind the front: that raises, and the frame waits for more of it or has the usual bound.
        for _ in range(_HEADERS):
            size, at = decode_varint(front, at)
            at += size
        _, at = decode_varint(front, at)
        return decode_varint(front, at + 1)[0] if front[at] == _METHOD else None
    except (IndexError, ValueError):  # it ends too early, or a number is too long
        return None


def decode_response(frame: Frame) -> Response:
    """Decode the envelope of a response.

    Raises:
        EnvelopeError: the envelope is broken.
    """
    usual = _usual(frame, response_start)
    return _any_response(frame) if usual is None else Response._make(usual)


def _any_response(frame: Frame) -> Response:
    content = frame.content
    connection, position = _delimited(RpcConnHeader, content, 0)
    header, headers_end = _delimited(ResponseHeader, content, position)
    capabilities = _capabilities(connection)
    # A status that is none never gets here: protobuf takes it for unknown, and the field is required.
    if header.status == Status.SUCCESS:
        body, _ = _delimited(RspResponseBody, content, headers_end)
        # Exceptions are rare and differ from each other, so only headers of successes are remembered.
        _remember(_RESPONSE_HEADERS, content[:headers_end], (capabilities,))
        return Response(frame.serial, Status.SUCCESS, body.method, body.data, capabilities, "", "")
    # Cut at once: the names and texts of errors are kept, logged and shown.
    fault, _ = _delimited(RspExceptionBody, content, headers_end)
    name, trace = text(fault.exceptionName)[:_MAX_TEXT_CHARS], text(fault.stackTrace)[:_MAX_TRACE_CHARS]
    return Response(frame.serial, Status(header.status), 0, b"", capabilities, name, trace)


def response_start(content: bytes) -> EnvelopeStart | None:
    """Return the layout of a response, as `request_start`.

    Raises:
        IndexError, ValueError: it is not laid out so.
    """
    at = content[0] + 1
    at += content[at] + 1
    headers = content[:at]
    cached = _RESPONSE_HEADERS.get(headers)
    # Headers that nobody has decoded yet; the plain way learns them.
    if cached is None:
        return None
    _, at = decode_varint(content, at)
    # The method's tag and number, and the data's tag: a response has nothing between them that varies.
    begun = content[at : at + 3]
    if begun[0] != _METHOD or begun[1] > MAX_ONE_BYTE or begun[2] != _DATA:
        return None
    return EnvelopeStart(headers, begun, (Status.SUCCESS, begun[1]), (cached[0], "", ""))


def usual_body_at(head: bytes, size: int) -> int | None:
    """Return the start of the message in a response of `size` bytes that begins with `head`; it ends with them.

    None where `decode_response` has to be asked, which also learns what a usual answer begins with.
    """
    try:
        start = response_start(head)
        if start is None:
            return None
        rest_bytes, at = decode_varint(head, len(start.headers))
        end = at + rest_bytes
        body_bytes, at = decode_varint(head, at + len(start.begun))
    except (IndexError, ValueError):
        return None
    return at if at + body_bytes == end == size else None


# What the bytes of the two headers mean, and those of method and timeout: nearly always the same. Bounded in number
# and in size.
# For all connections of a process: peers of one kind and version write the same bytes.
_REQUEST_HEADERS: Final[dict[bytes, tuple[int, int, int | None]]] = {}
_REQUEST_STARTS: Final[dict[bytes, tuple[int, int]]] = {}
_RESPONSE_HEADERS: Final[dict[bytes, tuple[int | None]]] = {}
_MAX_REMEMBERED: Final = 256
# The headers that peers send have some ten bytes each.
_MAX_REMEMBERED_BYTES: Final = 64
_MOST_BEGUN_BYTES: Final = 16
_HEADERS: Final = 2
_METHOD: Final = 1 << 3
_TIMEOUT: Final = 2 << 3
_REQUEST: Final = 3 << 3 | 2
_DATA: Final = 2 << 3 | 2


def _remember(known: dict[bytes, T], data: bytes, value: T) -> None:
    if len(data) <= _MAX_REMEMBERED_BYTES:
        # Emptied as a whole: what is in use comes back with the next frame of each peer.
        if len(known) >= _MAX_REMEMBERED:
            known.clear()
        known[data] = value


def _delimited(cls: type, content: bytes, position: int) -> tuple[Any, int]:
    """Decode the message behind its length at `position`, and return where it ends."""
    # The original's `null` is the text of an exception that has none.
    if position >= len(content):
        raise EnvelopeError(f"{PARAMETER_PREFIX}null", exception_name="java.io.EOFException", fatal=True)
    try:
        size, position = decode_varint(content, position)
    except (IndexError, ValueError) as error:
        raise _broken(f"malformed length of {cls.__name__}") from error
    end = position + size
    if end > len(content):
        raise _broken(f"{cls.__name__} claims {size} bytes, {len(content) - position} are there")
    # A header of our protocol is some ten bytes: a large one is an attempt to make us allocate.
    if size > MAX_HEADER_BYTES and cls not in _BODIES:
        raise _broken(f"{cls.__name__} claims {size} bytes; {MAX_HEADER_BYTES} are allowed")
    pb = PB[cls]()
    try:
        pb.MergeFromString(content[position:end])
    except (DecodeError, UnicodeDecodeError) as error:
        raise _broken(f"malformed {cls.__name__}: {error}") from error
    # The original's own words, as its clients show them to their users.
    if not pb.IsInitialized():
        raise _broken(f"Message missing required fields: {missing_fields(cls, pb)}")
    return pb, end


def _broken(text: str) -> EnvelopeError:
    return EnvelopeError(f"{PARAMETER_PREFIX}{text}", exception_name=INVALID_PROTOBUF, fatal=True)


def _capabilities(connection: Any) -> int | None:
    if not connection.HasField("capabilities"):
        return None
    # The field is signed on the wire, the bit set is not.
    return int(connection.capabilities) & _MASK_64


def _connection_header(flag: int, capabilities: int | None) -> bytes:
    if capabilities is None:
        # As the original writes it, byte for byte: a peer that shows no capabilities sees nothing of ours.
        return b"\x02\x08%b" % encode_varint(flag)
    header = b"\x08%b%b%b" % (encode_varint(flag), _CAPABILITIES_TAG, encode_varint(int(capabilities)))
    return encode_varint(len(header)) + header


def _delimit(header: bytes) -> bytes:
    return encode_varint(len(header)) + header


_MAX_TEXT_CHARS: Final = 1024
_MAX_TRACE_CHARS: Final = 64 * KIB
"""Characters of an exception's text that are kept. (The field is named for a stack trace; Java sends the message.)"""
_BODIES: Final = frozenset({RequestBody, RspResponseBody, RspExceptionBody})
_CAPABILITIES_TAG: Final = encode_varint(1000 << 3)
_VERSION: Final = encode_varint(PROTOCOL_VERSION)
# Without a service type, and FATAL without a version, as the original's server answers.
_SUCCESS_HEADER: Final = _delimit(b"\x08\x00\x18%b" % _VERSION)
_ERROR_HEADER: Final = _delimit(b"\x08\x01\x18%b" % _VERSION)
_FATAL_HEADER: Final = _delimit(b"\x08\x02")
