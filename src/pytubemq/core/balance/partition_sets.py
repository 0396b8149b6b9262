"""Operations on sets of partitions that copy nothing where nothing changes.

The invariant: each gives what the operator of sets gives. A group may have 100,000 partitions, and mostly one side is
empty or both are the same set; a copy of that many takes 5 to 10 ms of the event loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytubemq.model.ids import Partition


def without(
    partitions: frozenset[Partition], others: frozenset[Partition] | Mapping[Partition, object]
) -> frozenset[Partition]:
    """Return the partitions that are not among `others`."""
    # `difference` and not `-`: of dictionaries, too, it takes the hashes that are there.
    return partitions.difference(others) if partitions and others else partitions


def both(partitions: frozenset[Partition], others: frozenset[Partition]) -> frozenset[Partition]:
    """Return the partitions that are in both sets."""
    return partitions if partitions is others or partitions <= others else partitions & others


def either(partitions: frozenset[Partition], others: frozenset[Partition]) -> frozenset[Partition]:
    """Return the partitions that are in one of two sets."""
    if not partitions or not others:
        return partitions or others
    return partitions | others
