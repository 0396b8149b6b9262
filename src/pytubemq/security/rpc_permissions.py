"""The permissions that each method of the protocol needs, in one table; servers, tests and documents use it.

The invariant: a method without a row here is refused where authentication is on, so none can be forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, unique
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from pytubemq.security.permissions import Operation, ResourceKind
from pytubemq.wire.rpc.methods import Method

if TYPE_CHECKING:
    from collections.abc import Mapping


@unique
class Subject(Enum):
    """The resources of a request that a permission is needed on."""

    ITS_TOPICS = "each topic that the request names"
    ITS_GROUP = "the group that the request names"
    ITS_OWN = "the same user has registered the client, Broker or partition"
    THE_CLUSTER = "the cluster"


@dataclass(frozen=True, slots=True)
class Need:
    """A permission that a method needs; without an operation, the caller must only be the one that registered."""

    subject: Subject
    operation: Operation | None = None
    kind: ResourceKind | None = None


_PRODUCE: Final = Need(Subject.ITS_TOPICS, Operation.PRODUCE, ResourceKind.TOPIC)
_READ: Final = Need(Subject.ITS_TOPICS, Operation.CONSUME, ResourceKind.TOPIC)
_JOIN: Final = Need(Subject.ITS_GROUP, Operation.CONSUME, ResourceKind.GROUP)
_SEE_TOPIC: Final = Need(Subject.ITS_TOPICS, Operation.DESCRIBE, ResourceKind.TOPIC)
_SEE_GROUP: Final = Need(Subject.ITS_GROUP, Operation.DESCRIBE, ResourceKind.GROUP)
_BROKER: Final = Need(Subject.THE_CLUSTER, Operation.BROKER, ResourceKind.CLUSTER)
_OWN: Final = Need(Subject.ITS_OWN)

RPC_PERMISSIONS: Final[Mapping[Method, tuple[Need, ...]]] = MappingProxyType(
    {
        Method.PRODUCER_REGISTER_P2M: (_SEE_TOPIC,),
        Method.PRODUCER_HEARTBEAT_P2M: (_OWN, _SEE_TOPIC),
        Method.PRODUCER_CLOSE_P2M: (_OWN,),
        Method.CONSUMER_REGISTER_C2M: (_READ, _JOIN),
        Method.CONSUMER_HEARTBEAT_C2M: (_OWN, _JOIN),
        Method.CONSUMER_CLOSE_C2M: (_OWN,),
        Method.CONSUMER_REGISTER_C2M_V2: (_READ, _JOIN),
        Method.CONSUMER_HEARTBEAT_C2M_V2: (_OWN, _JOIN),
        Method.GET_PART_META_C2M: (_OWN, _JOIN),
        Method.BROKER_REGISTER_B2M: (_BROKER,),
        Method.BROKER_HEARTBEAT_B2M: (_OWN, _BROKER),
        Method.BROKER_CLOSE_B2M: (_OWN, _BROKER),
        Method.SEND_MESSAGE_P2B: (_PRODUCE,),
        Method.SEND_PACKS_P2B: (_PRODUCE,),
        Method.CONSUMER_REGISTER_C2B: (_READ, _JOIN),
        Method.CONSUMER_HEARTBEAT_C2B: (_OWN, _JOIN),
        Method.GET_MESSAGE_C2B: (_OWN,),
        Method.CONSUMER_COMMIT_C2B: (_OWN,),
        Method.READ_RANGE_C2B: (_READ,),
        Method.PARTITION_OFFSETS: (_SEE_TOPIC, _SEE_GROUP),
        Method.RESET_OFFSETS: (_READ, _JOIN),
        Method.RESET_HISTORY: (_SEE_GROUP,),
    }
)
"""All methods. Whoever reads a topic asks a Master for its Brokers as a producer does, so the Master asks for
`describe`, and the Broker for `produce` with each send."""
