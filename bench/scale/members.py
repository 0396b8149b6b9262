"""Consumers without sockets: they call the Master's groups as the handlers do, and carry out every event at once."""

from __future__ import annotations

import random
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from bench.scale.cluster import Timings
from pytubemq.core.balance.consistency import Terms
from pytubemq.master.groups.group import MemberInfo
from pytubemq.model.ids import BrokerInfo
from pytubemq.wire.protocol.extensions import OURS
from pytubemq.wire.text.partition_strings import SubscribeInfo

if TYPE_CHECKING:
    from bench.scale.cluster import Cluster
    from pytubemq.core.balance.facts import Event
    from pytubemq.master.groups.group import Group
    from pytubemq.model.ids import Partition

_HELD_S = 3_600.0
"""How long a heartbeat is held: longer than any run, since time is put forward and timers are not."""


class Line:
    """A member's connection."""

    __slots__ = ("capabilities",)

    def __init__(self) -> None:
        self.capabilities = OURS


class Members:
    """The consumers of a simulated cluster."""

    def __init__(self, cluster: Cluster, *, seed: int = 1) -> None:
        self.cluster = cluster
        self.lines: dict[tuple[str, str], Line] = {}
        self.taken = 0
        """Partitions that members were sent in events that connect: the moves."""
        self.calls = Timings()
        """The time of every call of a member: registration, heartbeat with and without a result, leaving."""
        self.random = random.Random(seed)
        self._sent: deque[tuple[str, str, Event]] = deque()
        self._next = 0

    def new(self) -> tuple[str, str]:
        """Return a consumer that is not registered: its group and its name."""
        self._next += 1
        group = f"group{(self._next - 1) % self.cluster.shape.groups}"
        return group, f"{group}_127.0.0.1-{self._next}-1-1-Pull-1.0"

    def join(self, key: tuple[str, str], holds: frozenset[Partition] = frozenset()) -> None:
        """Register a consumer and let everybody do what follows."""
        self.register(key, holds)
        self.heartbeat(key)
        self.carry_out()

    def register(self, key: tuple[str, str], holds: frozenset[Partition] = frozenset()) -> None:
        """Register a consumer."""
        name, member = key
        groups, line = self.cluster.groups, Line()
        terms = Terms(frozenset({self.cluster.shape.topic_of(int(name.removeprefix("group")))}))
        info = MemberInfo("127.0.0.1", "127.0.0.1:1", 1)
        with self.calls.timed():
            mismatch = groups.join(name, member, terms, info, holds=holds, allocated=bool(holds), size_bytes=200)
            assert mismatch is None, mismatch
            groups.record_use(groups.groups[name], member, line)
        self.lines[key] = line

    def heartbeat(self, key: tuple[str, str]) -> None:
        """Send a heartbeat that is held until there is an event."""
        name, member = key
        groups = self.cluster.groups
        group = groups.find(name, member)
        assert group is not None, key
        with self.calls.timed():
            groups.record_use(group, member, self.lines[key])
            groups.hold(group, member, _HELD_S, partial(self._respond, group, member))

    def leave(self, key: tuple[str, str]) -> None:
        """Unregister a consumer and let the others do what follows."""
        del self.lines[key]
        with self.calls.timed():
            self.cluster.groups.leave(*key)
        self.carry_out()

    def lose(self, key: tuple[str, str]) -> None:
        """Break a consumer's connection; it does not come back."""
        with self.calls.timed():
            self.cluster.groups.connection_lost(self.lines.pop(key))

    def carry_out(self) -> None:
        """Carry out all events that were sent, and those that follow from them."""
        groups = self.cluster.groups
        while self._sent:
            name, member, event = self._sent.popleft()
            group = groups.groups[name]
            held = group.holds(member)
            if event.connects:
                self.taken += len(event.partitions)
            else:
                held = held.difference(event.partitions)
            with self.calls.timed():
                groups.record_use(group, member, self.lines[name, member])
                groups.record_result(group, member, event.rebalance_id, failed=False, holds=held)
            self.heartbeat((name, member))

    def readers(self) -> dict[int, list[SubscribeInfo]]:
        """Return who reads what, by Broker, as Brokers report it after a restart of the Master."""
        found: dict[int, list[SubscribeInfo]] = {}
        brokers = {one: BrokerInfo(one, record.address) for one, record in self.cluster.catalogue.brokers.items()}
        for name, group in self.cluster.groups.groups.items():
            for member in group.members:
                for partition in group.holds(member):
                    info = SubscribeInfo(member, name, brokers[partition.broker_id], partition)
                    found.setdefault(partition.broker_id, []).append(info)
        return found

    def _respond(self, group: Group, member: str, must: bool) -> bool:
        event = self.cluster.groups.next_event(group, member) if member in group.members else None
        if event is not None:
            self._sent.append((group.name, member, event))
        return event is not None or must
