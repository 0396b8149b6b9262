"""The next event of a member: what moves it from the partitions that it holds towards its planned ones.

The invariant: an event is repeated only while it is valid, and one that revokes comes before one that assigns.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from pytubemq.core.balance.facts import Event, OpType
from pytubemq.core.balance.partition_sets import difference, intersection, lowest, union

if TYPE_CHECKING:
    from pytubemq.core.balance.view import GroupView, Member
    from pytubemq.model.ids import Partition

_NOTHING: frozenset[Partition] = frozenset()


class _Step(NamedTuple):
    """A move of a member towards its target, of which an event can be made."""

    op: OpType
    partitions: frozenset[Partition]


def next_event(view: GroupView, member: Member, now_s: float) -> Event | None:
    """Return the next event that this member can be sent now.

    It has as many partitions as one event may have; those beyond are in the events that follow.
    """
    step = next_step(view, member, now_s)
    if not isinstance(step, _Step):
        return step
    partitions = lowest(step.partitions, view.event_room(member.name))
    return Event(view.next_rebalance_id, step.op, tuple(partitions), now_s, now_s)


def next_step(view: GroupView, member: Member, now_s: float) -> Event | _Step | None:
    """Return what the member can be sent now: its event once more, or a new step; None if nothing is due.

    Sets are compared as wholes here and nothing is sorted, since this is asked of every member after each fact.
    """
    if not view.planned:
        return None
    if member.event is not None:
        return _repeated(view, member, member.event, now_s)
    # It failed at its last event; sent at once, the same one would fail in the same way.
    if now_s < member.quiet_until_s:
        return None
    return _new_step(view, member, now_s)


def _repeated(view: GroupView, member: Member, event: Event, now_s: float) -> Event | _Step | None:
    """Return the event again when a repeat is due, or the step that replaces it when it is no longer valid.

    A disconnect is repeated unchanged: only its acknowledgement shows that the member gave the partitions up.
    """
    # A heartbeat that does not acknowledge proves nothing yet: it may have crossed the event on the way.
    if event.sent_s is not None and now_s < event.sent_s + view.timing.resend_s:
        return None
    sent = frozenset(event.partitions)
    target = view.target.get(member.name, _NOTHING)
    if not event.connects or (sent <= target and len(_connectable(view, sent, member, now_s)) == len(sent)):
        return replace(event, sent_s=now_s)
    return _new_step(view, supersede(member, event), now_s)


def _new_step(view: GroupView, member: Member, now_s: float) -> _Step | None:
    """Return the step that moves the member from its current towards its target partitions; None if none is due."""
    target = view.target.get(member.name, _NOTHING)
    surplus = union(difference(member.holds, target), member.stray)
    gain = difference(target, member.holds)
    # Revocations first: other members wait for these partitions, and only one event may be under way.
    if surplus:
        return _Step(OpType.DISCONNECT if gain else OpType.ONLY_DISCONNECT, surplus)
    connectable = _connectable(view, member.again, member, now_s)
    # The grace after a restart holds back only what would be new to the member, not what it may have lost.
    if gain and now_s >= view.settle_until_s:
        free = difference(difference(gain, view.owners), view.resting)
        connectable = union(connectable, _connectable(view, free, member, now_s))
    if not connectable:
        return None
    return _Step(OpType.CONNECT if member.after_disconnect else OpType.ONLY_CONNECT, connectable)


def _connectable(
    view: GroupView, partitions: frozenset[Partition], member: Member, now_s: float
) -> frozenset[Partition]:
    """Return those of a member's partitions, or of free ones, that it can be sent a connect for."""
    found = difference(intersection(partitions, view.available), view.strays)
    if not view.leases or now_s >= view.leases_until_s:
        return found
    return frozenset(partition for partition in found if not _is_on_its_way(view, partition, member, now_s))


def _is_on_its_way(view: GroupView, partition: Partition, member: Member, now_s: float) -> bool:
    """True if another member consumes it that has not come back to this Master yet."""
    return now_s < view.leases_until_s and view.leases.get(partition, member.name) != member.name


def supersede(member: Member, connect: Event) -> Member:
    """Return the member after another event took the place of `connect`, which it may or may not have carried out."""
    unsure = member.holds.intersection(connect.partitions)
    # What it is to keep it is sent once more: it may never have seen the connect, or be unknown to the Broker.
    return replace(member, superseded=member.superseded | unsure, again=member.again | unsure)
