"""The table of methods, with the side that serves each and its messages; dispatch and documents are generated from it.

The invariant: a request that is refused here gets the exception that the original gives, in name, text and status.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, unique
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from pytubemq.errors import EnvelopeError
from pytubemq.model.limits import MAX_FRAME_BYTES, MAX_REPORT_BYTES, MAX_REQUEST_BYTES
from pytubemq.wire.protocol.extensions import ExtensionMethod
from pytubemq.wire.protocol.messages import broker, extension, master
from pytubemq.wire.serialization.message_bytes import REQUEST_PREFIX, decode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytubemq.wire.rpc.envelope import Request


@unique
class Service(IntEnum):
    """`RequestHeader.serviceType`; 4 and 5 are the original's unused admin services."""

    MASTER = 1
    BROKER_READ = 2
    BROKER_WRITE = 3


@unique
class Method(IntEnum):
    """`RequestBody.method`; the letters say who asks whom (P producer, C consumer, B Broker, M Master)."""

    PRODUCER_REGISTER_P2M = 1
    PRODUCER_HEARTBEAT_P2M = 2
    PRODUCER_CLOSE_P2M = 3
    CONSUMER_REGISTER_C2M = 4
    CONSUMER_HEARTBEAT_C2M = 5
    CONSUMER_CLOSE_C2M = 6
    BROKER_REGISTER_B2M = 7
    BROKER_HEARTBEAT_B2M = 8
    BROKER_CLOSE_B2M = 9
    SEND_MESSAGE_P2B = 13
    CONSUMER_REGISTER_C2B = 15
    CONSUMER_HEARTBEAT_C2B = 16
    GET_MESSAGE_C2B = 17
    CONSUMER_COMMIT_C2B = 18
    CONSUMER_REGISTER_C2M_V2 = 20
    CONSUMER_HEARTBEAT_C2M_V2 = 21
    GET_PART_META_C2M = 22
    READ_RANGE_C2B = ExtensionMethod.READ_RANGE
    PARTITION_OFFSETS = ExtensionMethod.PARTITION_OFFSETS
    SEND_PACKS_P2B = ExtensionMethod.SEND_PACKS
    RESET_OFFSETS = ExtensionMethod.RESET_OFFSETS
    RESET_HISTORY = ExtensionMethod.RESET_HISTORY


@dataclass(frozen=True, slots=True)
class MethodSpec:
    """One method: the services that offer it, its messages, and the largest frames."""

    method: Method
    services: frozenset[int]
    request: type[Any]
    response: type[Any]
    # The small bound unless a method needs more: a frame's memory is taken before anybody knows who sends it.
    request_bytes: int = MAX_REQUEST_BYTES
    response_bytes: int = MAX_REQUEST_BYTES


_AT_MASTER: Final = frozenset({Service.MASTER})
_READ: Final = frozenset({Service.BROKER_READ})
_WRITE: Final = frozenset({Service.BROKER_WRITE})
_READ_OR_WRITE: Final = _READ | _WRITE

_REPORT: Final[dict[str, int]] = {"request_bytes": MAX_REPORT_BYTES, "response_bytes": MAX_FRAME_BYTES}
"""Limits of a method that reports a state, and whose response grows with the cluster."""
# A message may have MAX_MESSAGE_BYTES, and a request with messages nearly nothing beside them.
_SEND: Final[dict[str, int]] = {"request_bytes": MAX_FRAME_BYTES}
_SEND_MANY: Final[dict[str, int]] = {"request_bytes": MAX_FRAME_BYTES, "response_bytes": MAX_REPORT_BYTES}
# The response has messages, or lists that grow with the cluster or with what was asked for.
_FETCH: Final[dict[str, int]] = {"response_bytes": MAX_FRAME_BYTES}

