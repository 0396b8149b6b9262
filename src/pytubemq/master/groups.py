"""The consumer groups: who is in which, and what each must be told.

Decisions are `core.balance`'s; this room feeds it facts and carries out its actions. The invariant: a held heartbeat
is answered in the same turn of the loop in which there is something to say.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pytubemq.core.balance.consistency import Mismatch, Terms, check_terms
from pytubemq.core.balance.facts import (
    Asked,
    CameBack,
    ConnectionLost,
    Dropped,
    Event,
    Fact,
    Joined,
    Left,
    PartitionsChanged,
    Tell,
    Tick,
    Wake,
)
from pytubemq.core.balance.transition import apply
from pytubemq.core.balance.view import GroupView, Timing, due_s
from pytubemq.master.peers import Connection, Peers
from pytubemq.master.waiting import Attempt, Waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from pytubemq.master.admission import Admission
    from pytubemq.master.brokers import Brokers
    from pytubemq.master.settings import MasterSettings
    from pytubemq.model.ids import Partition
    from pytubemq.net.clock import Clock

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MemberInfo:
    """What is known of a consumer beside what it holds."""

    host: str
    peer: str
    joined_ms: int


@dataclass(slots=True)
class Group:
    """A group with at least one member. `not_allocated` is true until the first of its members has had partitions."""

    name: str
    terms: Terms
    view: GroupView
    not_allocated: bool = True
    members: dict[str, MemberInfo] = field(default_factory=dict)
    due_s: float | None = None
    """When time changes something here by itself, seen from the last tick."""
    ticked_s: float = 0.0

    @property
    def complete(self) -> bool:
        """A bound group gets nothing before all its consumers are there for the first time."""
        return not self.terms.bound or not self.not_allocated or len(self.members) >= self.terms.total_count


class Groups:
    """All groups; `poke` is called when the next `tick` is due sooner than it was."""

    def __init__(
        self, brokers: Brokers, settings: MasterSettings, clock: Clock, poke: Callable[[], None], admission: Admission
    ) -> None:
        self.groups: dict[str, Group] = {}
        self.waiting = Waiting(limit=settings.max_held_heartbeats)
        self.rebalances = 0
        self._brokers = brokers
        self._clock = clock
        self._poke = poke
        self._max_per_connection = settings.max_clients_per_connection
        self._admission = admission
        self._peers = Peers(self._lost)
        self._timing = Timing(
            client_timeout_s=settings.client_timeout_s,
            lost_grace_s=settings.lost_connection_grace_s,
            event_timeout_s=settings.event_timeout_s,
            settle_s=settings.restart_grace_s,
        )
        # Ids of events go on from the clock, so that an acknowledgement for a Master before us matches none of ours.
        self._next_rebalance_id = clock.wall_ms()

    # --- what handlers do ---------------------------------------------------------------------------------------

    def join(
        self,
        name: str,
        member: str,
        terms: Terms,
        info: MemberInfo,
        *,
        holds: frozenset[Partition],
        allocated: bool,
        size_bytes: int = 0,
    ) -> Mismatch | None:
        """A consumer registers, for the first time or again; None when it is in."""
        group = self.groups.get(name)
        if group is not None:
            mismatch = check_terms(member, terms, group.terms)
            if mismatch is not None:
                return mismatch
        else:
            group = Group(name, terms, GroupView(timing=self._timing, next_rebalance_id=self._next_rebalance_id))
            self.groups[name] = group
        self._admission.enter(_key(name, member), size_bytes)
        group.members[member] = replace(info, joined_ms=group.members.get(member, info).joined_ms)
        if holds or allocated:
            group.not_allocated = False
        self.waiting.release((name, member))
        if not group.view.members:
            self._refresh(group)
        self.apply(group, Joined(member, holds))
        # A bound group may have become complete by this one: only now, so that the first does not get everything.
        self._refresh(group)
        logger.info("group %s: %s joined with %d partitions", name, member, len(holds))
        return None

    def check_room(self, name: str, member: str, connection: Connection, size_bytes: int) -> None:
        """Whether a consumer that says so much may join. Raises RefusalError."""
        self._peers.check_room((name, member), connection, most=self._max_per_connection)
        self._admission.check(_key(name, member), size_bytes)

    def said(self, name: str, member: str, size_bytes: int) -> None:
        """A consumer says so much in a heartbeat that tells what it holds."""
        self._admission.heard(_key(name, member), size_bytes)

    def find(self, name: str, member: str) -> Group | None:
        """The group of a registered consumer."""
        group = self.groups.get(name)
        return group if group is not None and member in group.members else None

    def seen(self, group: Group, member: str, connection: Connection) -> None:
        """A consumer spoke. Over a new connection: what the old one carried may be lost."""
        key = (group.name, member)
        if self._peers.seen(key, connection):
            self.waiting.release(key)
            self.apply(group, ConnectionLost(member))
        self.apply(group, CameBack(member))

    def leave(self, name: str, member: str) -> None:
        """A consumer says good-bye; an unknown one may, too."""
        group = self.find(name, member)
        if group is not None:
            logger.info("group %s: %s left", name, member)
            self._forget(group, member)
            self.apply(group, Left(member))

    def next_event(self, group: Group, member: str) -> Event | None:
        """What the consumer must be told now; it then counts as told."""
        for action in self.apply(group, Asked(member)):
            if isinstance(action, Tell):
                return action.event
        return None

    def hold(self, group: Group, member: str, wait_s: float, attempt: Attempt) -> None:
        """Answer a heartbeat now if there is something to say, else later."""
        self.waiting.hold((group.name, member), wait_s, attempt)

    def apply(self, group: Group, fact: Fact) -> tuple[Tell, ...]:
        """Let a group go on and carry out what follows; what must be told is handed back."""
        now_s = self._clock.now_s()
        group.view, actions = apply(group.view, fact, now_s=now_s)
        if isinstance(fact, Tick):
            group.ticked_s = now_s
        before_s, group.due_s = group.due_s, due_s(group.view, after_s=group.ticked_s)
        if group.due_s is not None and (before_s is None or group.due_s < before_s):
            self._poke()
        tell = []
        for action in actions:
            if isinstance(action, Wake):
                self.waiting.wake((group.name, action.member))
            elif isinstance(action, Tell):
                self.rebalances += 1
                logger.info(
                    "group %s: event %d tells %s to %s %d partitions",
                    group.name,
                    action.event.rebalance_id,
                    action.member,
                    action.event.op.name,
                    len(action.event.partitions),
                )
                tell.append(action)
            else:
                self._dropped(group, action)
        if not group.view.members:
            self._end(group)
        return tuple(tell)

    # --- what happens -------------------------------------------------------------------------------------------

    def partitions_changed(self) -> None:
        """Brokers or topics changed."""
        for group in list(self.groups.values()):
            self._refresh(group)

    def connection_lost(self, connection: Connection) -> None:
        """A connection broke."""
        self._peers.lost(connection)

    def tick(self, now_s: float) -> None:
        """Let time pass in every group where it changes something."""
        for group in list(self.groups.values()):
            if group.due_s is not None and group.due_s <= now_s:
                self.apply(group, Tick())

    def due_s(self) -> float | None:
        """When `tick` has something to do next."""
        return min((group.due_s for group in self.groups.values() if group.due_s is not None), default=None)

    # --- inside -------------------------------------------------------------------------------------------------

    def _refresh(self, group: Group) -> None:
        available, absent = self._brokers.consumable(group.terms.topics)
        if not group.complete:
            absent, available = absent | available, frozenset()
        fact = PartitionsChanged(available, absent)
        if group.view.members:
            self.apply(group, fact)
        else:  # it is just being made: there is nobody to tell, and it must not end for that
            group.view, _ = apply(group.view, fact, now_s=self._clock.now_s())

    def _lost(self, key: Hashable) -> None:
        assert isinstance(key, tuple)
        name, member = key
        self.waiting.drop(key)
        group = self.find(name, member)
        if group is not None:
            self.apply(group, ConnectionLost(member))

    def _dropped(self, group: Group, action: Dropped) -> None:
        logger.warning("group %s: %s is out: %s", group.name, action.member, action.reason)
        self._forget(group, action.member)

    def _forget(self, group: Group, member: str) -> None:
        """A consumer that is still waiting learns at once that it must register again."""
        key = (group.name, member)
        group.members.pop(member, None)
        self._admission.leave(_key(*key))
        self._peers.forget(key)
        self.waiting.release(key)

    def _end(self, group: Group) -> None:
        """The last one is gone: the group's terms are forgotten, its ids go on."""
        self._next_rebalance_id = max(self._next_rebalance_id, group.view.next_rebalance_id)
        if self.groups.get(group.name) is group:
            del self.groups[group.name]


def _key(name: str, member: str) -> Hashable:
    return ("consumer", name, member)
