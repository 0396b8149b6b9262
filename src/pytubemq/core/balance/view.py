"""The Master's view of one group.

The invariant: `owners` is the union of what the members hold, and no partition is held by two. To hold means: was
assigned it, or reported having it, and has not yet acknowledged giving it up.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pytubemq.model.limits import (
    CLIENT_TIMEOUT_S,
    EVENT_RESEND_S,
    EVENT_TIMEOUT_S,
    LOST_CONNECTION_GRACE_S,
    MAX_EVENT_BYTES,
    MAX_EVENT_PARTITIONS,
    MAX_HOST_CHARS,
    MAX_TOPIC_CHARS,
    RESTART_GRACE_S,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytubemq.core.balance.claims import Claim
    from pytubemq.core.balance.facts import Event
    from pytubemq.model.ids import Partition


_PLACE_BYTES: Final = MAX_HOST_CHARS + MAX_TOPIC_CHARS + 48
"""A partition on the wire beside the names of member and group: Broker, topic, numbers and what divides them."""


@dataclass(frozen=True, slots=True)
class Timing:
    """The waits of a group, seconds.

    `settle_s`: how long free partitions are held back in a group whose first member came with partitions from before
    a restart of the Master: the others are on their way with theirs. `retry_s`: how long a partition rests that its
    consumer was assigned and could not take. `barred_s`: how long a consumer that reported that it failed to take a
    partition gets it only if there is nobody else.
    """

    client_timeout_s: float = CLIENT_TIMEOUT_S
    lost_grace_s: float = LOST_CONNECTION_GRACE_S
    event_timeout_s: float = EVENT_TIMEOUT_S
    resend_s: float = EVENT_RESEND_S
    # Longer than the slowest heartbeat (Java's 13 s), with which the others come back.
    settle_s: float = RESTART_GRACE_S
    # Without it, a consumer that cannot take a partition and a Master that assigns it again would spin.
    retry_s: float = 1.0
    barred_s: float = 30.0


@dataclass(frozen=True, slots=True)
class Member:
    """One consumer.

    `stray` partitions are reported by this member while another holds them: they are revoked from it.
    `again` partitions it holds and may have lost at the Broker: they are assigned to it once more.
    `forgone` counts events in a row that it has not acknowledged in time. `superseded` partitions come from connects
    that became invalid before they were acknowledged: it may take them until it acknowledges the later `event`.

    `claims` is where a bound consumer wants to begin. `barred` partitions, each until then, it could not take.
    `quiet_until_s`: it failed at its last event and is sent nothing new before. `out_until_s`: an operator wants it to
    give up everything, which is `shed`; None once it may be given something again.
    """

    name: str
    deadline_s: float
    holds: frozenset[Partition] = frozenset()
    stray: frozenset[Partition] = frozenset()
    again: frozenset[Partition] = frozenset()
    event: Event | None = None
    superseded: frozenset[Partition] = frozenset()
    after_disconnect: bool = False
    forgone: int = 0
    claims: Mapping[Partition, int] = field(default_factory=dict)
    barred: Mapping[Partition, float] = field(default_factory=dict)
    quiet_until_s: float = 0.0
    shed: frozenset[Partition] = frozenset()
    out_until_s: float | None = None

    @property
    def leaving(self) -> frozenset[Partition]:
        """Partitions that it must give up and has not yet acknowledged."""
        if self.event is None or self.event.connects:
            return frozenset()
        return frozenset(self.event.partitions)


@dataclass(frozen=True, slots=True)
class GroupView:
    """One group; `members` is in the order they joined. `target`, `owners`, `strays` are derived from the rest.

    In a group that is not `planned` the members share the partitions among themselves: what they hold is what they
    say, also when two say the same, and no event is sent.

    While `reserving` only `claims` are assigned: a bound group begins with them, decided by `select_big`. A partition
    of `leases` is on its way back with its reader until `leases_until_s`. `name_bytes` is how long the group's name is.
    """

    name_bytes: int = 0
    planned: bool = True
    reserving: bool = False
    select_big: bool = True
    claims: Mapping[Partition, Claim] = field(default_factory=dict)
    timing: Timing = field(default_factory=Timing)
    members: Mapping[str, Member] = field(default_factory=dict)
    available: frozenset[Partition] = frozenset()
    absent: frozenset[Partition] = frozenset()
    resting: Mapping[Partition, float] = field(default_factory=dict)
    settle_until_s: float = 0.0
    leases: Mapping[Partition, str] = field(default_factory=dict)
    leases_until_s: float = 0.0
    # The Master begins at its clock, so an acknowledgement meant for the Master before it matches no event of its own.
    next_rebalance_id: int = 1
    # Derived, and kept all the same: whether an event is due is asked of every member after each fact.
    target: Mapping[str, frozenset[Partition]] = field(default_factory=dict)
    owners: Mapping[Partition, str] = field(default_factory=dict)
    strays: frozenset[Partition] = frozenset()

    def event_room(self, member: str) -> int:
        """Return how many partitions one event to a member may have, each with the names of member and group."""
        # Bytes as well as partitions: a long group name in each of 20,000 items would be more than a member can report.
        return min(MAX_EVENT_PARTITIONS, MAX_EVENT_BYTES // (_PLACE_BYTES + self.name_bytes + len(member.encode())))

    @property
    def balanced(self) -> bool:
        """True if every member has exactly its planned partitions and nothing is under way."""
        return all(
            member.event is None
            and not (member.stray or member.again)
            and member.holds == self.target.get(name, frozenset())
            for name, member in self.members.items()
            if self.planned
        )


def due_s(view: GroupView, *, after_s: float) -> float | None:
    """Return when a `Tick` later than `after_s`, the last one, can next change something; None if never."""
    # Strictly later. A time that the last tick has seen and that still stands (a quiet member's, a barred partition's)
    # would have the Master tick without end.
    return min((due for due in _dues(view) if due > after_s), default=None)


def _dues(view: GroupView) -> Iterator[float]:
    for member in view.members.values():
        yield member.deadline_s
        if member.event is not None:
            yield member.event.first_sent_s + view.timing.event_timeout_s
            # Else it is due with the member's next request, whenever that comes.
            if member.event.sent_s is not None:
                yield member.event.sent_s + view.timing.resend_s
        if member.out_until_s is not None:
            yield member.out_until_s
        # Nothing is dropped at this time and at those of resting partitions, but then the next event can be made, and a
        # heartbeat that waits has to be woken for it.
        yield member.quiet_until_s
        yield from member.barred.values()
    yield from view.resting.values()
    # Without members there is nobody to hold anything back from.
    if view.members:
        yield view.settle_until_s
        if view.leases:
            yield view.leases_until_s
