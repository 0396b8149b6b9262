"""The steps of the simulation: a cluster is filled, has a minute of churn, changes, and gets a new Master."""

from __future__ import annotations

import gc
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.scale.cluster import Cluster, Timings
from bench.scale.members import Members

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.scale.cluster import Shape

_HEARTBEAT_S = 10
_STORM_S = 10
"""Within so many seconds all come back to a Master that was restarted."""
_CHURN = 0.01
"""The part of the members that a minute replaces."""


async def run(shape: Shape, show: Callable[[dict[str, object]], None]) -> None:
    """Go through all steps; `show` is called with the figures of each."""
    cluster = await Cluster.make(shape)
    members = Members(cluster)
    for broker_id in cluster.catalogue.brokers:
        cluster.register(broker_id)
    before_kib = resident_kib()
    step = Step(members, show)
    for _ in range(shape.consumers):
        members.register(members.new())
    step.show("all register")
    for key in members.lines:
        members.heartbeat(key)
    members.carry_out()
    step.show("all are served", kib_per_member=round((resident_kib() - before_kib) / shape.consumers, 1))
    churn(step)
    lose_brokers(step)
    await cluster.create_topic(shape.topics)
    step.show("a topic is created")
    await restart(members, show)
    await cluster.catalogue.close()


class Step:
    """The figures of a step: what happened since the one before."""

    def __init__(self, members: Members, show: Callable[[dict[str, object]], None]) -> None:
        self.members = members
        self._show = show
        self._begin()

    def _begin(self) -> None:
        self.members.calls, self.members.cluster.turns = Timings(), Timings()
        self.members.taken = 0
        self.members.cluster.groups.reset_counts()
        self._began_s = time.process_time()

    def show(self, step: str, **more: object) -> None:
        """Show the figures, and begin the next step."""
        members, groups = self.members, self.members.cluster.groups
        taken_s = time.process_time() - self._began_s
        row: dict[str, object] = {"step": step, "consumers": len(members.lines), "groups": len(groups.groups)}
        row |= {"calls": members.calls.summary(), "turns": members.cluster.turns.summary()}
        row |= {"moves": members.taken, "facts": groups.facts, "groups_touched": len(groups.touched)}
        self._show({**row, "cpu_s": round(taken_s, 2), **more})
        self._begin()


def churn(step: Step) -> None:
    """A minute in which one member in a hundred joins, leaves or is lost, each as often, while all send heartbeats."""
    members = step.members
    cluster = members.cluster
    each = max(1, int(cluster.shape.consumers * _CHURN / 3))
    for _ in range(each):
        members.join(members.new())
    step.show("joins", changes=each)
    for key in members.random.sample(sorted(members.lines), each):
        members.leave(key)
    step.show("leaves", changes=each)
    for key in members.random.sample(sorted(members.lines), each):
        members.lose(key)
    forward(members, cluster.settings.lost_connection_grace_s)
    step.show("connections lost", changes=each)
    forward(members, _HEARTBEAT_S)
    step.show("a heartbeat of each")


def lose_brokers(step: Step) -> None:
    """Let a Broker restart, then be away for longer, then come back."""
    members = step.members
    cluster = members.cluster
    cluster.lose(1)
    members.carry_out()
    cluster.register(1)
    members.carry_out()
    step.show("a Broker restarts")
    cluster.lose(1)
    for _ in range(3):
        forward(members, cluster.settings.broker_absence_s / 2)
    step.show("a Broker is away")
    cluster.register(1)
    members.carry_out()
    step.show("it comes back")


def forward(members: Members, time_s: float) -> None:
    """Put the clock forward, let all members send a heartbeat, and have everything done that is due."""
    cluster = members.cluster
    cluster.clock.time_s += time_s
    for key in members.lines:
        members.heartbeat(key)
    cluster.brokers.tick(cluster.clock.now_s())
    cluster.rest()
    members.carry_out()


async def restart(before: Members, show: Callable[[dict[str, object]], None]) -> None:
    """Replace the Master: Brokers and members come back in any order and say what they have."""
    cluster = before.cluster.restarted()
    readers = before.readers()
    held = {key: before.cluster.groups.groups[key[0]].holds(key[1]) for key in before.lines}
    members = Members(cluster)
    step = Step(members, show)
    back: list[tuple[str, str] | int] = [*held, *cluster.catalogue.brokers]
    members.random.shuffle(back)
    for one in back:
        cluster.clock.time_s += _STORM_S / len(back)
        if isinstance(one, int):
            cluster.register(one, readers.get(one, ()))
            members.carry_out()
        else:
            members.join(one, held[one])
    forward(members, cluster.settings.restart_grace_s)
    groups = cluster.groups.groups.values()
    balanced = sum(group.view.balanced for group in groups)
    same = sum(cluster.groups.groups[name].holds(member) == holds for (name, member), holds in held.items())
    step.show("the Master restarts", balanced_groups=balanced, members_as_before=same)


def resident_kib() -> int:
    """Return the memory of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024
