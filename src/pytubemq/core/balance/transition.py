"""The transition of one group: (view, fact) -> (view, actions).

The invariants, whatever the facts: a partition is assigned to a member only while no other has it; a member has at most
one event that it has not acknowledged; what is revoked stays its own until it acknowledges or is gone.
So a partition is never assigned to two members at once. (In a group that is not planned nothing is assigned: there
only time and what members say change anything.)

Events are made when a member can receive them (`HeartbeatReceived`), never queued, and an event is repeated only while
it is valid: no member ever receives an outdated event. A connect that is no longer valid is superseded; the partitions
that it may have assigned stay the member's until it acknowledges the next event, since a member carries out its events
in order.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytubemq.core.balance.assignment_strategy import plan_assignment
from pytubemq.core.balance.claims import Claim, claim, share_claimed
from pytubemq.core.balance.facts import (
    Acked,
    Action,
    CameBack,
    ConnectionLost,
    Drained,
    Dropped,
    Fact,
    Failed,
    HeartbeatReceived,
    Joined,
    Leased,
    Left,
    OpType,
    PartitionsChanged,
    Reported,
    SendEvent,
    Tick,
    Unread,
    Wake,
)
from pytubemq.core.balance.next_event import next_event, next_step, supersede
from pytubemq.core.balance.partition_sets import difference, union
from pytubemq.core.balance.view import GroupView, Member
from pytubemq.model.limits import MAX_FORGONE_EVENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytubemq.model.ids import Partition

_NOTHING: frozenset[Partition] = frozenset()


def apply(view: GroupView, fact: Fact, *, now_s: float) -> tuple[GroupView, tuple[Action, ...]]:
    """Apply `fact` to the group, and return what the Master must do. A fact about an unknown member changes nothing."""
    return _STEPS[type(fact)](view, fact, now_s)


# --- facts, one function each -----------------------------------------------------------------------------------


def _apply_joined(view: GroupView, fact: Joined, now_s: float) -> tuple[GroupView, tuple[Action, ...]]:
    # The group had its partitions before this Master started: to begin at the claims again would move them.
    if fact.holds or fact.allocated:
        view = replace(view, reserving=False, claims={})
    if view.leases:  # it says itself what it has
        view = replace(view, leases={p: reader for p, reader in view.leases.items() if reader != fact.member})
    known = view.members.get(fact.member)
    if known is None:
        if not view.members and fact.holds:
            # Only the first one back starts the grace; later ones would prolong it for as long as consumers come.
            view = replace(view, settle_until_s=now_s + view.timing.settle_s)
        # Claims count only while a bound group begins; later ones would move partitions that are in use.
        known = Member(fact.member, now_s, claims=fact.claims if view.reserving else {})
        view = replace(view, claims=claim(view.claims, known.name, known.claims, select_big=view.select_big))
    elif known.event is not None:
        # Whatever carried the event may have died with the old connection.
        known = replace(known, event=replace(known.event, sent_s=None))
    view = _put(view, _renew(known, view, now_s))
    return _settle(_report(view, fact.member, fact.holds), now_s)


def _apply_reported(view: GroupView, fact: Reported, now_s: float) -> tuple[GroupView, tuple[Action, ...]]:
    member = view.members.get(fact.member)
    if member is None:
        return view, ()
    after = _report(_put(view, _renew(member, view, now_s)), fact.member, fact.holds)
    now_held = after.members[fact.member].holds
    given_up = member.holds - now_held
    # Java repeats its report with every sixth heartbeat: one without news must not cost a plan.
    if not given_up and now_held == member.holds and after.members[fact.member].stray == member.stray:
        return after, ()
    # It could not take them, or gave them up on its own: not again at once, or the two of us would spin.
    resting = {**after.resting, **dict.fromkeys(given_up, now_s + view.timing.retry_s)}
    return _settle(replace(after, resting=resting), now_s)


def _apply_acked(view: GroupView, fact: Acked, now_s: float) -> tuple[GroupView, tuple[Action, ...]]:
    member = view.members.get(fact.member)
    if member is None:
        return view, ()
    member = _renew(member, view, now_s)
    # The original pops the head of its queue for any id above 0, so there a late acknowledgement passes for that of the
    # next event.
    if member.event is None or member.event.rebalance_id != fact.rebalance_id:
        return _put(view, member), ()
    done = replace(
        member,
        event=None,
        # A member carries out its events in order, so what it took of superseded ones is settled with this one.
        superseded=_NOTHING,
        forgone=0,
        # Only now, with the acknowledgement, are revoked partitions free for others.
        holds=difference(member.holds, member.leaving),
        stray=difference(member.stray, member.leaving),
        after_disconnect=member.event.op is OpType.DISCONNECT,
    )
    # The plan has counted on this since the event was sent, but for what is absent or reported by two, and for who is
    # given nothing at the moment.
    surprise = view.absent or view.strays or view.reserving or any(map(_is_out, view.members.values()))
    return _settle(_put(view, done), now_s, replan=bool(surprise))


def _apply_failed(view: GroupView, fact: Failed, now_s: float) -> tuple[GroupView, tuple[Action, ...]]:
    member = view.members.get(fact.member)
    if member is None:
        return view, ()
    member, event = _renew(member, view, now_s), member.event
    # As with an acknowledgement: it may be about an event that has been superseded since.
    if event is None or event.rebalance_id != fact.rebalance_id:
        return _put(view, member), ()
    held = fact.holds
    if held is None:
        # A member of the original does not say what it has: a connect that failed gained it nothing, a disconnect that
        # failed lost it nothing.
        held = member.holds.difference(event.partitions) if event.connects else member.holds
    missed = frozenset(event.partitions) - held if event.connects else _NOTHING
    # Not again at once: neither these to this one, nor anything else before it had time to repair what is wrong.
    failed = replace(
        member,
        event=None,
        superseded=_NOTHING,
        after_disconnect=False,
        barred={**member.barred, **dict.fromkeys(missed, now_s + view.timing.barred_s)},
        quiet_until_s=now_s + view.timing.retry_s,
    )
    return _settle(_report(_put(view, failed), fact.member, held), now_s)


def _apply_drained(view: GroupView, fact: Drained, now_s: float) -> tuple[GroupView, tuple[Action, ...]]:
    # A second request for a member that is out already changes nothing, as in the original.
    for name in fact.members:
        member = view.members.get(name)
        if member is not None and not _is_out(member):
            view = _put(view, replace(member, shed=member.holds, out_until_s=fact.until_s))
    return _settle(_claim(view), now_s)


def _apply_heartbeat(view: GroupView, fact: HeartbeatReceived, now_s: float) -> tuple[GroupView, tuple[Action, ...]]:
    member = view.members.get(fact.member)
    if member is None:
        return view, ()
    member = _renew(member, view, now_s)
    event = next_event(view, member, now_s)
    if event is None:
        return _put(view, member), ()
    before = member.event
    # A repeat keeps its id, so the acknowledgement of either copy counts.
    is_new = before is None or before.rebalance_id != event.rebalance_id
    notified = replace(member, event=event)
    if is_new and before is not None:
        notified = supersede(notified, before)
    notified = replace(notified, again=notified.again.difference(event.partitions))
    # Held from when it is sent, not from the acknowledgement: the member may be reading by then. What it shed no
    # longer matters, as the plan behind this event has taken account of it.
    if event.connects:
        target = view.target.get(member.name, _NOTHING)
        holds = member.holds.union(event.partitions)
        notified = replace(notified, holds=target if holds == target else holds, shed=_NOTHING)
    view = _put(view, notified)
    if is_new:
        owners = {**view.owners, **dict.fromkeys(event.partitions, member.name)} if event.connects else view.owners
        view = replace(view, owners=owners, next_rebalance_id=view.next_rebalance_id + 1)
    return view, (SendEvent(member.name, event),)


def _apply_came_back(view: GroupView, fact: CameBack, now_s: float) -> tuple[GroupView, tuple[Action, ...]]:
    member = view.members.get(fact.member)
    return (view if member is None else _put(view, _renew(member, view, now_s))), ()


def _apply_connection_lost(view: GroupView, fact: ConnectionLost, now_s: float) -> tuple[GroupView, tuple[Action, ...]]:
    member = view.members.get(fact.member)
    if member is None:
        return view, ()
    # The response may have died with the connection, so the event is due again with the next heartbeat, not after 5 s.
    event = member.event and replace(member.event, sent_s=None)
    grace_s = view.timing.lost_grace_s if fact.grace_s is None else fact.grace_s
    # Never later than before: a lost connection gives no additional time.
    deadline_s = min(member.deadline_s, now_s + grace_s)
    return _put(view, replace(member, event=event, deadline_s=deadline_s)), ()


def _apply_left(view: GroupView, fact: Left, now_s: float) -> tuple[GroupView, tuple[Action, ...]]:
    if fact.member not in view.members:
        return view, ()
    return _settle(_drop(view, fact.member), now_s)


def _apply_partitions_changed(
    view: GroupView, fact: PartitionsChanged, now_s: float
) -> tuple[GroupView, tuple[Action, ...]]:
    available, absent = fact.available, fact.absent - fact.available
    # The Master states the whole sets again and again, mostly after something that does not concern this group.
    if (available, absent) == (view.available, view.absent):
        return view, ()
    returned = available - view.available
    # Whatever kept a member from a partition before it was gone may have ended with its return: it is tried at once.
    resting = {partition: until for partition, until in view.resting.items() if partition not in returned}
    return _settle(replace(view, available=available, absent=absent, resting=resting), now_s)


def _apply_leased(view: GroupView, fact: Leased, now_s: float) -> tuple[GroupView, tuple[Action, ...]]:
    # Who is back says for itself what it has.
    leases = {partition: reader for partition, reader in fact.leases.items() if reader not in view.members}
    return _settle(replace(view, leases={**view.leases, **leases}, leases_until_s=fact.until_s), now_s)


def _apply_unread(view: GroupView, fact: Unread, now_s: float) -> tuple[GroupView, tuple[Action, ...]]:
    lost = {
        # Only what is still its own: the plan may have moved on since the Broker registered.
        name: replace(member, again=member.again | (fact.partitions[name] & member.holds))
        for name, member in view.members.items()
        if name in fact.partitions
    }
    # Who owns what is unchanged; only a connect is due once more.
    return _settle(replace(view, members={**view.members, **lost}), now_s, replan=False)


def _apply_tick(view: GroupView, _: Tick, now_s: float) -> tuple[GroupView, tuple[Action, ...]]:
    dropped: list[Action] = []
    # Over the mapping as it was: views are values, so dropping a member does not disturb the loop.
    for name, member in view.members.items():
        if member.deadline_s <= now_s:
            view = _drop(view, name)
            dropped.append(Dropped(name, "no heartbeat in time"))
        elif member.event is not None and member.event.first_sent_s + view.timing.event_timeout_s <= now_s:
            # It sends heartbeats and never carries anything out: its partitions would be stuck with it for ever.
            # Once may be a consumer that is busy; a second time in a row its partitions go to somebody who takes them.
            if member.forgone + 1 >= MAX_FORGONE_EVENTS:
                view = _drop(view, name)
                dropped.append(Dropped(name, f"event {member.event.rebalance_id} was not acknowledged in time"))
            else:
                view = _put(view, _forgo(member))
    view = replace(
        view,
        resting=_still(view.resting, now_s),
        # A reader that has not come back by now is gone, and what it had is free.
        leases=view.leases if now_s < view.leases_until_s else {},
        members={
            name: replace(m, barred=_still(m.barred, now_s)) if m.barred else m for name, m in view.members.items()
        },
    )
    view, actions = _settle(view, now_s)
    return view, (*dropped, *actions)


_STEPS: Mapping[type, Callable[[GroupView, Any, float], tuple[GroupView, tuple[Action, ...]]]] = {
    Joined: _apply_joined,
    Reported: _apply_reported,
    Acked: _apply_acked,
    Failed: _apply_failed,
    Drained: _apply_drained,
    HeartbeatReceived: _apply_heartbeat,
    CameBack: _apply_came_back,
    ConnectionLost: _apply_connection_lost,
    Left: _apply_left,
    PartitionsChanged: _apply_partitions_changed,
    Leased: _apply_leased,
    Unread: _apply_unread,
    Tick: _apply_tick,
}


# --- what they share --------------------------------------------------------------------------------------------


def _owners(view: GroupView) -> dict[Partition, str]:
    """Return who holds each partition."""
    owners: dict[Partition, str] = {}
    for name, member in view.members.items():
        # Not one by one: `fromkeys` takes the hashes that a set has.
        held = dict.fromkeys(member.holds, name)
        if owners:
            owners.update(held)
        else:
            owners = held
    return owners


def _put(view: GroupView, member: Member) -> GroupView:
    return replace(view, members={**view.members, member.name: member})


def _is_out(member: Member) -> bool:
    """True if an operator took the member out of the sharing."""
    return member.out_until_s is not None


def _still(until: Mapping[Partition, float], now_s: float) -> Mapping[Partition, float]:
    """Return the marks whose time has not passed yet."""
    return {partition: until_s for partition, until_s in until.items() if until_s > now_s}


def _drop(view: GroupView, name: str) -> GroupView:
    # The claims of who is gone do not count, so those behind them may win now.
    return _claim(replace(view, members={key: member for key, member in view.members.items() if key != name}))


def _claim(view: GroupView) -> GroupView:
    """Set the best claims of those that share."""
    if not view.reserving:
        return view
    # From the start: of merged claims only the best are left, so one that ends cannot be taken out again.
    claims: Mapping[Partition, Claim] = {}
    for member in view.members.values():
        if not _is_out(member):
            claims = claim(claims, member.name, member.claims, select_big=view.select_big)
    return replace(view, claims=claims)


def _renew(member: Member, view: GroupView, now_s: float) -> Member:
    # Whatever a member says shows that it lives.
    return replace(member, deadline_s=now_s + view.timing.client_timeout_s)


def _forgo(member: Member) -> Member:
    """Drop an event nobody acknowledged. What it assigned may have been taken, so the member keeps it
    and, as it is then not sent again, only its own report can free it."""
    return replace(member, event=None, superseded=_NOTHING, forgone=member.forgone + 1, after_disconnect=False)


def _report(view: GroupView, name: str, reported: frozenset[Partition]) -> GroupView:
    """Replace the view of a member by its report, but for events that it was sent and has not acknowledged.

    The report may be older than such an event.
    """
    member = view.members[name]
    # Client balance: members are believed, also when two name the same. The Broker lets only one of them read.
    if not view.planned:
        return _put(view, replace(member, holds=reported))
    sent = member.superseded.union(member.event.partitions) if member.event is not None else _NOTHING
    new = difference(reported, member.holds)
    # Of a dictionary `isdisjoint` takes the hashes that are there.
    owned = not new.isdisjoint(view.owners)
    others = frozenset({p for p in new if view.owners.get(p, name) != name}) if owned else _NOTHING
    # Of an event on its way the report may know nothing yet, so its partitions stay the member's.
    holds = union(difference(reported, others), sent & member.holds)
    if holds == member.holds:
        holds = member.holds  # not a second set of the same
    # A stray that it is being asked to give up stays one until it acknowledges, whatever an older report says.
    stray = others | (member.stray & member.leaving)
    return _put(view, replace(member, holds=holds, stray=stray, again=member.again & holds))


def _settle(view: GroupView, now_s: float, *, replan: bool = True) -> tuple[GroupView, tuple[Action, ...]]:
    """Derive owners and target anew, and wake the members that an event can be sent to."""
    if not view.planned:
        return replace(view, owners=_owners(view)), ()
    view = _adopt(view)
    if replan:
        view = _back_in(view, now_s)
        target = _target(view)
        # All claims are in place. From here on the group is planned as any other, in the same step, so that what nobody
        # claimed does not wait for another fact.
        if view.reserving and _is_taken(view, target):
            view = replace(view, reserving=False, claims={})
            target = _target(view)
        view = replace(view, target=target)
    # Only woken: the event is made when the member asks, from the view of that moment.
    return view, tuple(Wake(name) for name, m in view.members.items() if next_step(view, m, now_s) is not None)


def _target(view: GroupView) -> Mapping[str, frozenset[Partition]]:
    """Return the planned partitions of each member; none for one that was taken out."""
    sharing = {name: member for name, member in view.members.items() if not _is_out(member)}
    if view.reserving:
        return share_claimed(view.claims, view.available, view.owners, sharing)
    # Absent partitions count only with those who hold them: nobody else could be given one.
    absent_held = view.absent - view.absent.difference(view.owners) if view.absent else _NOTHING
    # What a member shed or could not take is moved last from whoever has it now, so that the member gets others.
    returning = _NOTHING.union(*(member.shed | member.barred.keys() for member in sharing.values()))
    return plan_assignment(
        {name: difference(member.holds, member.leaving) for name, member in sharing.items()},
        union(view.available, absent_held),
        tuple(sharing),
        last_to_move=absent_held | returning,
        barred={name: frozenset(member.barred) for name, member in sharing.items() if member.barred},
    )


def _is_taken(view: GroupView, target: Mapping[str, frozenset[Partition]]) -> bool:
    """True if everything was sent and acknowledged, once there is something to consume and somebody to do it."""
    # Else a bound group that waits for its first partition or consumer would use up its claims for nothing.
    if not view.available or not view.members:
        return False
    return all(m.event is None and target.get(name, _NOTHING) <= m.holds for name, m in view.members.items())


def _back_in(view: GroupView, now_s: float) -> GroupView:
    """Let members that were taken out have partitions again when their time is over and others have what they had."""
    for member in view.members.values():
        if member.out_until_s is None or member.out_until_s > now_s or member.holds:
            continue
        # While one of its former partitions is free the plan would hand it straight back, and the order to drain it
        # would have done nothing.
        alone = all(other is member or _is_out(other) for other in view.members.values())
        if alone or view.available.intersection(member.shed) <= view.owners.keys():
            view = _claim(_put(view, replace(member, out_until_s=None)))
    return view


def _adopt(view: GroupView) -> GroupView:
    """Set the owners and the strays; a stray partition whose owner is gone belongs to whoever reported it. The Broker
    had given it to that owner, so it is sent again."""
    owners = _owners(view)
    changed: dict[str, Member] = {}
    for name, member in view.members.items():
        # Not what it is just giving up: only its acknowledgement says if it still has that.
        orphans = frozenset(p for p in member.stray - member.leaving if p not in owners)
        if orphans:
            holds, stray, again = member.holds | orphans, member.stray - orphans, member.again | orphans
            changed[name] = replace(member, holds=holds, stray=stray, again=again)
            owners.update(dict.fromkeys(orphans, name))
    members = {**view.members, **changed}
    strays = frozenset().union(*(member.stray for member in members.values()))
    return replace(view, members=members, owners=owners, strays=strays)
