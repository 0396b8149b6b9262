"""The RPC envelope (`RPC.proto`).

Names and numbers are the protocol's own (proto2, no package); extension fields are named in `wire.protocol.extensions`.
"""

from __future__ import annotations

from pytubemq.wire.protobuf.schema import BYTES, I32, I64, STR, Status, message, optional, required
from pytubemq.wire.protocol.extensions import ExtensionField


@message
class RpcConnHeader:
    flag: int = required(1, I32)
    # Never set by any client of the original.
    trace_id: int | None = optional(2, I64, default=None)
    span_id: int | None = optional(3, I64, default=None)
    parent_id: int | None = optional(4, I64, default=None)
    capabilities: int | None = optional(ExtensionField.CAPABILITIES, I64, default=None)


@message
class RequestHeader:
    service_type: int | None = optional(1, I32, default=None)
    # 3 from Java, 2 from C++ and Go. It decides under which package exceptions are named.
    protocol_ver: int | None = optional(2, I32, default=None)


@message
class RequestBody:
    method: int = required(1, I32)
    # In ms. The original's server answers nothing if it is 0 or absent, as every response is then too late.
    timeout: int | None = optional(2, I64, default=None)
    request: bytes | None = optional(3, BYTES, default=None)


@message
class ResponseHeader:
    status: Status = required(1, Status)
    # Never set by the original's server.
    service_type: int | None = optional(2, I32, default=None)
    protocol_ver: int | None = optional(3, I32, default=None)


@message
class RspExceptionBody:
    # A Java class name: Java clients make that exception, and close the connection if it is an IOException.
    exception_name: str = required(1, STR)
    # The message of the exception alone. With an empty one Java does not recognise the class, so StandbyException needs
    # some.
    stack_trace: str | None = optional(2, STR, default=None)


@message
class RspResponseBody:
    # Java chooses by it which message to decode, not by the method it called.
    method: int = required(1, I32)
    data: bytes = required(2, BYTES)
