"""The first assignment of partitions in a bound group.

Each consumer of a bound group says where to begin: it claims partitions, each with an offset. Where several claim the
same one, the group's terms decide (`select_big`): the largest offset wins, or the smallest. Consumers that claim the
same offset would all begin at the same message, so such partitions are spread evenly over them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytubemq.core.balance.partition_sets import difference, lowest

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pytubemq.model.ids import Partition


class Claim(NamedTuple):
    """The best claim on a partition: the offset, and all who claim it, in the order they joined."""

    offset: int
    claimers: tuple[str, ...]


def claim(
    best: Mapping[Partition, Claim], name: str, wanted: Mapping[Partition, int], *, select_big: bool
) -> Mapping[Partition, Claim]:
    """Return the best claims when one more consumer joins.

    Args:
        best: of those who joined before.
        name: the consumer.
        wanted: where it wants to begin, by partition.
        select_big: the largest offset wins, else the smallest.
    """
    # Nearly every member, as only those of bound groups claim anything.
    if not wanted:
        return best
    alone = (name,)
    if not best:
        return {partition: Claim(offset, alone) for partition, offset in wanted.items()}
    better = dict(best)
    # Claimers are few sets of names, each of up to 100,000 partitions: one tuple for all that have the same.
    joined: dict[tuple[str, ...], tuple[str, ...]] = {}
    for partition, offset in wanted.items():
        known = best.get(partition)
        if known is None or (offset > known.offset if select_big else offset < known.offset):
            better[partition] = Claim(offset, alone)
        # All of them are kept. The original gives the partition to the last to register and levels afterwards, which
        # moves it.
        elif offset == known.offset:
            claimers = joined.get(known.claimers)
            if claimers is None:
                claimers = joined[known.claimers] = (*known.claimers, name)
            better[partition] = Claim(offset, claimers)
    return better


def share_claimed(
    best: Mapping[Partition, Claim],
    pool: frozenset[Partition],
    owners: Mapping[Partition, str],
    members: Collection[str],
) -> dict[str, frozenset[Partition]]:
    """Divide the claimed partitions of `pool` among `members`.

    A member that has a partition already (`owners`) keeps it, if its claim is as good as any.
    """
    # Twice `difference`, as of a dictionary it takes the hashes that are there, and `intersection` does not.
    claimed = difference(pool, difference(pool, best))
    if len(members) == 1:
        (only,) = members
        return {only: difference(claimed, frozenset([p for p, found in best.items() if only not in found.claimers]))}
    given: dict[str, set[Partition]] = {name: set() for name in members}
    counts = dict.fromkeys(members, 0)
    # The order counts only between those who claim the same: who has fewer by then gets it.
    contested = any(len(found.claimers) > 1 for found in best.values())
    for partition in lowest(claimed, len(claimed)) if contested else claimed:
        claimers = best[partition].claimers
        if len(claimers) > 1 or claimers[0] not in given:
            claimers = tuple([name for name in claimers if name in given])
            owner = owners.get(partition)
            # The others would begin at the same offset, so taking it away would cost a hand-over and gain nothing.
            if owner is not None and owner in claimers:
                claimers = (owner,)
        if claimers:
            # `min` takes the first of equals, which is the first to join: the same facts give the same plan.
            name = claimers[0] if len(claimers) == 1 else min(claimers, key=counts.__getitem__)
            given[name].add(partition)
            counts[name] += 1
    return {name: frozenset(partitions) for name, partitions in given.items()}
