"""The simulation at a small size: decisions touch the groups that a change concerns, however many there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bench.scale.cluster import Cluster, Shape
from bench.scale.members import Members
from bench.scale.steps import run

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytubemq.core.balance.facts import Fact
    from pytubemq.master.groups.group import Group

pytestmark = pytest.mark.anyio

SMALL = Shape(consumers=40, groups=8, topics=4, partitions=2, brokers=4, spread=2)
LARGE = Shape(consumers=160, groups=32, topics=16, partitions=2, brokers=16, spread=2)


async def filled(shape: Shape) -> Members:
    cluster = await Cluster.make(shape)
    for broker_id in cluster.catalogue.brokers:
        cluster.register(broker_id)
    members = Members(cluster)
    for _ in range(shape.consumers):
        members.join(members.new())
    cluster.groups.reset_counts()
    members.taken = 0
    return members


async def counts(shape: Shape, change: Callable[[Members], object]) -> tuple[int, int, int]:
    """The facts, the touched groups and the moves that a change costs in a cluster of this size."""
    members = await filled(shape)
    change(members)
    members.carry_out()
    groups = members.cluster.groups
    await members.cluster.catalogue.close()
    return groups.facts, len(groups.touched), members.taken


@pytest.mark.parametrize(
    "change",
    [
        lambda members: members.join(members.new()),
        lambda members: members.leave(next(iter(members.lines))),
        lambda members: members.lose(next(iter(members.lines))),
        lambda members: members.cluster.lose(1),
        lambda members: (members.cluster.lose(1), members.cluster.register(1)),
    ],
    ids=["a consumer joins", "one leaves", "one is lost", "a Broker is lost", "a Broker restarts"],
)
async def test_a_change_costs_the_same_in_a_cluster_four_times_as_large(change: Callable[[Members], object]) -> None:
    small, large = await counts(SMALL, change), await counts(LARGE, change)
    assert small[0] > 0
    assert large == small


async def test_a_topic_that_nobody_consumes_touches_no_group() -> None:
    members = await filled(SMALL)
    await members.cluster.create_topic(SMALL.topics)
    assert members.cluster.groups.facts == 0
    await members.cluster.catalogue.close()


async def test_a_look_at_the_clock_looks_at_no_group_that_is_not_due() -> None:
    members = await filled(SMALL)
    groups = members.cluster.groups
    looked = Looks(groups.groups)
    groups.groups = looked
    groups.tick(members.cluster.clock.now_s())
    assert groups.due_s() is not None
    assert looked.count == 0
    await members.cluster.catalogue.close()


async def test_what_does_not_fit_into_a_slice_follows_with_the_next_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    members = await filled(SMALL)
    cluster, groups = members.cluster, members.cluster.groups
    apply = groups.apply

    def slow(group: Group, fact: Fact) -> Any:
        cluster.clock.time_s += 1.0  # longer than a slice
        return apply(group, fact)

    monkeypatch.setattr(groups, "apply", slow)
    names = list(groups.groups)
    available = {name: groups.groups[name].view.available for name in names}
    del cluster.brokers.runs[1]
    groups.topics_changed(cluster.catalogue.topics_on(1))
    told = [name for name in names if groups.groups[name].view.available != available[name]]
    assert len(told) == 1, "one fact takes longer than a slice"
    due_s = groups.due_s()
    assert due_s is not None
    assert due_s <= cluster.clock.now_s(), "the others are due at once"
    newcomer = next(name for name in names if name not in told and available[name] & _of_broker(available[name], 1))
    members.register((newcomer, f"{newcomer}_new"))
    assert not _of_broker(groups.groups[newcomer].view.available, 1), "who joins sees the cluster as it is"
    for _ in names:
        groups.tick(cluster.clock.now_s())
    assert not any(_of_broker(group.view.available, 1) for group in groups.groups.values())
    await cluster.catalogue.close()


async def test_the_whole_simulation_moves_nothing_without_need() -> None:
    rows: dict[str, dict[str, Any]] = {}
    await run(SMALL, lambda row: rows.update({str(row["step"]): row}))
    assert rows["all are served"]["moves"] == SMALL.groups * SMALL.partitions * SMALL.spread
    assert rows["a heartbeat of each"]["moves"] == 0
    assert rows["a Broker restarts"]["moves"] == 0
    assert rows["a topic is created"]["moves"] == 0
    restarted = rows["the Master restarts"]
    assert restarted["moves"] == 0
    assert restarted["members_as_before"] == restarted["consumers"]
    assert restarted["balanced_groups"] == restarted["groups"] == SMALL.groups


class Looks(dict[str, Any]):
    """Groups that count how often all of them, or one, is looked at."""

    count = 0

    def __getitem__(self, name: str) -> Any:
        self.count += 1
        return super().__getitem__(name)

    def values(self) -> Any:
        self.count += len(self)
        return super().values()


def _of_broker(partitions: frozenset[Any], broker_id: int) -> frozenset[Any]:
    return frozenset(partition for partition in partitions if partition.broker_id == broker_id)
