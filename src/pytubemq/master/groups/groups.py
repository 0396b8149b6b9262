"""The consumer groups: their members, and the events that each must be sent.

Decisions are `core.balance`'s; this room feeds it facts and carries out its actions. The invariant: a held heartbeat
is answered in the same turn of the loop in which something changes; of a change that affects very many groups, those
beyond a slice follow in the next turns (`tick`).
"""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pytubemq.core.balance.consistency import GroupKind, Mismatch, Terms, check_node, check_terms
from pytubemq.core.balance.facts import (
    Acked,
    CameBack,
    ConnectionLost,
    Drained,
    Dropped,
    Event,
    Fact,
    Failed,
    HeartbeatReceived,
    Joined,
    Left,
    Reported,
    SendEvent,
    Tick,
    Unread,
    Wake,
)
from pytubemq.core.balance.transition import apply
from pytubemq.core.balance.view import GroupView, Timing, due_s
from pytubemq.core.refusal import Refused
from pytubemq.core.return_deadline import return_deadline_s
from pytubemq.errors import BadRequestError, Code, NotFoundError
from pytubemq.master.client_admission import NOWHERE
from pytubemq.master.client_connections import ClientConnections, Connection
from pytubemq.master.groups.due_times import DueTimes
from pytubemq.master.groups.group import Group, GroupCounters, MemberInfo, Pulse, consumer_key
from pytubemq.master.groups.group_story import GroupStory
from pytubemq.master.groups.partitions.available_partitions import AvailablePartitions
from pytubemq.master.groups.partitions.subscribers import Subscribers
from pytubemq.master.groups.readiness import members_for_rate, one_of_each
from pytubemq.master.groups.tracing import record_event
from pytubemq.master.held_heartbeats import Attempt, HeldHeartbeats
from pytubemq.master.stories.stories import names_of
from pytubemq.model.limits import FOREIGN_CONNECTION_GRACE_S, REJOIN_ROUND_S
from pytubemq.model.records import ClusterRecord, GroupRecord
from pytubemq.observe.trace_events import GROUP

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Mapping

    from pytubemq.master.brokers.brokers import Brokers
    from pytubemq.master.catalogue.catalogue import Catalogue
    from pytubemq.master.client_admission import ClientAdmission, Origin
    from pytubemq.master.groups.flow_control import FlowIds
    from pytubemq.master.settings import MasterSettings
    from pytubemq.model.ids import Partition
    from pytubemq.model.records import Record
    from pytubemq.net.clock import Clock
    from pytubemq.wire.text.partition_strings import SubscribeInfo

logger = logging.getLogger(__name__)

FOREIGN_MARGIN_S = 1.0
"""The grace period of a consumer that is not ours, beyond its own period, after its connection closed, in seconds."""
_SLICE_S: Final = 0.02
"""The seconds for which groups are updated in one turn of the loop after a change that affects many."""


