"""The facts that change a consumer group, and the actions that the Master takes on them.

A fact is something the Master has learned; an action is something it must carry out. Both are plain values, so a
group's whole history can be replayed in a test.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, unique
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytubemq.model.ids import Partition


@unique
class OpType(IntEnum):
    """The commands of an event to a consumer (the protocol's numbers)."""

    # The original has REPORT (3), REFRESH (4) and STOPREBALANCE (5) as well. Its Master sends none of them, and its
    # clients do nothing on 3 and 5.
    CONNECT = 1
    """Take these partitions; follows a DISCONNECT to the same consumer."""
    DISCONNECT = 2
    """Give these partitions up; a CONNECT will follow."""
    ONLY_CONNECT = 10
    ONLY_DISCONNECT = 20


@dataclass(frozen=True, slots=True)
class Event:
    """An order to one consumer, known by its `rebalance_id` (never 0), which comes back as its acknowledgement.

    `first_sent_s` is when it was first sent: the time-out counts from there. `sent_s` is when it last went out, or None
    when the response that carried it is known to be lost.
    """

    # Java reads a missing event as an empty message, so to it 0 means that there is none.
    rebalance_id: int
    op: OpType
    partitions: tuple[Partition, ...]
    first_sent_s: float
    sent_s: float | None

    @property
    def connects(self) -> bool:
        """True if the consumer gains partitions."""
        return self.op in (OpType.CONNECT, OpType.ONLY_CONNECT)


# --- facts ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Joined:
    """A registration of a member, the first or a later one; `holds` is what it says it holds (empty for a new one).

    `claims` is where a bound consumer wants to begin. `allocated` says that the group had its partitions before.
    """

    member: str
    # Peers say it (`subscribeInfo`) when they register again after a 411, so a restart of the Master moves nothing.
    holds: frozenset[Partition] = frozenset()
    claims: Mapping[Partition, int] = field(default_factory=dict)
    # A consumer may say so (`notAllocated` false) while it holds nothing.
    allocated: bool = False


@dataclass(frozen=True, slots=True)
class Reported:
    """A member's report of all its partitions."""

    member: str
    # Java reports with each acknowledgement and else with every sixth heartbeat, so it may be 78 s old news.
    holds: frozenset[Partition]


@dataclass(frozen=True, slots=True)
class Acked:
    """A member's acknowledgement that it has done what an event asked for."""

    member: str
    rebalance_id: int


@dataclass(frozen=True, slots=True)
class Failed:
    """A member's report that it could not do what an event asked for; `holds` is what it has now, None if it does not
    say."""

    member: str
    rebalance_id: int
    # Java and Go acknowledge whatever came of an event; only their next report shows what they could not take.
    holds: frozenset[Partition] | None = None


@dataclass(frozen=True, slots=True)
class Drained:
    """An operator's request that members give up all they hold, and get nothing before `until_s`.

    One that may have something again at once gets other partitions than it had, if there are others.
    """

    # All of one request together, or the second would be given what the first gives up.
    members: frozenset[str]
    until_s: float


@dataclass(frozen=True, slots=True)
class HeartbeatReceived:
    """A heartbeat of a member that can be sent an event now: a response to it is due or waits."""

    member: str


@dataclass(frozen=True, slots=True)
class CameBack:
    """A heartbeat of a member that came back; no event can be sent with this fact."""

    member: str


@dataclass(frozen=True, slots=True)
class ConnectionLost:
    """The loss of a member's connection; unless it comes back within the grace it is gone.

    `grace_s` is None for the group's own, which is for consumers that notice at once.
    """

    member: str
    # Java, C++ and Go notice a closed connection only with their next heartbeat (see `core.return_deadline`).
    grace_s: float | None = None


@dataclass(frozen=True, slots=True)
class Left:
    """The unregistration of a member."""

    member: str


@dataclass(frozen=True, slots=True)
class PartitionsChanged:
    """The partitions that there are to consume.

    `available` partitions can be handed out. `absent` ones belong to a Broker that is away and may come back: who
    holds one keeps it, but it is assigned to nobody. All others are gone.
    """

    available: frozenset[Partition]
    # So a Broker that restarts within its grace costs its consumers no hand-over.
    absent: frozenset[Partition] = frozenset()


@dataclass(frozen=True, slots=True)
class Leased:
    """A Broker's report of who reads its partitions, though this Master does not know them all: they may be on their
    way.

    Until `until_s` such a partition is assigned to nobody else, unless its reader comes without it.
    """

    # Java Brokers report none. There the 410 to the second reader keeps two from reading, but some partitions move.
    leases: Mapping[Partition, str]
    until_s: float


@dataclass(frozen=True, slots=True)
class Unread:
    """A Broker's report, after it came back, that members are not its readers of these: they may have lost what they
    hold.

    They are assigned once more. A member that has them all the same does nothing then.
    """

    # Not for consumers of ours, which register at the Broker again on their own. Java drops what the Broker does not
    # know, and that shows only in its next full report, up to 78 s later.
    partitions: Mapping[str, frozenset[Partition]]
    """By member."""


@dataclass(frozen=True, slots=True)
class Tick:
    """The passing of time."""


Fact = (
    Joined
    | Reported
    | Acked
    | Failed
    | Drained
    | HeartbeatReceived
    | CameBack
    | ConnectionLost
    | Left
    | PartitionsChanged
    | Leased
    | Unread
    | Tick
)


# --- actions ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Wake:
    """A wake-up for a member with an event: respond to its waiting heartbeat, if there is one, after
    `HeartbeatReceived`."""

    member: str


@dataclass(frozen=True, slots=True)
class SendEvent:
    """An event to send in the response that is due to the member."""

    member: str
    event: Event


@dataclass(frozen=True, slots=True)
class Dropped:
    """A member that is not in the group any more, for the reason given; its heartbeats get 411."""

    member: str
    reason: str


Action = Wake | SendEvent | Dropped
