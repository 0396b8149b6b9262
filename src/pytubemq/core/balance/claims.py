"""The first assignment of partitions in a bound group.

Each consumer of a bound group says where to begin: it claims partitions, each with an offset. Where several claim the
same one, the group's terms decide (`select_big`): the largest offset wins, or the smallest. Consumers that claim the
same offset would all begin at the same message, so such partitions are spread evenly over them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

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
    better = dict(best)
    for partition, offset in wanted.items():
        known = best.get(partition)
        if known is None or (offset > known.offset if select_big else offset < known.offset):
            better[partition] = Claim(offset, (name,))
        # All of them are kept. The original gives the partition to the last to register and levels afterwards, which
        # moves it.
        elif offset == known.offset:
            better[partition] = Claim(offset, (*known.claimers, name))
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
    given: dict[str, set[Partition]] = {name: set() for name in members}
    for partition in sorted(best.keys() & pool):
        owner = owners.get(partition)
        claimers = [name for name in best[partition].claimers if name in given]
        # The others would begin at the same offset, so taking it away would cost a hand-over and gain nothing.
        if owner is not None and owner in claimers:
            given[owner].add(partition)
        elif claimers:
            # `min` takes the first of equals, which is the first to join: the same facts give the same plan.
            given[min(claimers, key=lambda name: len(given[name]))].add(partition)
    return {name: frozenset(partitions) for name, partitions in given.items()}