class Groups:
    """All groups; `poke` is called when the next `tick` is due sooner than it was."""

    def __init__(
        self,
        catalogue: Catalogue,
        brokers: Brokers,
        settings: MasterSettings,
        clock: Clock,
        poke: Callable[[], None],
        admission: ClientAdmission,
    ) -> None:
        self.groups: dict[str, Group] = {}
        self.held = HeldHeartbeats(limit=settings.max_held_heartbeats)
        self.rebalances = 0
        self.counters = GroupCounters()
        self.brokers = brokers
        self._stories = brokers.stories
        self._story = GroupStory(brokers.stories)
        self._catalogue = catalogue
        self._available = AvailablePartitions(catalogue, brokers, clock)
        self._clock = clock
        self._poke = poke
        self._max_per_connection = settings.max_clients_per_connection
        self._admission = admission
        self._subscribers = Subscribers()
        self._due = DueTimes()
        self._stale: dict[str, None] = {}
        """Groups that have not been updated after the last change yet, in the order of their turns."""
        self._connections = ClientConnections(self._lost, on_foreign_lost=self._foreign_lost)
        self._timing = Timing(
            client_timeout_s=settings.consumer_silence_s,
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
        claims: Mapping[Partition, int] | None = None,
        size_bytes: int = 0,
        origin: Origin = NOWHERE,
    ) -> Mismatch | None:
        """Register a consumer, for the first time or again; return None when it is in.

        `claims` is where one of a bound group wants to begin.
        """
        self._make_way(name, member, info.node_id)
        group = self.groups.get(name)
        if group is not None:
            mismatch = check_terms(member, terms, group.terms)
            if mismatch is None and group.terms.counts_nodes:
                mismatch = check_node(member, info.node_id, group.nodes)
            if mismatch is not None:
                return mismatch
        else:
            group = self._make(name, terms)
        self._admission.enter(consumer_key(name, member), size_bytes, origin)
        if member in group.members:
            self._stories.record_group(name, "registered again", f"{member} from {info.peer}, with {names_of(holds)}")
        else:
            group.cause = f"{member} joined"
            self._stories.record_group(name, "joined", f"{member} from {info.peer}, with {names_of(holds)}")
        group.members[member] = replace(info, joined_ms=group.members.get(member, info).joined_ms)
        group.pulses[member] = Pulse(self._clock.now_s())
        if holds or allocated:
            group.not_allocated = False
            group.begun, group.needs = True, 0
        self.held.release((name, member))
        if not group.view.members:
            self._refresh(group)
        self.apply(group, Joined(member, holds, claims or {}, allocated))
        # The group may have become complete by this one: only now, so that the first does not get everything.
        self._refresh(group)
        logger.info("group %s: %s joined with %d partitions", name, member, len(holds))
        GROUP.record("joined", group=name, member=member, peer=info.peer, partitions=len(holds))
        return None

    def check_room(self, name: str, member: str, connection: Connection, size_bytes: int, origin: Origin) -> None:
        """Check that a consumer with a registration of this size may join. Raises Refused."""
        self._connections.check_room((name, member), connection, most=self._max_per_connection)
        self._admission.check(consumer_key(name, member), size_bytes, origin)

    def record_report(self, name: str, member: str, size_bytes: int) -> None:
        """Record the size of a heartbeat that reports what a consumer holds."""
        self._admission.record_report(consumer_key(name, member), size_bytes)

    def find(self, name: str, member: str) -> Group | None:
        """Return the group of a registered consumer."""
        group = self.groups.get(name)
        return group if group is not None and member in group.members else None

    def record_use(self, group: Group, member: str, connection: Connection) -> None:
        """Record that a consumer used a connection. What another one before carried may be lost."""
        key = (group.name, member)
        group.pulses[member].beat(self._clock.now_s())
        if self._connections.record_use(key, connection):
            self.held.release(key)
            self.apply(group, ConnectionLost(member))
        self.apply(group, CameBack(member))

    def record_result(
        self, group: Group, member: str, rebalance_id: int, *, failed: bool, holds: frozenset[Partition] | None
    ) -> None:
        """Record that a consumer carried out an event, or could not; `holds` if it reports what it has now."""
        self._allocate(group)  # before, so that the events below already carry it
        self.apply(group, Failed(member, rebalance_id, holds) if failed else Acked(member, rebalance_id))
        if holds is not None and not failed:
            self.apply(group, Reported(member, holds))
        self._allocate(group)

    def check_rate(self, name: str, topics: frozenset[str], count: int) -> None:
        """Check that this number of consumers may read so many Brokers. Raises Refused."""
        available, _ = self.brokers.topics.consumable_by_topic(topics)
        needs = members_for_rate(one_of_each(available), self._catalogue.groups.get(name))
        if count < needs:
            raise Refused(
                Code.BAD_REQUEST, f"group {name} declares {count} consumers but needs at least {needs} for its Brokers"
            )

    def leave(self, name: str, member: str) -> None:
        """Remove a consumer that leaves; an unknown one is ignored."""
        group = self.find(name, member)
        if group is not None:
            logger.info("group %s: %s left", name, member)
            GROUP.record("left", group=name, member=member)
            self._story.record_left(group, member, "it unregistered")
            self._forget(group, member)
            self.apply(group, Left(member))

    def make_room(self, name: str, member: str) -> None:
        """End a registration so that another client has room; the consumer may register again."""
        group = self.find(name, member)
        if group is not None:
            GROUP.record("left", group=name, member=member, reason="it made room for another client")
            self._story.record_left(group, member, "it made room for another client")
            self._forget(group, member)
            self.apply(group, Left(member))

    def next_event(self, group: Group, member: str) -> Event | None:
        """Return the event that the consumer must be sent now, and count it as sent; None if there is none."""
        for action in self.apply(group, HeartbeatReceived(member)):
            if isinstance(action, SendEvent):
                return action.event
        return None

    def hold(self, group: Group, member: str, wait_s: float, attempt: Attempt) -> None:
        """Answer a heartbeat now if something changed, else later."""
        self._admission.record_heartbeat(consumer_key(group.name, member))
        self.held.hold((group.name, member), wait_s, attempt)

    def apply(self, group: Group, fact: Fact) -> tuple[SendEvent, ...]:
        """Apply a fact to a group and carry out what follows; return the events that must be sent."""
        now_s = self._clock.now_s()
        group.view, actions = apply(group.view, fact, now_s=now_s)
        if isinstance(fact, Tick):
            group.ticked_s = now_s
        group.due_s = due_s(group.view, after_s=group.ticked_s)
        if group.due_s is not None and self._due.put(group.name, group.due_s):
            self._poke()
        events = []
        for action in actions:
            if isinstance(action, Wake):
                self.held.wake((group.name, action.member))
            elif isinstance(action, SendEvent):
                self.rebalances += 1
                record_event(group.name, action)
                if action.event.connects:
                    self.counters.connect_events += 1
                else:
                    self.counters.disconnect_events += 1
                self._stories.record_group(
                    group.name,
                    "assigned" if action.event.connects else "revoked",
                    f"{action.member}: {names_of(action.event.partitions)}",
                    group.cause,
                )
                events.append(action)
            else:
                self._dropped(group, action)
        if not group.view.members:
            self.counters.group_timeouts += any(isinstance(action, Dropped) for action in actions)
            self._end(group)
        return tuple(events)

    def rounds_left(self, group: Group, member: str) -> int:
        """Return for how many more rounds of `REJOIN_ROUND_S` a member gets nothing, as an operator asked."""
        until_s = group.view.members[member].out_until_s
        return 0 if until_s is None else max(0, math.ceil((until_s - self._clock.now_s()) / REJOIN_ROUND_S))

    # --- what operators ask for ---------------------------------------------------------------------------------

    def client_balance_groups(self) -> tuple[str, ...]:
        """Return the names of the client-balanced groups."""
        return tuple(sorted(name for name, group in self.groups.items() if group.kind is GroupKind.CLIENT_BALANCE))

    def consume_from_max(self, names: Iterable[str]) -> tuple[str, ...]:
        """Have client-balanced groups continue with the newest messages; return those that exist. In memory only."""
        now_ms = self._clock.wall_ms()
        found = [self.groups[name] for name in self.client_balance_groups() if name in set(names)]
        for group in found:
            group.from_max_id = max(now_ms, (group.from_max_id or 0) + 1)
            for member in list(group.members):
                self.held.wake((group.name, member))
        return tuple(group.name for group in found)

    def rebalance(self, name: str, members: Iterable[str], rejoin_wait: int) -> tuple[str, ...]:
        """Revoke all partitions of members; return those affected, not unknown ones nor ones already revoked.

        Args:
            name: of the group.
            members: client ids.
            rejoin_wait: how many rounds of `REJOIN_ROUND_S` they get nothing; 0 = they may get others at once.

        Raises:
            NotFoundError: there is no such group.
            BadRequestError: its members share the partitions among themselves.
        """
        group = self.groups.get(name)
        if group is None:
            raise NotFoundError(f"no group {name} has members", code=Code.NOT_FOUND)
        if group.kind is GroupKind.CLIENT_BALANCE:
            raise BadRequestError(f"group {name} balances its partitions itself", code=Code.BAD_REQUEST)
        free = {member for member, known in group.view.members.items() if known.out_until_s is None}
        affected = tuple(sorted(free.intersection(members)))
        until_s = self._clock.now_s() + max(0, rejoin_wait) * REJOIN_ROUND_S
        group.cause = f"an administrator took all partitions of {', '.join(affected) or 'nobody'}"
        self._stories.record_group(
            name, "drained", group.cause, f"they get no partitions for {rejoin_wait} rounds of {REJOIN_ROUND_S:.0f} s"
        )
        group.taken_ms.update(dict.fromkeys(affected, self._clock.wall_ms()))
        self.apply(group, Drained(frozenset(affected), until_s))
        logger.info("group %s: %s must give up all their partitions", name, ", ".join(affected) or "none")
        return affected

    # --- what happens -------------------------------------------------------------------------------------------

    def topics_changed(self, topics: Iterable[str]) -> None:
        """Update the groups of topics that may have become available or unavailable."""
        self._update(self._subscribers.of(topics))

    def records_changed(self, records: Collection[Record]) -> None:
        """Update the groups whose partitions may differ after a change of records."""
        names = self._subscribers.affected_by(records, self._catalogue.topics_on)
        self._update(self.groups if names is None else names)

    def broker_registered(self, broker_id: int, readers: Iterable[SubscribeInfo]) -> None:
        """Handle a new or returned Broker: members with partitions there that it does not know may have lost them.

        Ours register there again on their own. Others drop what the Broker does not know, and report so a minute later.
        """
        reads = {(info.group, info.consumer_id, info.partition) for info in readers}
        for name in self._subscribers.of(self._catalogue.topics_on(broker_id)):
            group = self.groups[name]
            if not group.view.planned:
                continue
            unread = {
                member: lost
                for member in group.view.members
                if not self._connections.is_ours((name, member)) and (lost := group.unread(member, broker_id, reads))
            }
            if unread:
                group.cause = f"broker {broker_id} does not know that {', '.join(sorted(unread))} read there"
                self.apply(group, Unread(unread))

    def rules_changed(self, records: Collection[Record], rules: Callable[[str], FlowIds]) -> None:
        """Answer the waiting members that have outdated flow-control rules after a change of records."""
        if any(isinstance(record, ClusterRecord) for record in records):
            names = list(self.groups)
        else:
            names = [record.group for record in records if isinstance(record, GroupRecord)]
        for group in [self.groups[name] for name in names if name in self.groups]:
            now = rules(group.name)
            for member in [member for member, rules in group.sent_rules.items() if rules != now]:
                self.held.wake((group.name, member))

    def connection_lost(self, connection: Connection) -> None:
        """Record that a connection broke."""
        self._connections.close(connection)

    def tick(self, now_s: float) -> None:
        """Update the groups that the last change has not reached yet, then those in which the time changes something.

        What does not fit into a slice is done in the next turns.
        """
        until_s = self._clock.now_s() + _SLICE_S
        self._catch_up(until_s)
        while self._clock.now_s() < until_s and (name := self._due.take(now_s)) is not None:
            group = self.groups[name]
            if group.due_s is not None and group.due_s <= now_s:
                self.apply(group, Tick())
            elif group.due_s is not None:
                self._due.put(name, group.due_s)

    def due_s(self) -> float | None:
        """Return when `tick` has something to do next; None if nothing is due."""
        return self._clock.now_s() if self._stale else self._due.next_s()

    # --- inside -------------------------------------------------------------------------------------------------

    def _make(self, name: str, terms: Terms) -> Group:
        planned = terms.kind is not GroupKind.CLIENT_BALANCE
        view = GroupView(
            name_bytes=len(name.encode()),
            planned=planned,
            reserving=terms.bound,
            select_big=terms.select_big,
            timing=self._timing,
            next_rebalance_id=self._next_rebalance_id,
        )
        # A client-balanced group never gets offsets to begin at from the Master.
        group = self.groups[name] = Group(name, terms, view, not_allocated=planned)
        self._subscribers.add(name, terms.topics)
        return group

    def _make_way(self, name: str, newcomer: str, node_id: int) -> None:
        """Release a node whose connection has been closed for a while, since its successor wants to join."""
        group = self.groups.get(name)
        holder = group.nodes.get(node_id, newcomer) if group is not None and group.terms.counts_nodes else newcomer
        if group is None or holder == newcomer:
            return
        lost_s = group.pulses[holder].lost_s
        if lost_s is not None and lost_s + self._timing.lost_grace_s <= self._clock.now_s():
            logger.info("group %s: %s, whose connection is closed, is replaced as node %d", name, holder, node_id)
            self._story.record_left(
                group, holder, f"its connection is closed, and {newcomer} replaces it as node {node_id}"
            )
            self._forget(group, holder)
            self.apply(group, Left(holder))

    def _update(self, names: Iterable[str]) -> None:
        """Update groups after a change, as many as fit into a slice; `tick` updates the others."""
        # A record may name a group that has no members.
        self._stale.update(dict.fromkeys(name for name in names if name in self.groups))
        self._catch_up(self._clock.now_s() + _SLICE_S)

    def _catch_up(self, until_s: float) -> None:
        while self._stale and self._clock.now_s() < until_s:
            self._refresh(self.groups[next(iter(self._stale))])

    def _refresh(self, group: Group) -> None:
        self._stale.pop(group.name, None)
        if group.view.planned:
            before = group.view.available
            for fact in self._available.facts(group):
                self._learn(group, fact)
            self._story.record_available(group, before)
        else:
            group.meta = self._available.meta(group)
            for member in list(group.members):  # waiting members learn of the change at once
                self.held.wake((group.name, member))

    def _learn(self, group: Group, fact: Fact) -> None:
        if group.view.members:
            self.apply(group, fact)
        else:  # it is being created: it has no member to notify, and must not end for that
            group.view, _ = apply(group.view, fact, now_s=self._clock.now_s())

    def _allocate(self, group: Group) -> None:
        """Record that members now begin where the group stopped; in a bound group only once all claims are assigned."""
        if not group.view.reserving:
            group.not_allocated = False

    def _lost(self, key: Hashable) -> None:
        """Handle a lost connection of one of our consumers: it comes back at once, or never."""
        self._connection_lost(key, None)

    def _foreign_lost(self, key: Hashable) -> None:
        """Handle a lost connection of another consumer: it does not notice before its next heartbeat."""
        assert isinstance(key, tuple)
        group = self.find(*key)
        if group is not None:
            pulse, now_s = group.pulses[key[1]], self._clock.now_s()
            grace_s = max(pulse.period_s + FOREIGN_MARGIN_S, FOREIGN_CONNECTION_GRACE_S)
            until_s = return_deadline_s(lost_s=now_s, beat_s=pulse.last_s, grace_s=grace_s)
            self._connection_lost(key, min(until_s - now_s, self._timing.client_timeout_s))

    def _connection_lost(self, key: Hashable, grace_s: float | None) -> None:
        assert isinstance(key, tuple)
        name, member = key
        self.held.drop(key)
        group = self.find(name, member)
        if group is not None:
            group.pulses[member].lost_s = self._clock.now_s()
            self.apply(group, ConnectionLost(member, grace_s))

    def _dropped(self, group: Group, action: Dropped) -> None:
        logger.warning("group %s: %s was removed: %s", group.name, action.member, action.reason)
        GROUP.record("left", group=group.name, member=action.member, reason=action.reason)
        self._story.record_left(group, action.member, action.reason)
        self.counters.timeouts += 1
        self.counters.client_balance_timeouts += group.kind is GroupKind.CLIENT_BALANCE
        self._forget(group, action.member)

    def _forget(self, group: Group, member: str) -> None:
        """Forget a member; one that is waiting learns at once that it must register again."""
        key = (group.name, member)
        group.members.pop(member, None)
        group.pulses.pop(member, None)
        group.taken_ms.pop(member, None)
        group.sent_rules.pop(member, None)
        self._admission.leave(consumer_key(*key))
        self._connections.forget(key)
        self.held.release(key)

    def _end(self, group: Group) -> None:
        """End a group whose last member is gone: its terms are forgotten, its ids go on."""
        self._next_rebalance_id = max(self._next_rebalance_id, group.view.next_rebalance_id)
        if self.groups.get(group.name) is group:
            del self.groups[group.name]
            self._subscribers.remove(group.name, group.terms.topics)
            self._due.forget(group.name)
            self._stale.pop(group.name, None)
