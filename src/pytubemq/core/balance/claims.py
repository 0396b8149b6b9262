"""Who gets which partition first in a bound group.

Each consumer of a bound group says where to begin: it claims partitions, each with an offset. Where several claim the
same one, the group's terms decide (`select_big`): the largest offset wins, or the smallest. Consumers that claim the
same offset would all begin at the same message, so such partitions are spread evenly over them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytubemq.model.ids import Partition


def claimed(
    claims: Mapping[str, Mapping[Partition, int]],
    pool: frozenset[Partition],
    owners: Mapping[Partition, str],
    *,
    select_big: bool,
) -> dict[str, frozenset[Partition]]:
    """Share out the partitions of `pool` that are claimed.

    Args:
        claims: by consumer, in the order they joined; the offset per partition.
        pool: the partitions that can be read.
        owners: who has a partition already keeps it, if its claim is as good as any.
        select_big: the largest offset wins, else the smallest.
    """
    sign = 1 if select_big else -1
    wanted = sorted(pool.intersection({partition for mine in claims.values() for partition in mine}))
    given: dict[str, set[Partition]] = {name: set() for name in claims}
    for partition in wanted:
        offers = {name: sign * mine[partition] for name, mine in claims.items() if partition in mine}
        best = [name for name, offer in offers.items() if offer == max(offers.values())]
        owner = owners.get(partition)
        winner = owner if owner is not None and owner in best else min(best, key=lambda name: len(given[name]))
        given[winner].add(partition)
    return {name: frozenset(partitions) for name, partitions in given.items()}
