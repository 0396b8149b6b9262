"""The RPC envelope (`RPC.proto`).

Names and numbers are the protocol's own (proto2, no package); extension fields are named in `wire.protocol.extensions`.
"""

from __future__ import annotations

from pytubemq.wire.protobuf.schema import BYTES, I32, I64, STR, Status, message, optional, required
from pytubemq.wire.protocol.extensions import ExtensionField


@message
class RpcConnHeader:
    flag: int = required(1, I32)
    trace_id: int | None = optional(2, I64, default=None)
    span_id: int | None = optional(3, I64, default=None)
    parent_id: int | None = optional(4, I64, default=None)
    capabilities: int | None = optional(ExtensionField.CAPABILITIES, I64, default=None)


@message
class RequestHeader:
    service_type: int | None = optional(1, I32, default=None)
    protocol_ver: int | None = optional(2, I32, default=None)


@message
class RequestBody:
    method: int = required(1, I32)
    timeout: int | None = optional(2, I64, default=None)
    request: bytes | None = optional(3, BYTES, default=None)


@message
class ResponseHeader:
    status: Status = required(1, Status)
    service_type: int | None = optional(2, I32, default=None)
    protocol_ver: int | None = optional(3, I32, default=None)


@message
class RspExceptionBody:
    exception_name: str = required(1, STR)
    stack_trace: str | None = optional(2, STR, default=None)


@message
class RspResponseBody:
    method: int = required(1, I32)
    data: bytes = required(2, BYTES)