_SPECS: Final = (
    MethodSpec(
        Method.PRODUCER_REGISTER_P2M, _AT_MASTER, master.RegisterRequestP2M, master.RegisterResponseM2P, **_FETCH
    ),
    MethodSpec(Method.PRODUCER_HEARTBEAT_P2M, _AT_MASTER, master.HeartRequestP2M, master.HeartResponseM2P, **_FETCH),
    MethodSpec(Method.PRODUCER_CLOSE_P2M, _AT_MASTER, master.CloseRequestP2M, master.CloseResponseM2P),
    MethodSpec(
        Method.CONSUMER_REGISTER_C2M, _AT_MASTER, master.RegisterRequestC2M, master.RegisterResponseM2C, **_REPORT
    ),
    MethodSpec(Method.CONSUMER_HEARTBEAT_C2M, _AT_MASTER, master.HeartRequestC2M, master.HeartResponseM2C, **_REPORT),
    MethodSpec(Method.CONSUMER_CLOSE_C2M, _AT_MASTER, master.CloseRequestC2M, master.CloseResponseM2C),
    MethodSpec(
        Method.BROKER_REGISTER_B2M, _AT_MASTER, master.RegisterRequestB2M, master.RegisterResponseM2B, **_REPORT
    ),
    MethodSpec(Method.BROKER_HEARTBEAT_B2M, _AT_MASTER, master.HeartRequestB2M, master.HeartResponseM2B, **_REPORT),
    MethodSpec(Method.BROKER_CLOSE_B2M, _AT_MASTER, master.CloseRequestB2M, master.CloseResponseM2B),
    # The Go client sends through the read service, and the original lets it.
    MethodSpec(
        Method.SEND_MESSAGE_P2B, _READ_OR_WRITE, broker.SendMessageRequestP2B, broker.SendMessageResponseB2P, **_SEND
    ),
    MethodSpec(Method.CONSUMER_REGISTER_C2B, _READ, broker.RegisterRequestC2B, broker.RegisterResponseB2C),
    MethodSpec(Method.CONSUMER_HEARTBEAT_C2B, _READ, broker.HeartBeatRequestC2B, broker.HeartBeatResponseB2C),
    MethodSpec(Method.GET_MESSAGE_C2B, _READ, broker.GetMessageRequestC2B, broker.GetMessageResponseB2C, **_FETCH),
    MethodSpec(Method.CONSUMER_COMMIT_C2B, _READ, broker.CommitOffsetRequestC2B, broker.CommitOffsetResponseB2C),
    MethodSpec(
        Method.CONSUMER_REGISTER_C2M_V2,
        _AT_MASTER,
        master.RegisterRequestC2MV2,
        master.RegisterResponseM2CV2,
        **_REPORT,
    ),
    MethodSpec(
        Method.CONSUMER_HEARTBEAT_C2M_V2, _AT_MASTER, master.HeartRequestC2MV2, master.HeartResponseM2CV2, **_REPORT
    ),
    MethodSpec(
        Method.GET_PART_META_C2M, _AT_MASTER, master.GetPartMetaRequestC2M, master.GetPartMetaResponseM2C, **_FETCH
    ),
    MethodSpec(Method.READ_RANGE_C2B, _READ, extension.ReadRangeRequestC2B, extension.ReadRangeResponseB2C, **_FETCH),
    MethodSpec(
        Method.PARTITION_OFFSETS,
        _READ,
        extension.PartitionOffsetsRequest,
        extension.PartitionOffsetsResponse,
        **_REPORT,
    ),
    MethodSpec(
        Method.SEND_PACKS_P2B, _WRITE, extension.SendPacksRequestP2B, extension.SendPacksResponseB2P, **_SEND_MANY
    ),
    MethodSpec(
        Method.RESET_OFFSETS,
        _READ,
        extension.ResetOffsetsRequest,
        extension.ResetOffsetsResponse,
        **{"request_bytes": MAX_REPORT_BYTES, "response_bytes": MAX_REPORT_BYTES},
    ),
    MethodSpec(Method.RESET_HISTORY, _READ, extension.ResetHistoryRequest, extension.ResetHistoryResponse, **_FETCH),
)

METHODS: Final[Mapping[int, MethodSpec]] = MappingProxyType({int(spec.method): spec for spec in _SPECS})
"""Every method by its number. The original's reserved numbers 11, 12, 14 and 19 have no messages and are unknown, as is
our own reserved 100."""

REQUEST_BYTES: Final[Mapping[int, int]] = MappingProxyType(
    {method: spec.request_bytes for method, spec in METHODS.items()}
)
"""The largest request frame of each method."""
# 4 and 5 are the original's admin services: legal numbers that no server offers.
_SERVICE_TYPES: Final = range(1, 6)
_JAVA_EXCEPTION: Final = "java.lang.Exception"


def method_for(request: Request, *, offered: frozenset[int]) -> MethodSpec:
    """Return the method a request asks for.

    Args:
        request: its envelope.
        offered: the services of this server.

    Raises:
        EnvelopeError: no such method, service or pair; the first fault in the order in which the original looks.
    """
    spec = METHODS.get(request.method)
    # Before the service: the original finds a message's class by the method alone.
    if spec is None:
        raise EnvelopeError(
            f"{REQUEST_PREFIX}Unsupported method ID :{request.method}", exception_name=_JAVA_EXCEPTION, fatal=True
        )
    # A Broker offers both of its services on one port, so the pair counts, not the service alone.
    if request.service in offered and request.service in spec.services:
        return spec
    # The original decodes the message before it looks at the service, so a fault there is reported first.
    decode(spec.request, request.body)
    raise EnvelopeError(_service_fault(request, offered), exception_name=_JAVA_EXCEPTION, fatal=False)


def _service_fault(request: Request, offered: frozenset[int]) -> str:
    # From the service as such to this server to the method: the original's order, in its words.
    if request.service not in _SERVICE_TYPES:
        return "Service Type is invalid!"
    if request.service not in offered:
        return f"No service {request.service} found on the server"
    return f"Unsupported method {request.method}in service type {request.service}!"  # the original has no blank there
