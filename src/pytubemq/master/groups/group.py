"""One consumer group as the Master keeps it, and each of its members.

The invariant: `members` and the members of `view` are the same consumers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytubemq.model.ids import UNDEFINED

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from pytubemq.core.balance.consistency import GroupKind, Terms
    from pytubemq.core.balance.view import GroupView
    from pytubemq.master.groups.flow_control import FlowIds
    from pytubemq.master.groups.partition_metadata import PartitionMetadata
    from pytubemq.model.ids import Partition

_REMEMBERED_GAPS = 4


@dataclass(frozen=True, slots=True)
class MemberInfo:
    """A consumer's registration; `node_id` only counts in a client-balanced group."""

    host: str
    peer: str
    joined_ms: int
    node_id: int = UNDEFINED
    over_tls: bool = False


@dataclass(slots=True)
class Pulse:
    """The rhythm of a consumer's heartbeats, and the time since when its connection is closed; seconds."""

    last_s: float
    lost_s: float | None = None
    # A tuple: a deque reserves half a KiB, which a hundred thousand members feel.
    gaps_s: tuple[float, ...] = ()

    def beat(self, now_s: float) -> None:
        """Record a heartbeat."""
        self.gaps_s = (*self.gaps_s[1 - _REMEMBERED_GAPS :], now_s - self.last_s)
        self.last_s = now_s
        self.lost_s = None

    @property
    def period_s(self) -> float:
        """Return the longest of its last pauses between heartbeats: the next one should come sooner than that."""
        return max(self.gaps_s, default=0.0)


@dataclass(slots=True)
class GroupCounters:
    """Counts since the start of this Master: consumers and groups that timed out, and events by their kind."""

    timeouts: int = 0
    client_balance_timeouts: int = 0
    group_timeouts: int = 0
    connect_events: int = 0
    disconnect_events: int = 0


@dataclass(slots=True)
class Group:
    """A group with at least one member.

    `not_allocated` is true until a member has had partitions, in a bound group until all claimed ones are assigned: so
    long each of its consumers begins where it claims to.
    """

    name: str
    terms: Terms
    view: GroupView
    not_allocated: bool = True
    members: dict[str, MemberInfo] = field(default_factory=dict)
    pulses: dict[str, Pulse] = field(default_factory=dict)
    sent_rules: dict[str, FlowIds] = field(default_factory=dict)
    """The flow-control rules that were last sent to each member."""
    due_s: float | None = None
    """The time at which the next tick changes something here."""
    ticked_s: float = 0.0
    available: tuple[list[frozenset[Partition]], frozenset[Partition]] = ([], frozenset())
    """The partitions of each topic on a Broker that the group got last, and all of them as one set."""
    meta: PartitionMetadata | None = None
    """The partition metadata of a client-balanced group."""
    needs: int = 0
    """Consumers that must be there before the group gets anything; 0 = it has begun."""
    begun: bool = False
    taken_ms: dict[str, int] = field(default_factory=dict)
    """When an operator last took all partitions of a member, in ms since 1970."""
    cause: str = ""
    """The last change of members or partitions: the reason of the events that follow."""
    from_max_id: int | None = None
    """When an operator moved the group to the newest messages (`csmFrmMaxOffsetCtrlId`, ms since 1970)."""

    @property
    def kind(self) -> GroupKind:
        """The way in which the group shares its partitions."""
        return self.terms.kind

    @property
    def nodes(self) -> Mapping[int, str]:
        """Return the consumers by node id."""
        return {info.node_id: name for name, info in self.members.items()}

    def holds(self, member: str) -> frozenset[Partition]:
        """Return the partitions that a member holds; in a client-balanced group those that it reports."""
        return self.view.members[member].holds

    def unread(self, member: str, broker_id: int, reads: Container[tuple[str, str, Partition]]) -> frozenset[Partition]:
        """Return a member's partitions of a Broker without those in `reads`: (group, client id, partition)."""
        held = self.holds(member)
        return frozenset(p for p in held if p.broker_id == broker_id and (self.name, member, p) not in reads)

    def pending(self, member: str) -> str | None:
        """Return the operation that a member was sent and has not acknowledged."""
        event = self.view.members[member].event
        return None if event is None else event.op.name


def consumer_key(name: str, member: str) -> tuple[str, str, str]:
    """Return the key of a consumer among all clients."""
    return ("consumer", name, member)
