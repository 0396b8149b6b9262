"""The RPC envelope: what stands in a frame around a business message.

A request is `RpcConnHeader`, `RequestHeader`, `RequestBody`, an answer `RpcConnHeader`, `ResponseHeader` and
`RspResponseBody` or `RspExceptionBody`, each behind its length. The invariant: a frame whose envelope is broken gives
EnvelopeError with the original's answer and nothing else, so its connection goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from google.protobuf.message import DecodeError

from pytubemq.errors import EnvelopeError
from pytubemq.model.limits import BLOCK_BYTES, MAX_HEADER_BYTES
from pytubemq.wire.codec import INVALID_PROTOBUF, PB, text
from pytubemq.wire.frame import Frame, encode_frame
from pytubemq.wire.messages.rpc import (
    RequestBody,
    RequestHeader,
    ResponseHeader,
    RpcConnHeader,
    RspExceptionBody,
    RspResponseBody,
)
from pytubemq.wire.schema import Status
from pytubemq.wire.varint import decode_varint, encode_varint

if TYPE_CHECKING:
    from collections.abc import Sequence

PROTOCOL_VERSION: Final = 3
"""What we say; peers say 1 (very old), 2 (C++, Go) or 3 (Java)."""

PARAMETER_PREFIX: Final = "IPC server unable to read call parameters:"

_REQUEST_FLAG: Final = 0
_RESPONSE_FLAG: Final = 1
_MASK_64: Final = (1 << 64) - 1
_ORIGINAL_PACKAGE: Final = "org.apache.inlong.tubemq."
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
    """An answer's envelope: `method` and `body` with SUCCESS, the exception's name and text else."""

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
    """A request as buffers for `writelines`; `body` is the business message in parts.

    Raises:
        FrameError: it is larger than a frame may be.
    """
    size = sum(map(len, body))
    request_body = b"\x08%b\x10%b\x1a%b" % (encode_varint(method), encode_varint(timeout_ms), encode_varint(size))
    header = b"\x08%b\x10%b" % (encode_varint(service), _VERSION)
    envelope = b"%b%b%b%b%b" % (
        _connection_header(_REQUEST_FLAG, capabilities),
        encode_varint(len(header)),
        header,
        encode_varint(len(request_body) + size),
        request_body,
    )
    return encode_frame(serial, [envelope, *body], block_bytes=block_bytes)


def encode_response(
    serial: int,
    *,
    method: int,
    body: Sequence[bytes],
    capabilities: int | None = None,
    block_bytes: int | None = BLOCK_BYTES,
) -> list[bytes]:
    """An answer as buffers for `writelines`; `body` is the business message in parts.

    Raises:
        FrameError: it is larger than a frame may be.
    """
    size = sum(map(len, body))
    response_body = b"\x08%b\x12%b" % (encode_varint(method), encode_varint(size))
    envelope = b"%b%b%b%b" % (
        _connection_header(_RESPONSE_FLAG, capabilities),
        _SUCCESS_HEADER,
        encode_varint(len(response_body) + size),
        response_body,
    )
    return encode_frame(serial, [envelope, *body], block_bytes=block_bytes)


def encode_exception(
    serial: int,
    *,
    fatal: bool,
    exception_name: str,
    text: str,
    capabilities: int | None = None,
    protocol_version: int = PROTOCOL_VERSION,
) -> list[bytes]:
    """An exception as answer.

    Args:
        serial: the request's.
        fatal: FATAL (envelope or message not understood) instead of ERROR.
        exception_name: a Java class name; peers of versions 1 and 2 know the original's own under another package.
        text: what went wrong; with an empty one a Java client does not see the class.
        capabilities: ours, if the peer is to be told.
        protocol_version: the request's.
    """
    old = _OLD_PACKAGES.get(protocol_version)
    if old is not None and exception_name.startswith(_ORIGINAL_PACKAGE):
        exception_name = old + exception_name[len(_ORIGINAL_PACKAGE) :]
    name_bytes = exception_name.encode("utf-8", "replace")
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
    return encode_frame(serial, [b"".join(parts)])


def decode_request(frame: Frame) -> Request:
    """The envelope of a request; bytes after it are ignored (C++ sends 6 to 9 zeros there).

    Raises:
        EnvelopeError: the envelope is broken.
    """
    content = frame.content
    connection, position = _delimited(RpcConnHeader, content, 0)
    header, position = _delimited(RequestHeader, content, position)
    body, _ = _delimited(RequestBody, content, position)
    return Request(
        frame.serial,
        header.serviceType,
        body.method,
        max(body.timeout, 0),
        header.protocolVer,
        _capabilities(connection),
        body.request,
    )


def decode_response(frame: Frame) -> Response:
    """The envelope of an answer.

    Raises:
        EnvelopeError: the envelope is broken.
    """
    content = frame.content
    connection, position = _delimited(RpcConnHeader, content, 0)
    header, position = _delimited(ResponseHeader, content, position)
    capabilities = _capabilities(connection)
    if header.status == Status.SUCCESS:
        body, _ = _delimited(RspResponseBody, content, position)
        return Response(frame.serial, Status.SUCCESS, body.method, body.data, capabilities, "", "")
    fault, _ = _delimited(RspExceptionBody, content, position)
    name, told = text(fault.exceptionName), text(fault.stackTrace)
    return Response(frame.serial, Status(header.status), 0, b"", capabilities, name, told)


def _delimited(cls: type, content: bytes, position: int) -> tuple[Any, int]:
    """The message behind its length at `position`, and where it ends."""
    if position >= len(content):
        raise EnvelopeError(f"{PARAMETER_PREFIX}null", exception_name="java.io.EOFException", fatal=True)
    try:
        size, position = decode_varint(content, position)
    except (IndexError, ValueError) as error:
        raise _broken(f"malformed length of {cls.__name__}") from error
    end = position + size
    if end > len(content):
        raise _broken(f"{cls.__name__} claims {size} bytes, {len(content) - position} are there")
    if size > MAX_HEADER_BYTES and cls not in _BODIES:
        raise _broken(f"{cls.__name__} claims {size} bytes; {MAX_HEADER_BYTES} are allowed")
    pb = PB[cls]()
    try:
        pb.MergeFromString(content[position:end])
    except (DecodeError, UnicodeDecodeError) as error:
        raise _broken(f"malformed {cls.__name__}: {error}") from error
    if not pb.IsInitialized():
        raise _broken(f"Message missing required fields: {', '.join(pb.FindInitializationErrors())}")
    return pb, end


def _broken(text: str) -> EnvelopeError:
    return EnvelopeError(f"{PARAMETER_PREFIX}{text}", exception_name=INVALID_PROTOBUF, fatal=True)


def _capabilities(connection: Any) -> int | None:
    if not connection.HasField("capabilities"):
        return None
    return int(connection.capabilities) & _MASK_64


def _connection_header(flag: int, capabilities: int | None) -> bytes:
    if capabilities is None:
        return b"\x02\x08%b" % encode_varint(flag)
    header = b"\x08%b%b%b" % (encode_varint(flag), _CAPABILITIES_TAG, encode_varint(int(capabilities)))
    return encode_varint(len(header)) + header


def _delimit(header: bytes) -> bytes:
    return encode_varint(len(header)) + header


_MAX_TEXT_CHARS: Final = 1024
_BODIES: Final = frozenset({RequestBody, RspResponseBody, RspExceptionBody})
_CAPABILITIES_TAG: Final = encode_varint(1000 << 3)
_VERSION: Final = encode_varint(PROTOCOL_VERSION)
_SUCCESS_HEADER: Final = _delimit(b"\x08\x00\x18%b" % _VERSION)
_ERROR_HEADER: Final = _delimit(b"\x08\x01\x18%b" % _VERSION)
_FATAL_HEADER: Final = _delimit(b"\x08\x02")
