"""The assignment strategy of groups that the Master balances: the planned owner of each partition.

The invariant: every partition of the pool has exactly one owner in the plan, two members differ by at most one
partition, and of all such plans it is one that takes the fewest partitions away from who holds them.

Why few: a partition that moves is read again from its confirmed offset by its new owner, so each move costs time and
may repeat messages.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from pytubemq.core.balance.partition_sets import intersection, lowest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytubemq.model.ids import Partition

_TOPIC: Final = attrgetter("topic")
_ORDER_OF_TOPIC: Final = attrgetter("broker_id", "partition_id")
"""The natural order of partitions of one topic. Keys are sorted several times as fast as partitions are compared."""
_TO_HAND_OUT: Final = attrgetter("partition_id", "broker_id")


def plan_assignment(
    kept: Mapping[str, frozenset[Partition]],
    pool: frozenset[Partition],
    members: Sequence[str],
    *,
    last_to_move: frozenset[Partition] = frozenset(),
    barred: Mapping[str, frozenset[Partition]] | None = None,
) -> dict[str, frozenset[Partition]]:
    """Plan which member gets which partition of `pool`, spread over `members`.

    Args:
        kept: what each member holds and has not been asked to give up; no partition twice.
        pool: all partitions there are.
        members: in the order they joined, which breaks ties, so that the same facts give the same plan.
        last_to_move: partitions that are taken away only when nothing else is left to take (their Broker is away,
            so nobody else could use them).
        barred: what a member should not be given as long as there is another; the members may then differ by more.

    Returns:
        What each member should hold.
    """
    if not members:
        return {}
    if len(members) == 1:
        # All of it, whatever it holds or is barred from: there is nobody else.
        return {members[0]: pool}
    least, extra = divmod(len(pool), len(members))
    # Cut to the pool: what is there no more must not use up a member's share.
    held = {member: intersection(kept.get(member, frozenset()), pool) for member in members}
    # The members with the most keep the one extra: any other choice would take more away.
    ranked = sorted(members, key=lambda member: -len(held[member]))
    quota = {member: least + (1 if rank < extra else 0) for rank, member in enumerate(ranked)}
    target = {member: set(_retain(held[member], quota[member], last_to_move)) for member in members}
    # Surplus that its holder has yet to give up is in it, too. The plan is where the group ends; when a partition may
    # be handed on is decided by the transition, which waits for the acknowledgement.
    free = pool.difference(*target.values())
    _hand_out(free, target, quota, members, barred or {})
    return {member: _same_or_new(held[member], partitions) for member, partitions in target.items()}


def _by_topic(partitions: Iterable[Partition]) -> dict[str, list[Partition]]:
    """Return the partitions of each topic."""
    found: defaultdict[str, list[Partition]] = defaultdict(list)
    for partition in partitions:
        found[partition.topic].append(partition)
    return found


def _same_or_new(held: frozenset[Partition], target: set[Partition]) -> frozenset[Partition]:
    """Return the set itself where nothing changes, as most members hold what they should: one in memory, not two."""
    return held if held == target else frozenset(target)


def _retain(held: frozenset[Partition], quota: int, last_to_move: frozenset[Partition]) -> Iterable[Partition]:
    """Choose the partitions that a member keeps: the surplus comes from the topics it has most of."""
    if len(held) <= quota:
        return held
    count = Counter(map(_TOPIC, held))
    movable = _by_topic(held - last_to_move if last_to_move else held)
    # From the topic that the member has most of, so that the partitions of a topic spread over the members; the name
    # breaks ties, so that the same facts give the same plan. A heap, as there may be a thousand topics.
    names = sorted(movable, reverse=True)
    heap = [(-count[topic], rank) for rank, topic in enumerate(names)]
    heapq.heapify(heap)
    left = [len(movable[topic]) for topic in names]
    surplus = len(held) - quota
    while heap and surplus:
        negative_count, rank = heap[0]
        left[rank] -= 1
        surplus -= 1
        if left[rank]:
            heapq.heapreplace(heap, (negative_count + 1, rank))
        else:
            heapq.heappop(heap)
    taken: list[Partition] = []
    for topic, kept in zip(names, left, strict=True):
        partitions = movable[topic]
        if kept < len(partitions):
            # Sorted, since sets of texts iterate in another order in each process, and a replayed history must end
            # alike.
            partitions.sort(key=_ORDER_OF_TOPIC)
            taken += partitions[kept:]
    remaining = held.difference(taken)
    if len(remaining) > quota:
        # Nothing else is left to take: better a partition without a Broker moves than that the others stay unevenly
        # spread.
        return lowest(remaining, quota)
    return remaining


def _hand_out(
    free: Iterable[Partition],
    target: dict[str, set[Partition]],
    quota: Mapping[str, int],
    members: Sequence[str],
    barred: Mapping[str, frozenset[Partition]],
) -> None:
    """Give each free partition to a member below its quota, first to who has least of its topic."""
    # Counted once: to count in each of a thousand topics what a member has would cost topics times partitions.
    counts = {member: Counter(map(_TOPIC, target[member])) for member in members}
    for topic, partitions in sorted(_by_topic(free).items()):
        partitions.sort(key=_TO_HAND_OUT)
        # By count of this topic, then of all, then the order of joining: a heap, as there may be tens of thousands of
        # partitions.
        heap = [
            (counts[member][topic], len(target[member]), position, member)
            for position, member in enumerate(members)
            if len(target[member]) < quota[member]
        ]
        heapq.heapify(heap)
        for partition in partitions:
            # A bar is on one partition only, so who is passed over stays in the round for the others of the topic.
            passed_over = []
            while heap and barred and partition in barred.get(heap[0][3], ()):
                passed_over.append(heapq.heappop(heap))
            # The quotas add up to the pool, so without bars there is always somebody left.
            if heap:
                of_topic, total, position, member = heap[0]
                if total + 1 < quota[member]:
                    heapq.heapreplace(heap, (of_topic + 1, total + 1, position, member))
                else:
                    heapq.heappop(heap)
            else:
                member = _instead(partition, target, members, barred)
            target[member].add(partition)
            for of_topic, _, position, name in passed_over:
                # One of them may have been given it all the same, for want of another.
                if len(target[name]) < quota[name]:
                    heapq.heappush(heap, (of_topic + (name == member), len(target[name]), position, name))


def _instead(
    partition: Partition,
    target: Mapping[str, set[Partition]],
    members: Sequence[str],
    barred: Mapping[str, frozenset[Partition]],
) -> str:
    """Choose another owner than those with room for a partition: the one with the fewest, if need be one of those."""
    others = [member for member in members if partition not in barred.get(member, ())]
    # Beyond the quota if it must be: that members differ by two is better than a partition nobody reads.
    return min(others or members, key=lambda member: len(target[member]))
