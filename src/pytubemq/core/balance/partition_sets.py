"""Operations on sets of partitions that copy nothing where nothing changes.

The invariant: each gives what the operator of sets gives. A group may have 100,000 partitions, and mostly one side is
empty or both are the same set; a copy of that many takes 5 to 10 ms of the event loop.
"""

from __future__ import annotations

from collections import defaultdict
from operator import attrgetter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytubemq.model.ids import Partition

_ID: Final = attrgetter("partition_id")


def difference(
    partitions: frozenset[Partition], others: frozenset[Partition] | Mapping[Partition, object]
) -> frozenset[Partition]:
    """Return the partitions that are not among `others`."""
    # The method and not `-`: of dictionaries, too, it takes the hashes that are there.
    return partitions.difference(others) if partitions and others else partitions


def intersection(partitions: frozenset[Partition], others: frozenset[Partition]) -> frozenset[Partition]:
    """Return the partitions that are in both sets."""
    return partitions if partitions is others or partitions <= others else partitions & others


def union(partitions: frozenset[Partition], others: frozenset[Partition]) -> frozenset[Partition]:
    """Return the partitions that are in at least one of two sets."""
    if not partitions or not others:
        return partitions or others
    return partitions | others


def lowest(partitions: Iterable[Partition], most: int) -> list[Partition]:
    """Return the first `most` partitions in their natural order; only as many are sorted as it takes."""
    by_place: defaultdict[tuple[int, str], list[Partition]] = defaultdict(list)
    for partition in partitions:
        by_place[partition[:2]].append(partition)
    found: list[Partition] = []
    for place in sorted(by_place):
        if len(found) >= most:
            break
        found += sorted(by_place[place], key=_ID)
    return found[:most]
